#include "core/amqp_consumer.h"

#include "core/amqp_delivery.h"
#include "core/amqp_topology.h"
#include "core/now.h"
#include "core/point.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DELIVERIES = 1, /* the channel that consumes */
    QUESTIONS = 2,  /* the channel that asks, and is closed when a queue does not exist */
    ASK_PAUSE_MS = 3000,
    REFUSED_PAUSE_MS = 30000,
    SOON_MS = 200,        /* after a cancel: perhaps the queue is just being made again */
    STEADY_MS = 10000,    /* a link that lasted so long was good */
    PREFETCH_MAX = 65535, /* AMQP's field has 16 bits */
    TAG_BYTES = 32,
    CODE_MISSING = 404,
};

struct feed {
    char queue[TOPOLOGY_QUEUE_BYTES];
    bool consuming;
    bool known;          /* it existed when we last looked, on this link */
    int64_t due_ms;      /* when to ask for it again */
    unsigned generation; /* of its consumer tag */
};

struct consumer {
    struct amqp_thread thread;
    char *url, *name;
    struct feed *feeds;
    size_t n_feeds;
    int64_t watch_ms;

    pthread_mutex_t event_lock; /* held while the owner is told */
    bool silent;
    void (*on_event)(void *owner, const struct consumer_event *event);
    void *owner;

    pthread_mutex_t order_lock;
    int order_prefetch;
    int64_t order_epoch;
    uint64_t order_tag;
    int64_t order_farewell_ms; /* written before the thread is told to end */

    /* the rest is the thread's */
    struct link *link;
    int failures;
    int64_t connect_due_ms, up_since_ms, watch_due_ms;
    bool watched_waiting;
    uint64_t watched_tag;
    char down_text[FAULT_TEXT_BYTES_MAX];
    int64_t epoch;
    int prefetch;
    uint64_t last_tag, acked_tag;
    struct delivery delivery;
    size_t n_ids;
    int64_t ids[CONSUMER_BATCH_MAX];
    uint64_t batch_tag;
    int64_t hostile;
};

/* --- telling the owner ------------------------------------------------------------------------ */

static void tell(struct consumer *c, struct consumer_event *event)
{
    event->hostile = c->hostile;
    c->hostile = 0;
    (void)pthread_mutex_lock(&c->event_lock);
    if (!c->silent) {
        c->on_event(c->owner, event);
    }
    (void)pthread_mutex_unlock(&c->event_lock);
}

static void tell_up(struct consumer *c)
{
    tell(c, &(struct consumer_event){.type = CONSUMER_UP,
                                     .epoch = c->epoch,
                                     .text = link_where(c->link)});
}

/* Once, and again only when the reason is another. */
static void tell_down(struct consumer *c, const char *text)
{
    if (strcmp(text, c->down_text) != 0) {
        (void)snprintf(c->down_text, sizeof c->down_text, "%s", text);
        tell(c, &(struct consumer_event){.type = CONSUMER_DOWN, .text = text});
    }
}

static void tell_wakeups(struct consumer *c)
{
    if (c->n_ids > 0) {
        tell(c, &(struct consumer_event){.type = CONSUMER_WAKEUPS,
                                         .epoch = c->epoch,
                                         .n = c->n_ids,
                                         .ids = c->ids,
                                         .last_tag = c->batch_tag});
        c->n_ids = 0;
    }
}

/* --- the channel ------------------------------------------------------------------------------ */

/* What the old channel had still sent belongs to no epoch any more. */
static bool drop_frames(struct consumer *c, struct fault *f)
{
    amqp_frame_t frame;
    enum link_next next;
    while ((next = link_next(c->link, &frame, f)) == LINK_FRAME) {
    }
    link_release(c->link);
    return next == LINK_NOTHING;
}

