#include "core/amqp/amqp_consumer.h"

#include "core/amqp/amqp_delivery.h"
#include "core/amqp/amqp_link.h"
#include "core/amqp/amqp_thread.h"
#include "core/amqp/amqp_topology.h"
#include "core/base/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct consumer {
    struct amqp_thread thread;
    char exchange[TOPOLOGY_EXCHANGE_BYTES];
    char *keys; /* each with its NUL */
    int n_keys;

    pthread_mutex_t event_lock; /* held while the owner is called */
    bool silent;
    void (*on_event)(void *owner, const struct consumer_event *event);
    void *owner;

    atomic_int request_prefetch;
    pthread_mutex_t request_lock; /* of the ack */
    int64_t request_epoch;
    uint64_t request_tag;

    /* the rest is the thread's */
    char down_text[FAULT_TEXT_BYTES_MAX];
    int64_t epoch;
    int prefetch;
    uint64_t last_tag, acked_tag;
    struct delivery delivery;
    size_t n_ids;
    int64_t ids[CONSUMER_BATCH_MAX];
    uint64_t ids_tag; /* of the last of them; one that was rejected may follow, and has no ack */
    int64_t hostile;
};

/* --- events ----------------------------------------------------------------------------------- */

static void report(struct consumer *c, struct consumer_event *event)
{
    event->hostile = c->hostile;
    c->hostile = 0;
    (void)pthread_mutex_lock(&c->event_lock);
    if (!c->silent) {
        c->on_event(c->owner, event);
    }
    (void)pthread_mutex_unlock(&c->event_lock);
}

static void report_wakeups(struct consumer *c)
{
    if (c->n_ids > 0) {
        report(c, &(struct consumer_event){.type = CONSUMER_WAKEUPS,
                                           .epoch = c->epoch,
                                           .n = c->n_ids,
                                           .ids = c->ids,
                                           .last_tag = c->ids_tag});
        c->n_ids = 0;
    }
}

/* --- the link --------------------------------------------------------------------------------- */

/* A new channel is a new epoch: what was unacked on the old one is delivered again. */
static void begin_epoch(struct consumer *c)
{
    c->epoch++;
    c->last_tag = c->acked_tag = 0;
    c->delivery = (struct delivery){0};
    c->n_ids = 0;
    c->prefetch = 0;
    report(c, &(struct consumer_event){.type = CONSUMER_UP,
                                       .epoch = c->epoch,
                                       .text = c->thread.link->where});
}

/* Do something with each key. */
static bool each_key(struct consumer *c,
                     bool (*act)(struct consumer *, const char *, struct fault *), struct fault *f)
{
    const char *key = c->keys;
    for (int i = 0; i < c->n_keys; i++, key += strlen(key) + 1) {
        if (atomic_load(&c->thread.ending)) {
            return fault_set(f, FAULT_RETRY, "the worker stops");
        }
        if (!act(c, key, f)) {
            return false;
        }
        amqp_maybe_release_buffers(c->thread.link->conn);
    }
    return true;
}

static bool declare(struct consumer *c, const char *key, struct fault *f)
{
    return topology_declare_queue(c->thread.link, c->exchange, key, f);
}

static bool up(void *owner, struct fault *f)
{
    struct consumer *c = owner;
    if (!each_key(c, declare, f)) {
        return false;
    }
    c->down_text[0] = '\0';
    begin_epoch(c);
    return true;
}

