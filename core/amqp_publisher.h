/* Publishes wake-ups: task ids, with confirms that nobody waits for.
 *
 * A thread of its own does everything that can block (rabbitmq-c can block in any send), so no
 * call here waits longer than it says. A wake-up that is lost costs time only: the row is the
 * truth. The thread connects when it has something to publish, and again after a fault, with a
 * jittered pause of 0.1 s doubling to 10 s. Every PUBLISHER_ASK_EVERY publishes or second it
 * asks for a queue's depth, and above the window it drops what is offered: RabbitMQ holds a
 * window on the backlog, never the backlog (about: what was under way when the depth was asked
 * for may come on top). Exchange `tenon` (direct, durable), routing key = queue name, queue
 * `tenon.<queue>` (durable); the messages are transient and mandatory, the body is the id in
 * decimal. */
#ifndef TENON_CORE_AMQP_PUBLISHER_H
#define TENON_CORE_AMQP_PUBLISHER_H

#include "core/amqp_url.h" /* amqp_url_mask() */
#include "core/fault.h"

#include <stdint.h>

enum {
    PUBLISHER_WINDOW_IDS = 10000,  /* default of `window` */
    PUBLISHER_PENDING_MAX = 65536, /* ids offered and not yet sent */
    PUBLISHER_ASK_EVERY = 1000,    /* publishes between two looks at a queue's depth */
    PUBLISHER_QUEUES_MAX = 1024,
};

struct publisher;

struct publisher_settings {
    const char *url;  /* amqp:// or amqps://; copied */
    const char *name; /* shown in RabbitMQ's list of connections; copied */
    int64_t window;   /* ids a queue may hold; 0 = PUBLISHER_WINDOW_IDS */
    /* Declare exchange, queues of this type ("classic", "quorum") and bindings, for the cleaner;
     * NULL = only publish. Copied. */
    const char *declare;
};

struct publisher_stats {
    int64_t offered, published, confirmed;
    int64_t dropped;     /* not published: full, over the window, or no broker */
    int64_t unconfirmed; /* published and refused by RabbitMQ, or lost with the connection */
    int64_t returned;    /* the queue does not exist */
    bool connected;
    char last_error[256]; /* "" while all is well */
};

/* Start the thread; connects to nothing yet. false: CONFIG (the URL), MEMORY. */
MUST_CHECK bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                               struct fault *f);

/* Offer a wake-up. Never waits. false: dropped (too many are pending, or the broker is away). */
bool publisher_offer(struct publisher *p, const char *queue, int64_t id);

/* Would an offer be dropped now because the broker is away or blocked by an alarm? */
bool publisher_is_away(struct publisher *p);

/* How many more ids `queue` may be offered now: window minus depth as last asked, minus what was
 * published since; asks again when that is older than a second. -1 = not known (no broker). */
int64_t publisher_room(struct publisher *p, const char *queue);

/* Make sure that `queue` is declared and bound; done by the thread. Only with settings.declare. */
void publisher_declare(struct publisher *p, const char *queue);

/* Wait until all that was offered is confirmed or dropped, and all that was asked is answered.
 * false: not within limit_ms. */
bool publisher_flush(struct publisher *p, int64_t limit_ms);

void publisher_stats(struct publisher *p, struct publisher_stats *ret);

/* Flush for at most limit_ms, end the thread within another half second (a stuck socket is shut
 * down), free. NULL is fine. */
void publisher_close(struct publisher *p, int64_t limit_ms);

/* In a forked child: forget the parent's publisher. Its connection is not touched; its memory,
 * whose state at the fork nobody knows, is left where it is. */
void publisher_abandon(struct publisher *p);

/* Declare the exchange, and for each queue `tenon.<queue>` of this type and its binding, now, with
 * time limits; for tenon setup. false: RETRY the broker is away; CONFIG not allowed, or declared
 * otherwise. */
MUST_CHECK bool amqp_declare(const char *url, const char *type, const char *const *queues, size_t n,
                             struct fault *f);

#endif