/* A new channel is a new epoch: what was unacked on the old one is delivered again. */
static bool begin_epoch(struct consumer *c, int64_t first_ask_ms, struct fault *f)
{
    if (!drop_frames(c, f) || !link_channel_open(c->link, DELIVERIES, f)) {
        return false;
    }
    for (size_t i = 0; i < c->n_feeds; i++) {
        c->feeds[i].consuming = c->feeds[i].known = false;
        if (c->feeds[i].due_ms < first_ask_ms) {
            c->feeds[i].due_ms = first_ask_ms;
        }
    }
    c->epoch++;
    c->last_tag = c->acked_tag = c->watched_tag = 0;
    c->watched_waiting = false;
    c->delivery = (struct delivery){0};
    c->n_ids = 0;
    c->prefetch = 0;
    tell_up(c);
    return true;
}

/* After the server closed the channel of deliveries; `f` says why and is forgotten. */
static bool begin_epoch_again(struct consumer *c, struct fault *f)
{
    fault_clear(f);
    return begin_epoch(c, now_ms() + SOON_MS + (int64_t)now_jitter(SOON_MS), f);
}

static bool connect_now(struct consumer *c, struct fault *f)
{
    if (!link_open(c->url, c->name, &c->thread.cut, &c->link, f)) {
        return false;
    }
    c->up_since_ms = now_ms();
    c->watch_due_ms = c->up_since_ms + c->watch_ms;
    c->down_text[0] = '\0';
    return link_channel_open(c->link, QUESTIONS, f) && begin_epoch(c, 0, f);
}

static void disconnect(struct consumer *c, const struct fault *f)
{
    if (c->link) {
        link_close(c->link, 0);
        c->link = NULL;
        c->failures = now_ms() - c->up_since_ms >= STEADY_MS ? 0 : c->failures;
    }
    c->failures++;
    c->connect_due_ms = now_ms() + amqp_pause_ms(c->failures);
    c->n_ids = 0;
    tell_down(c, f->text);
}

/* --- consuming -------------------------------------------------------------------------------- */

static int share_of(const struct consumer *c, size_t i)
{
    int n = (int)c->n_feeds;
    int share = c->prefetch / n + ((int)i < c->prefetch % n ? 1 : 0);
    return share < 1 ? 1 : share > PREFETCH_MAX ? PREFETCH_MAX : share;
}

static void tag_of(const struct consumer *c, size_t i, char tag[TAG_BYTES])
{
    (void)snprintf(tag, TAG_BYTES, "%zu.%u", i, c->feeds[i].generation);
}

/* The server will not let us have this queue. One that is missing may come soon; for anything else
 * a person must be told. */
static void refused(struct consumer *c, struct feed *feed, const struct fault *f)
{
    bool missing = link_code(c->link) == CODE_MISSING;
    feed->due_ms = now_ms() + (missing ? ASK_PAUSE_MS / 2 + (int64_t)now_jitter(ASK_PAUSE_MS)
                                       : REFUSED_PAUSE_MS);
    if (!missing) {
        tell_down(c, f->text);
    }
}

/* Ask on the other channel first: a queue that does not exist closes the channel that asked. */
static bool is_there(struct consumer *c, struct feed *feed, struct fault *f)
{
    int64_t ready, consumers;
    feed->known = feed->known ||
                  topology_look(c->link, QUESTIONS, feed->queue, &ready, &consumers, f);
    if (!feed->known && !link_is_broken(c->link)) {
        refused(c, feed, f);
        fault_clear(f);
    }
    return feed->known;
}

static bool consume(struct consumer *c, size_t i, struct fault *f)
{
    struct feed *feed = &c->feeds[i];
    char name[TOPOLOGY_NAME_BYTES], tag[TAG_BYTES];
    if (!is_there(c, feed, f)) {
        return !link_is_broken(c->link);
    }
    feed->generation++;
    topology_name(feed->queue, name);
    tag_of(c, i, tag);
    (void)amqp_basic_qos(link_conn(c->link), DELIVERIES, 0, (uint16_t)share_of(c, i), 0);
    bool ok = link_answer(c->link, DELIVERIES, "could not set the prefetch", f);
    if (ok) {
        (void)amqp_basic_consume(link_conn(c->link), DELIVERIES, link_bytes(name), link_bytes(tag),
                                 0, 0, 0, amqp_empty_table);
        ok = link_answer(c->link, DELIVERIES, "could not consume", f);
    }
    feed->consuming = ok;
    if (!ok && !link_is_broken(c->link)) {
        refused(c, feed, f);
        return begin_epoch_again(c, f);
    }
    return ok;
}

