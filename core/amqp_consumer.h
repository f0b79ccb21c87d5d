/* Receives wake-ups on a thread of its own and tells them to one owner.
 *
 * The thread connects, declares nothing (a queue that is missing is asked for again every few
 * seconds), consumes from all queues on one channel with one prefetch budget, and reconnects for
 * ever with a jittered pause of 0.1 s doubling to 10 s. Bodies that are not one decimal id of
 * 1..2^63-1 are rejected without requeue and counted. Acks carry the epoch of their channel; those
 * of an older epoch are dropped. A watchdog notices a consumer that was cancelled, a queue that
 * was deleted or purged and made again, and one that holds messages and delivers none: two looks
 * without a delivery, and the link is made again. */
#ifndef TENON_CORE_AMQP_CONSUMER_H
#define TENON_CORE_AMQP_CONSUMER_H

#include "core/amqp_url.h" /* amqp_url_mask() */
#include "core/fault.h"

#include <stdint.h>

enum {
    CONSUMER_BATCH_MAX = 1024,    /* ids in one event */
    CONSUMER_BODY_BYTES_MAX = 20, /* a longer body is no id */
    CONSUMER_WATCH_MS = 30000,
};

struct consumer;

/* UP comes with every new epoch: after a connect, after consumer_prefetch(c, 0), and when the
 * server closed the channel. Ids of older epochs that were not acked come again. DOWN comes when
 * the link is lost or cannot be made, and again only when the reason is another; also, before the
 * next UP, when RabbitMQ closed the channel, or refuses a queue: the others are served, and it is
 * tried again. */
struct consumer_event {
    enum { CONSUMER_UP, CONSUMER_DOWN, CONSUMER_WAKEUPS } type;
    int64_t epoch;      /* counts channels; UP and WAKEUPS */
    size_t n;           /* WAKEUPS: 1..CONSUMER_BATCH_MAX */
    const int64_t *ids; /* borrowed for the call */
    uint64_t last_tag;  /* WAKEUPS: the tag of the last id; its ack covers all before */
    const char *text;   /* DOWN: why; UP: host and port; borrowed */
    int64_t hostile;    /* bodies rejected since the last event */
};

struct consumer_settings {
    const char *url;           /* copied */
    const char *name;          /* shown in RabbitMQ's list of connections; copied */
    const char *const *queues; /* names without "tenon."; copied */
    size_t n_queues;
    int64_t watch_ms; /* how often the watchdog looks; 0 = CONSUMER_WATCH_MS */
    /* Called on the consumer's thread; must not block. May call consumer_ack() and
     * consumer_prefetch(). */
    void (*on_event)(void *owner, const struct consumer_event *event);
    void *owner;
};

/* Start the thread. It consumes nothing until consumer_prefetch(). false: CONFIG (the URL), MEMORY,
 * RETRY (the system has no thread or descriptor left). */
MUST_CHECK bool consumer_open(const struct consumer_settings *settings, struct consumer **ret,
                              struct fault *f);

/* All of these only leave word for the thread, and never wait. */
void consumer_ack(struct consumer *c, int64_t epoch, uint64_t last_tag); /* multiple */
/* At most `n` ids unacked over all queues; 0 = stop consuming and give unacked ids back. */
void consumer_prefetch(struct consumer *c, int n);

/* End the thread within limit_ms and another quarter of a second (a stuck socket is shut down),
 * sending what acks are left; free. No event comes after this was called. */
void consumer_close(struct consumer *c, int64_t limit_ms);

#endif
