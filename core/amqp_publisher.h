/* Publishes wake-ups: task ids with a routing key, to RabbitMQ's exchange.
 *
 * A thread of its own does everything that can block (rabbitmq-c can block in any send), so no call
 * here waits longer than it says. A wake-up that is lost costs time only: the row is the truth. So
 * what cannot be published soon is dropped: while RabbitMQ is away or has an alarm, and when too
 * many are pending. The thread connects when it has something to publish, and again after a fault,
 * with a jittered pause of 0.1 s doubling to 10 s. Messages are transient, their body is the id in
 * decimal; RabbitMQ drops those of a kind that no worker serves. */
#ifndef TENON_CORE_AMQP_PUBLISHER_H
#define TENON_CORE_AMQP_PUBLISHER_H

#include "core/amqp_topology.h"

#include <stdint.h>

enum {
    PUBLISHER_PENDING_MAX = 65536, /* ids offered and not yet sent */
    PUBLISHER_NAME_BYTES = 128,
};

struct publisher;

struct publisher_settings {
    const char *url;      /* amqp:// or amqps://; copied */
    const char *name;     /* shown in RabbitMQ's list of connections; copied */
    const char *exchange; /* declare it at once, for the cleaner; NULL = only publish. Copied. */
};

struct publisher_stats {
    int64_t offered, published;
    int64_t confirmed;   /* RabbitMQ has it, or dropped it for want of a queue */
    int64_t dropped;     /* not published */
    int64_t unconfirmed; /* published and refused by RabbitMQ, or lost with the connection */
    bool connected;
    char last_error[256]; /* "" while all is well */
};

/* Start the thread; if there is no exchange to declare it connects to nothing yet. false: CONFIG
 * (the URL), MEMORY. */
MUST_CHECK bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                               struct fault *f);

/* Offer a wake-up. Never waits. false: dropped. */
bool publisher_offer(struct publisher *p, const char *exchange, const char *key, int64_t id);

/* Would an offer be dropped now because RabbitMQ is away or has an alarm? */
bool publisher_is_away(struct publisher *p);

/* Wait until all that was offered is confirmed or dropped. false: not within limit_ms. */
bool publisher_flush(struct publisher *p, int64_t limit_ms);

void publisher_stats(struct publisher *p, struct publisher_stats *ret);

/* Flush for at most limit_ms, end the thread within another half second (a stuck socket is shut
 * down), free. NULL is fine. */
void publisher_close(struct publisher *p, int64_t limit_ms);

/* In a forked child: forget the parent's publisher. Its connection is not touched; its memory,
 * whose state at the fork nobody knows, is left where it is. */
void publisher_abandon(struct publisher *p);

#endif
