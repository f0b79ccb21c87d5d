#include "core/amqp/amqp_publisher.h"

#include "core/amqp/amqp_link.h"
#include "core/amqp/amqp_thread.h"
#include "core/base/now.h"
#include "core/base/point.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    BURST = 64,        /* publishes before anything else is done */
    PACE_US = 1000,    /* bursts begin at least this far apart, except full ones */
    FULL_FOR_MS = 100, /* how long nothing is sent to a queue that refused */
    FULL_KEYS = 64,    /* at most this many full queues are known at a time */
    FULL_PLACES = 8,   /* of which a queue may have one of this many, from its hash's on */
    TAGS = 4096,       /* publishes under way: it is known where they went */
};

/* A publish under way, or answered a moment ago. */
struct published {
    uint32_t hash; /* of its routing key */
    bool answered;
};

/* A queue that refused. */
struct full_queue {
    uint32_t hash; /* of its routing key */
    int64_t until_ms;
};

struct publisher {
    struct amqp_thread thread;
    char exchange[TOPOLOGY_EXCHANGE_BYTES]; /* to declare; "" = none */
    int64_t burst_us;                       /* the thread's: when the last one began */
    atomic_bool away; /* the link is lost or cannot be had, or an alarm: take nothing in */
    atomic_size_t n_pending;

    /* the lock guards the rest, and writes to the two above */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    struct wakeup *pending;
    uint64_t sent, answered; /* tags of this link: the last that was published, and confirmed */
    uint64_t all_answered;   /* each up to this tag is confirmed or refused */
    struct published published[TAGS]; /* by tag */
    struct full_queue full[FULL_KEYS];
    struct publisher_stats stats;
};

/* --- with the lock held ----------------------------------------------------------------------- */

static bool is_settled(const struct publisher *p)
{
    return !p->pending && p->answered == p->sent;
}

/* Publishes that may follow before another is answered. */
static uint64_t tags_left(const struct publisher *p)
{
    return TAGS - (p->sent - p->answered);
}

static void drop_pending(struct publisher *p)
{
    p->stats.dropped += (int64_t)p->n_pending;
    p->n_pending = 0;
    wakeups_free(&p->pending);
}