static bool consume_due(struct consumer *c, struct fault *f)
{
    int64_t now = now_ms();
    for (size_t i = 0; c->prefetch > 0 && i < c->n_feeds; i++) {
        struct feed *feed = &c->feeds[i];
        if (!feed->consuming && feed->due_ms <= now && !consume(c, i, f)) {
            return false;
        }
    }
    return true;
}

/* false: the link is broken. */
static bool cancel(struct consumer *c, size_t i, struct fault *f)
{
    char tag[TAG_BYTES];
    tag_of(c, i, tag);
    c->feeds[i].consuming = false;
    (void)amqp_basic_cancel(link_conn(c->link), DELIVERIES, link_bytes(tag));
    return link_answer(c->link, DELIVERIES, "could not cancel a consumer", f) ||
           (!link_is_broken(c->link) && begin_epoch_again(c, f));
}

static bool cancel_all(struct consumer *c, struct fault *f)
{
    for (size_t i = 0; i < c->n_feeds; i++) {
        if (c->feeds[i].consuming && !cancel(c, i, f)) {
            return false;
        }
    }
    return true;
}

/* --- orders ----------------------------------------------------------------------------------- */

static bool send_ack(struct consumer *c, struct fault *f)
{
    (void)pthread_mutex_lock(&c->order_lock);
    uint64_t tag = c->order_epoch == c->epoch ? c->order_tag : 0;
    (void)pthread_mutex_unlock(&c->order_lock);
    /* a tag that was never delivered would cost the channel */
    if (tag <= c->acked_tag || tag > c->last_tag) {
        return true;
    }
    c->acked_tag = tag;
    return link_sent(c->link, amqp_basic_ack(link_conn(c->link), DELIVERIES, tag, 1),
                     "could not ack", f) &&
           !POINT_FAILS(ack_sent, f);
}

/* RabbitMQ reads a consumer's prefetch when it begins, so a change means to begin again; tags go
 * on. Closing the channel gives back what is unacked. */
static bool apply_prefetch(struct consumer *c, struct fault *f)
{
    (void)pthread_mutex_lock(&c->order_lock);
    int wanted = c->order_prefetch;
    (void)pthread_mutex_unlock(&c->order_lock);
    if (wanted == c->prefetch) {
        return true;
    }
    if (wanted > 0) {
        bool ok = c->prefetch == 0 || cancel_all(c, f);
        c->prefetch = wanted;
        return ok;
    }
    /* an ack that was given before the order must not be lost with the channel */
    if (!send_ack(c, f)) {
        return false;
    }
    amqp_rpc_reply_t reply = amqp_channel_close(link_conn(c->link), DELIVERIES, AMQP_REPLY_SUCCESS);
    return reply.reply_type == AMQP_RESPONSE_NORMAL
               ? begin_epoch(c, 0, f)
               : fault_set(f, FAULT_RETRY, "could not close a channel");
}

/* --- frames ----------------------------------------------------------------------------------- */

static void cancelled(struct consumer *c, const amqp_basic_cancel_t *m)
{
    char tag[TAG_BYTES], own[TAG_BYTES];
    link_text(m->consumer_tag, tag, sizeof tag);
    for (size_t i = 0; i < c->n_feeds; i++) {
        struct feed *feed = &c->feeds[i];
        tag_of(c, i, own);
        if (feed->consuming && strcmp(tag, own) == 0) {
            feed->consuming = feed->known = false;
            feed->due_ms = now_ms() + SOON_MS + (int64_t)now_jitter(SOON_MS);
        }
    }
}

