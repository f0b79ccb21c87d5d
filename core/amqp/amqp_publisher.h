/* Publishes wake-ups: task ids with a routing key, to RabbitMQ's exchange.
 *
 * A thread of its own does everything that can block (rabbitmq-c can block in any send), so no call
 * here waits longer than it says. A wake-up that is lost costs time only: the row is the truth. So
 * what cannot be published soon is dropped: while RabbitMQ is away or has an alarm, and when too
 * many are pending. A queue that holds as many as it may refuses the next; then none is sent there
 * for a moment, as workers with such a backlog poll. The thread connects when it has something to
 * publish, and again after a fault, with a jittered pause of 0.1 s doubling to 10 s. Messages are
 * transient, their body is the id in decimal; RabbitMQ drops those of a kind that no worker serves.
 */
#ifndef TENON_CORE_AMQP_PUBLISHER_H
#define TENON_CORE_AMQP_PUBLISHER_H

#include "core/amqp/amqp_topology.h"

#include <stdint.h>

enum {
    PUBLISHER_PENDING_MAX = 65536, /* wake-ups offered and not yet sent */
};

struct publisher;

/* A task's id and where it is published. */
struct wakeup {
    struct wakeup *prev, *next; /* of its owner's list (utlist.h) */
    int64_t id;
    const char *key; /* behind the exchange */
    char exchange[];
};

/* NULL: no memory, or a name is too long. free() frees one, wakeups_free() a list. */
struct wakeup *wakeup_new(const char *exchange, const char *key, int64_t id);
void wakeups_free(struct wakeup **list);

struct publisher_settings {
    const char *url;      /* amqp:// or amqps://; copied */
    const char *name;     /* shown in RabbitMQ's list of connections; copied */
    const char *exchange; /* declare it at once, for the cleaner; NULL = only publish. Copied. */
};

/* Whatever was offered is one of these in the end. */
struct publisher_stats {
    int64_t published; /* RabbitMQ confirmed it, though it drops what has no queue */
    int64_t held_back; /* refused by a full queue, or not sent to it */
    int64_t dropped;   /* not published, or lost with the connection */
    bool connected;
    char last_error[256]; /* "" while all is well */
};

/* Start the thread; if there is no exchange to declare it connects to nothing yet. false: CONFIG
 * (the URL), MEMORY. */
MUST_CHECK bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                               struct fault *f);

/* Offer a wake-up, which is the publisher's from now on. Never waits. false: dropped, held back, or
 * NULL. */
bool publisher_offer(struct publisher *p, struct wakeup *w);

/* Would an offer be dropped now because RabbitMQ is away or has an alarm? */
bool publisher_is_away(const struct publisher *p);

/* Wait until all that was offered is published, held back or dropped. false: not in limit_ms. */
bool publisher_flush(struct publisher *p, int64_t limit_ms);

void publisher_stats(struct publisher *p, struct publisher_stats *ret);

/* Flush for at most limit_ms, end the thread within another half second (a stuck socket is shut
 * down), free. NULL is fine. */
void publisher_close(struct publisher *p, int64_t limit_ms);

/* In a forked child: forget the parent's publisher. Its connection is not touched; its memory,
 * whose state at the fork nobody knows, is left where it is. */
void publisher_abandon(struct publisher *p);

#endif