static uint32_t hash_of(const struct wakeup *w)
{
    uint32_t hash = 5381;
    for (const char *c = w->key; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    return hash;
}

/* Compared whole: of two keys that share a place, one's full queue must not silence the other. */
static bool is_full(const struct publisher *p, uint32_t hash)
{
    for (uint32_t i = 0; i < FULL_PLACES; i++) {
        const struct full_queue *q = &p->full[(hash + i) % FULL_KEYS];
        if (q->hash == hash && q->until_ms > now_ms()) {
            return true;
        }
    }
    return false;
}

/* Its own place, or a free one; NULL: others that are full have them all. */
static struct full_queue *place_for(struct publisher *p, uint32_t hash, int64_t now_ms)
{
    struct full_queue *place = NULL;
    for (uint32_t i = 0; i < FULL_PLACES; i++) {
        struct full_queue *q = &p->full[(hash + i) % FULL_KEYS];
        if (q->hash == hash) {
            return q;
        }
        place = !place && q->until_ms <= now_ms ? q : place;
    }
    return place;
}

/* Its queue is full: what waits for it need not be sent. That is looked up once, not for each
 * refusal, so who has no place is refused by RabbitMQ, one by one. */
static void hold_back(struct publisher *p, uint32_t hash)
{
    int64_t now = now_ms();
    struct full_queue *place = place_for(p, hash, now);
    bool was_full = !place || (place->hash == hash && place->until_ms > now);
    struct wakeup *w, *next;
    if (place) {
        *place = (struct full_queue){hash, now + FULL_FOR_MS};
    }
    if (was_full) {
        return;
    }
    DL_FOREACH_SAFE(p->pending, w, next)
    {
        if (hash_of(w) == hash) {
            DL_DELETE(p->pending, w);
            free(w);
            p->n_pending--;
            p->stats.held_back++;
        }
    }
}

/* --- the link --------------------------------------------------------------------------------- */

static bool up(void *owner, struct fault *f)
{
    struct publisher *p = owner;
    struct link *l = p->thread.link;
    (void)amqp_confirm_select(l->conn, LINK_CHANNEL);
    if (!link_answer(l, "could not turn confirms on", f) ||
        (p->exchange[0] && !topology_declare_exchange(l, p->exchange, f))) {
        return false;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->stats.connected = true;
    p->stats.last_error[0] = '\0';
    (void)pthread_mutex_unlock(&p->lock);
    return true;
}

static void down(void *owner, const struct fault *f)
{
    struct publisher *p = owner;
    (void)pthread_mutex_lock(&p->lock);
    p->stats.connected = false;
    p->stats.dropped += (int64_t)(p->sent - p->answered);
    p->sent = p->answered = p->all_answered = 0;
    p->away = true;
    drop_pending(p);
    (void)snprintf(p->stats.last_error, sizeof p->stats.last_error, "%.255s", f->text);
    (void)pthread_cond_broadcast(&p->settled);
    (void)pthread_mutex_unlock(&p->lock);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* An answer is for its tag, or with `multiple` for all up to it that had none. What was overtaken
 * by thousands is not known any more: its place is another's by now. */
static void note_answer(struct publisher *p, uint64_t last, bool multiple, bool refused)
{
    uint64_t first = multiple ? p->all_answered + 1 : last;
    uint64_t known = p->sent < TAGS ? 1 : p->sent - TAGS + 1;
    for (uint64_t tag = first > known ? first : known; tag <= last; tag++) {
        struct published *w = &p->published[tag % TAGS];
        if (refused && !w->answered) {
            hold_back(p, w->hash);
        }
        w->answered = true;
    }
    if (multiple && last > p->all_answered) {
        p->all_answered = last;
    }
}

/* For the statistics, and for a caller that flushes, the last answered tag counts for those before
 * it, though a few of them may come in another order. */
static void take_answer(struct publisher *p, uint64_t tag, bool multiple, bool refused)
{
    (void)pthread_mutex_lock(&p->lock);
    note_answer(p, tag < p->sent ? tag : p->sent, multiple, refused);
    if (tag > p->answered && tag <= p->sent) {
        *(refused ? &p->stats.held_back : &p->stats.published) += (int64_t)(tag - p->answered);
        p->answered = tag;
    }
    (void)pthread_cond_broadcast(&p->settled);
    (void)pthread_mutex_unlock(&p->lock);
}

static bool take_frame(void *owner, const amqp_frame_t *frame, struct fault *f)
{
    struct publisher *p = owner;
    const amqp_method_t *m = &frame->payload.method;
    (void)f;
    if (frame->frame_type == AMQP_FRAME_METHOD && m->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = m->decoded;
        take_answer(p, ack->delivery_tag, ack->multiple, false);
    } else if (frame->frame_type == AMQP_FRAME_METHOD && m->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = m->decoded;
        take_answer(p, nack->delivery_tag, nack->multiple, true);
    }
    return true;
}

static void check_alarm(struct publisher *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->away = p->thread.link->blocked;
    if (p->away) {
        drop_pending(p);
        (void)pthread_cond_broadcast(&p->settled);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

/* --- publishing ------------------------------------------------------------------------------- */

static size_t take_burst(struct publisher *p, struct wakeup *burst[BURST])
{
    size_t n = 0;
    (void)pthread_mutex_lock(&p->lock);
    while (p->pending && n < BURST && tags_left(p) > 0) {
        struct wakeup *w = burst[n++] = p->pending;
        DL_DELETE(p->pending, w);
        p->sent++; /* what fails to be sent is lost with the link */
        p->published[p->sent % TAGS] = (struct published){.hash = hash_of(w)};
    }
    p->n_pending -= n;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

static int publish(struct publisher *p, const struct wakeup *w)
{
    char body[24]; /* and no properties: it is transient */
    (void)snprintf(body, sizeof body, "%lld", (long long)w->id);
    return amqp_basic_publish(p->thread.link->conn, LINK_CHANNEL, amqp_cstring_bytes(w->exchange),
                              amqp_cstring_bytes(w->key), 0, 0, NULL, amqp_cstring_bytes(body));
}

/* The first id goes at once. What follows within PACE_US goes together: one id at a time would cost
 * RabbitMQ, and us, about twice the work. */
static void keep_pace(struct publisher *p)
{
    int64_t left_us = p->burst_us + PACE_US - now_us();
    size_t n = p->n_pending;
    if (n > 0 && n < BURST && left_us > 0) { /* or until the link breaks */
        struct pollfd fd = {.fd = link_fd(p->thread.link)};
        (void)ppoll(&fd, 1, &(struct timespec){.tv_nsec = left_us * 1000}, NULL);
    }
}

static bool publish_burst(struct publisher *p, struct fault *f)
{
    struct wakeup *burst[BURST];
    keep_pace(p);
    size_t n = link_can_send(p->thread.link) ? take_burst(p, burst) : 0;
    int status = AMQP_STATUS_OK;
    if (n == 0) {
        return true;
    }
    p->burst_us = now_us();
    POINT(publish_taken);
    for (size_t i = 0; i < n; i++) {
        status = status == AMQP_STATUS_OK ? publish(p, burst[i]) : status;
        free(burst[i]);
    }
    return link_sent(p->thread.link, status, "could not publish", f) &&
           !POINT_FAILS(publish_sent, f);
}

static bool work(void *owner, struct fault *f)
{
    struct publisher *p = owner;
    if (!link_take_frames(p->thread.link, take_frame, p, f)) {
        return false;
    }
    check_alarm(p);
    bool ok = publish_burst(p, f);
    p->thread.unsent = p->n_pending > 0 && tags_left(p) > 0; /* else an answer wakes it */
    return ok;
}

/* --- for everybody ---------------------------------------------------------------------------- */

static void destroy(void *owner)
{
    struct publisher *p = owner;
    wakeups_free(&p->pending);
    free(p);
}

bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                    struct fault *f)
{
    static const struct amqp_duty duty = {up, work, down, destroy};
    struct publisher *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->settled, NULL);
    (void)snprintf(p->exchange, sizeof p->exchange, "%s",
                   settings->exchange ? settings->exchange : "");
    if (!amqp_thread_start(&p->thread, settings->url, settings->name, &duty, p, f)) {
        destroy(p);
        return false;
    }
    if (settings->exchange) {
        amqp_thread_want(&p->thread);
    }
    *ret = p;
    return true;
}

struct wakeup *wakeup_new(const char *exchange, const char *key, int64_t id)
{
    size_t exchange_bytes = strlen(exchange) + 1, key_bytes = strlen(key) + 1;
    bool fits = exchange_bytes <= TOPOLOGY_EXCHANGE_BYTES && key_bytes <= TOPOLOGY_KEY_BYTES;
    struct wakeup *w = fits ? malloc(sizeof *w + exchange_bytes + key_bytes) : NULL;
    if (w) {
        w->id = id;
        w->key = w->exchange + exchange_bytes;
        memcpy(w->exchange, exchange, exchange_bytes);
        memcpy(w->exchange + exchange_bytes, key, key_bytes);
    }
    return w;
}

void wakeups_free(struct wakeup **list)
{
    struct wakeup *w, *next;
    DL_FOREACH_SAFE(*list, w, next)
    {
        free(w);
    }
    *list = NULL;
}

bool publisher_offer(struct publisher *p, struct wakeup *w)
{
    (void)pthread_mutex_lock(&p->lock);
    bool full = w && is_full(p, hash_of(w));
    bool ok = w && !full && !p->away && p->n_pending < PUBLISHER_PENDING_MAX;
    if (ok) {
        DL_APPEND(p->pending, w);
        p->n_pending++;
    } else {
        *(full ? &p->stats.held_back : &p->stats.dropped) += 1;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!ok) {
        free(w);
    }
    amqp_thread_want(&p->thread);
    return ok;
}

bool publisher_is_away(const struct publisher *p)
{
    return p->away;
}

bool publisher_flush(struct publisher *p, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms);
    (void)pthread_mutex_lock(&p->lock);
    while (!is_settled(p) &&
           pthread_cond_clockwait(&p->settled, &p->lock, CLOCK_MONOTONIC, &until) == 0) {
    }
    bool ok = is_settled(p);
    (void)pthread_mutex_unlock(&p->lock);
    return ok;
}

void publisher_stats(struct publisher *p, struct publisher_stats *ret)
{
    (void)pthread_mutex_lock(&p->lock);
    *ret = p->stats;
    (void)pthread_mutex_unlock(&p->lock);
}

void publisher_close(struct publisher *p, int64_t limit_ms)
{
    if (p) {
        (void)publisher_flush(p, limit_ms);
        amqp_thread_end(&p->thread, AMQP_THREAD_PATIENCE_MS);
    }
}

void publisher_abandon(struct publisher *p)
{
    if (p) {
        amqp_thread_abandon(&p->thread);
    }
}