static bool take_delivery(struct consumer *c, const amqp_frame_t *frame, struct fault *f)
{
    int64_t id;
    switch (delivery_take(&c->delivery, frame, &id)) {
    case DELIVERY_MORE:
        return true;
    case DELIVERY_ID:
        c->ids[c->n_ids++] = id;
        c->batch_tag = c->last_tag = c->delivery.tag;
        return true;
    case DELIVERY_HOSTILE:
        c->hostile++;
        c->last_tag = c->delivery.tag;
        return link_sent(c->link,
                         amqp_basic_reject(link_conn(c->link), DELIVERIES, c->delivery.tag, 0),
                         "could not reject a message", f);
    case DELIVERY_UNEXPECTED:
        break;
    }
    return fault_set(f, FAULT_RETRY, "RabbitMQ sent frames in an order that AMQP does not have");
}

static bool take_frame(struct consumer *c, const amqp_frame_t *frame, struct fault *f)
{
    amqp_method_number_t method = frame->frame_type == AMQP_FRAME_METHOD ? frame->payload.method.id
                                                                         : 0;
    if (method == AMQP_CHANNEL_CLOSE_METHOD) {
        (void)link_channel_closed(c->link, frame, f);
        if (link_is_broken(c->link)) {
            return false;
        }
        if (frame->channel == DELIVERIES) {
            tell_down(c, f->text);
            return begin_epoch_again(c, f);
        }
        fault_clear(f);
        return link_channel_open(c->link, QUESTIONS, f);
    }
    if (frame->channel != DELIVERIES) {
        return true;
    }
    if (method == AMQP_BASIC_CANCEL_METHOD) {
        cancelled(c, frame->payload.method.decoded);
        return true;
    }
    return take_delivery(c, frame, f);
}

/* All that has arrived, or one full batch. */
static bool take_frames(struct consumer *c, struct fault *f)
{
    amqp_frame_t frame;
    enum link_next next = LINK_FRAME;
    while (c->n_ids < CONSUMER_BATCH_MAX && (next = link_next(c->link, &frame, f)) == LINK_FRAME) {
        if (!take_frame(c, &frame, f)) {
            return false;
        }
        link_release(c->link);
    }
    if (next == LINK_FAILED) {
        return false;
    }
    tell_wakeups(c);
    return true;
}

/* --- the watchdog ----------------------------------------------------------------------------- */

/* A queue that was deleted and made again while the server forgot to say so has no consumer; one
 * that holds messages while everything delivered is acked, look after look, delivers no more. A
 * quorum queue without a leader says that it has no consumer, though it has ours: end that one, or
 * there are two. */
