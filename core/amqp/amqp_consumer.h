/* Receives wake-ups on a thread of its own and hands them to one owner.
 *
 * The thread connects, declares and binds a queue for each routing key (amqp_topology.h), consumes
 * all of them on one channel, and reconnects for ever with a jittered pause of 0.1 s doubling to
 * 10 s. Nothing is repaired: whatever goes wrong, a queue that somebody deletes too, it connects
 * again. Bodies that are not one decimal id of 1..2^63-1 are rejected without requeue and counted.
 * Acks carry the epoch of their channel; those of an older epoch are dropped. */
#ifndef TENON_CORE_AMQP_CONSUMER_H
#define TENON_CORE_AMQP_CONSUMER_H

#include "core/amqp/amqp_url.h" /* amqp_url_mask() */
#include "core/base/fault.h"

#include <stdint.h>

enum {
    CONSUMER_BATCH_MAX = 1024,    /* ids in one event */
    CONSUMER_BODY_BYTES_MAX = 20, /* a longer body is no id */
    CONSUMER_KEYS_MAX = 1000,     /* routing keys */
    CONSUMER_PREFETCH_LEAST = 16, /* of one queue, unless the whole budget is smaller */
};

struct consumer;

/* UP comes with every new epoch: after a connect, and after consumer_prefetch() where it changes
 * what is consumed already. Ids of older epochs that were not acked come again. DOWN comes when the
 * link is lost or cannot be made, and again only when the reason is another. */
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
    const char *url;      /* copied */
    const char *exchange; /* copied */
    const char *keys;     /* 1..CONSUMER_KEYS_MAX routing keys, separated by blanks; copied */
    /* Called on the consumer's thread; must not block. May call consumer_ack() and
     * consumer_prefetch(). */
    void (*on_event)(void *owner, const struct consumer_event *event);
    void *owner;
};

/* Start the thread. It consumes nothing until consumer_prefetch(). false: CONFIG (the URL, a name,
 * too many keys), MEMORY, RETRY (the system has no thread or descriptor left). */
MUST_CHECK bool consumer_open(const struct consumer_settings *settings, struct consumer **ret,
                              struct fault *f);

/* Requests to the thread; neither waits. */
void consumer_ack(struct consumer *c, int64_t epoch, uint64_t last_tag); /* multiple */
/* About `n` ids unacked over all queues, 0..65535; 0 = stop consuming, give unacked ids back. */
void consumer_prefetch(struct consumer *c, int n);

/* End the thread within limit_ms and another quarter of a second (a stuck socket is shut down),
 * sending what acks are left; free. No event comes after this was called. */
void consumer_close(struct consumer *c, int64_t limit_ms);

#endif