/* Reported once, and again only when the reason is another. */
static void down(void *owner, const struct fault *f)
{
    struct consumer *c = owner;
    c->n_ids = 0;
    if (strcmp(f->text, c->down_text) != 0) {
        (void)snprintf(c->down_text, sizeof c->down_text, "%s", f->text);
        report(c, &(struct consumer_event){.type = CONSUMER_DOWN, .text = f->text});
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static bool send_ack(struct consumer *c, struct fault *f)
{
    (void)pthread_mutex_lock(&c->request_lock);
    uint64_t tag = c->request_epoch == c->epoch ? c->request_tag : 0;
    (void)pthread_mutex_unlock(&c->request_lock);
    /* a tag that was never delivered would cost the channel */
    if (tag <= c->acked_tag || tag > c->last_tag) {
        return true;
    }
    c->acked_tag = tag;
    return link_sent(c->thread.link, amqp_basic_ack(c->thread.link->conn, LINK_CHANNEL, tag, 1),
                     "could not ack", f) &&
           !POINT_FAILS(ack_sent, f);
}

/* A channel's budget as a whole is what RabbitMQ is about to give up; each queue has its share,
 * but enough that one kind alone does not trickle. */
static uint16_t share_of(const struct consumer *c)
{
    int least = c->prefetch < CONSUMER_PREFETCH_LEAST ? c->prefetch : CONSUMER_PREFETCH_LEAST;
    int share = c->prefetch / c->n_keys;
    return (uint16_t)(share < least ? least : share);
}

static bool consume(struct consumer *c, const char *key, struct fault *f)
{
    char name[TOPOLOGY_NAME_BYTES];
    topology_name(c->exchange, key, name);
    (void)amqp_basic_consume(c->thread.link->conn, LINK_CHANNEL, amqp_cstring_bytes(name),
                             amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    return link_answer(c->thread.link, "could not consume", f);
}

static bool consume_all(struct consumer *c, struct fault *f)
{
    (void)amqp_basic_qos(c->thread.link->conn, LINK_CHANNEL, 0, share_of(c), 0);
    return link_answer(c->thread.link, "could not set the prefetch", f) && each_key(c, consume, f);
}

/* RabbitMQ reads a consumer's prefetch when it begins: another prefetch is another channel, and
 * closing the old one gives back what is unacked. */
static bool apply_prefetch(struct consumer *c, struct fault *f)
{
    int wanted = atomic_load(&c->request_prefetch);
    if (wanted == c->prefetch) {
        return true;
    }
    if (c->prefetch > 0) {
        /* an ack that was given before must not be lost with the channel */
        if (!send_ack(c, f) || !link_renew_channel(c->thread.link, f)) {
            return false;
        }
        begin_epoch(c);
    }
    c->prefetch = wanted;
    return wanted == 0 || consume_all(c, f);
}

/* --- frames ----------------------------------------------------------------------------------- */

static bool take_frame(void *owner, const amqp_frame_t *frame, struct fault *f)
{
    struct consumer *c = owner;
    int64_t id;
    if (frame->frame_type == AMQP_FRAME_METHOD &&
        frame->payload.method.id == AMQP_BASIC_CANCEL_METHOD) {
        return fault_set(f, FAULT_RETRY, "RabbitMQ cancelled a consumer, its queue is gone");
    }
    switch (delivery_take(&c->delivery, frame, &id)) {
    case DELIVERY_MORE:
        return true;
    case DELIVERY_ID:
        c->ids[c->n_ids++] = id;
        c->ids_tag = c->last_tag = c->delivery.tag;
        if (c->n_ids == CONSUMER_BATCH_MAX) {
            report_wakeups(c);
        }
        return true;
    case DELIVERY_HOSTILE:
        c->hostile++;
        c->last_tag = c->delivery.tag;
        return link_sent(c->thread.link,
                         amqp_basic_reject(c->thread.link->conn, LINK_CHANNEL, c->delivery.tag, 0),
                         "could not reject a message", f);
    case DELIVERY_UNEXPECTED:
        break;
    }
    return fault_set(f, FAULT_RETRY, "RabbitMQ sent frames in an order that AMQP does not have");
}

static bool work(void *owner, struct fault *f)
{
    struct consumer *c = owner;
    if (!send_ack(c, f) || !link_take_frames(c->thread.link, take_frame, c, f)) {
        return false;
    }
    report_wakeups(c);
    return apply_prefetch(c, f);
}

/* --- for everybody ---------------------------------------------------------------------------- */

static void destroy(void *owner)
{
    struct consumer *c = owner;
    free(c->keys);
    free(c);
}

static bool take_keys(struct consumer *c, const char *keys, struct fault *f)
{
    c->keys = strdup(keys);
    if (!c->keys) {
        return fault_memory(f);
    }
    c->n_keys = 1;
    for (char *blank = c->keys; (blank = strchr(blank, ' ')); c->n_keys++) {
        *blank++ = '\0';
    }
    return c->n_keys <= CONSUMER_KEYS_MAX ||
           fault_set(
               f, FAULT_CONFIG,
               "the worker serves %d pairs of a queue and a kind, and at most %d are allowed: "
               "spread them over several workers",
               c->n_keys, CONSUMER_KEYS_MAX);
}

bool consumer_open(const struct consumer_settings *settings, struct consumer **ret, struct fault *f)
{
    static const struct amqp_duty duty = {up, work, down, destroy};
    struct consumer *c = calloc(1, sizeof *c);
    if (!c) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&c->event_lock, NULL);
    (void)pthread_mutex_init(&c->request_lock, NULL);
    (void)snprintf(c->exchange, sizeof c->exchange, "%s", settings->exchange);
    c->on_event = settings->on_event;
    c->owner = settings->owner;
    if (!take_keys(c, settings->keys, f) ||
        !amqp_thread_start(&c->thread, settings->url, "tenon worker", &duty, c, f)) {
        destroy(c);
        return false;
    }
    amqp_thread_want(&c->thread);
    *ret = c;
    return true;
}

void consumer_ack(struct consumer *c, int64_t epoch, uint64_t last_tag)
{
    (void)pthread_mutex_lock(&c->request_lock);
    if (epoch > c->request_epoch || (epoch == c->request_epoch && last_tag > c->request_tag)) {
        c->request_epoch = epoch;
        c->request_tag = last_tag;
    }
    (void)pthread_mutex_unlock(&c->request_lock);
    amqp_thread_want(&c->thread);
}

void consumer_prefetch(struct consumer *c, int n)
{
    atomic_store(&c->request_prefetch, n);
    amqp_thread_want(&c->thread);
}

void consumer_close(struct consumer *c, int64_t limit_ms)
{
    if (!c) {
        return;
    }
    (void)pthread_mutex_lock(&c->event_lock);
    c->silent = true;
    (void)pthread_mutex_unlock(&c->event_lock);
    amqp_thread_end(&c->thread, limit_ms);
}