static bool watch(struct consumer *c, struct fault *f)
{
    bool waiting = false;
    int64_t now = now_ms();
    if (now < c->watch_due_ms) {
        return true;
    }
    for (size_t i = 0; i < c->n_feeds; i++) {
        struct feed *feed = &c->feeds[i];
        int64_t ready = 0, consumers = 1;
        if (feed->consuming &&
            !topology_look(c->link, QUESTIONS, feed->queue, &ready, &consumers, f)) {
            if (link_is_broken(c->link)) {
                return false;
            }
            fault_clear(f);
            consumers = 0;
        }
        if (consumers == 0 && feed->consuming) {
            if (!cancel(c, i, f)) {
                return false;
            }
            feed->known = false;
            feed->due_ms = now;
        }
        waiting = waiting || ready > 0;
    }
    bool stuck = waiting && c->watched_waiting && c->watched_tag == c->last_tag &&
                 c->acked_tag == c->last_tag;
    c->watched_waiting = waiting;
    c->watched_tag = c->last_tag;
    c->watch_due_ms = now + c->watch_ms + (int64_t)now_jitter((uint64_t)c->watch_ms / 10 + 1);
    return !stuck || fault_set(f, FAULT_RETRY, "RabbitMQ stopped delivering");
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool work(struct consumer *c, struct fault *f)
{
    if (!c->link) {
        if (now_ms() < c->connect_due_ms) {
            return true;
        }
        if (!connect_now(c, f)) {
            return false;
        }
    }
    return send_ack(c, f) && take_frames(c, f) && apply_prefetch(c, f) && consume_due(c, f) &&
           watch(c, f);
}

static int64_t next_due(const struct consumer *c)
{
    int64_t due = now_ms() + LINK_TICK_MS;
    if (!c->link) {
        return c->connect_due_ms;
    }
    due = c->watch_due_ms < due ? c->watch_due_ms : due;
    for (size_t i = 0; c->prefetch > 0 && i < c->n_feeds; i++) {
        if (!c->feeds[i].consuming && c->feeds[i].due_ms < due) {
            due = c->feeds[i].due_ms;
        }
    }
    return due;
}

static void run(void *owner)
{
    struct consumer *c = owner;
    while (!amqp_thread_is_ending(&c->thread)) {
        struct fault f = {0};
        if (!work(c, &f)) {
            disconnect(c, &f);
        }
        if (!c->link || !link_has_frames(c->link)) {
            amqp_thread_wait(&c->thread, c->link ? link_fd(c->link) : -1, POLLIN, next_due(c));
        }
    }
    struct fault ignored = {0};
    if (c->link && !send_ack(c, &ignored)) {
        link_close(c->link, 0);
        return;
    }
    link_close(c->link, c->order_farewell_ms);
}

static void destroy(void *owner)
{
    struct consumer *c = owner;
    free(c->url);
    free(c->name);
    free(c->feeds);
    free(c);
}

static bool copy_settings(struct consumer *c, const struct consumer_settings *settings,
                          struct fault *f)
{
    c->on_event = settings->on_event;
    c->owner = settings->owner;
    c->watch_ms = settings->watch_ms > 0 ? settings->watch_ms : CONSUMER_WATCH_MS;
    c->url = strdup(settings->url);
    c->name = strdup(settings->name);
    c->feeds = calloc(settings->n_queues + 1, sizeof *c->feeds);
    if (!c->url || !c->name || !c->feeds) {
        return fault_memory(f);
    }
    c->n_feeds = settings->n_queues;
    for (size_t i = 0; i < c->n_feeds; i++) {
        if (strlen(settings->queues[i]) >= TOPOLOGY_QUEUE_BYTES) {
            return fault_set(f, FAULT_CONFIG, "the queue's name \"%.100s\" is longer than %d bytes",
                             settings->queues[i], TOPOLOGY_QUEUE_BYTES - 1);
        }
        memcpy(c->feeds[i].queue, settings->queues[i], strlen(settings->queues[i]) + 1);
    }
    return true;
}

bool consumer_open(const struct consumer_settings *settings, struct consumer **ret, struct fault *f)
{
    struct amqp_url parts = {0};
    if (!amqp_url_parse(settings->url, &parts, f)) {
        return false;
    }
    amqp_url_clear(&parts);
    struct consumer *c = calloc(1, sizeof *c);
    if (!c) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&c->event_lock, NULL);
    (void)pthread_mutex_init(&c->order_lock, NULL);
    if (!copy_settings(c, settings, f) || !amqp_thread_start(&c->thread, run, destroy, c, f)) {
        destroy(c);
        return false;
    }
    *ret = c;
    return true;
}

void consumer_ack(struct consumer *c, int64_t epoch, uint64_t last_tag)
{
    (void)pthread_mutex_lock(&c->order_lock);
    if (epoch > c->order_epoch || (epoch == c->order_epoch && last_tag > c->order_tag)) {
        c->order_epoch = epoch;
        c->order_tag = last_tag;
    }
    (void)pthread_mutex_unlock(&c->order_lock);
    amqp_thread_wake(&c->thread);
}

void consumer_prefetch(struct consumer *c, int n)
{
    (void)pthread_mutex_lock(&c->order_lock);
    c->order_prefetch = n < 0 ? 0 : n;
    (void)pthread_mutex_unlock(&c->order_lock);
    amqp_thread_wake(&c->thread);
}

void consumer_close(struct consumer *c, int64_t limit_ms)
{
    if (!c) {
        return;
    }
    (void)pthread_mutex_lock(&c->event_lock);
    c->silent = true;
    (void)pthread_mutex_unlock(&c->event_lock);
    c->order_farewell_ms = limit_ms;
    amqp_thread_end(&c->thread, limit_ms);
}
