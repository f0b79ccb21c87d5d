#include "core/amqp_publisher.h"

#include "core/amqp_link.h"
#include "core/now.h"
#include "core/point.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

enum {
    BURST = 64,     /* publishes before anything else is done */
    PACE_US = 1000, /* bursts begin so far apart at least, but for full ones */
    CORK_FROM = 4,  /* so many are worth two system calls to share packets */
    DELIVERY_TRANSIENT = 1,
};

/* An offer that is not yet published. */
struct wakeup {
    struct wakeup *prev, *next;
    int64_t id;
    const char *key; /* behind the exchange */
    char exchange[];
};

struct publisher {
    struct amqp_thread thread;
    struct amqp_url url;
    char name[PUBLISHER_NAME_BYTES];
    char exchange[TOPOLOGY_EXCHANGE_BYTES]; /* to declare; "" = none */

    /* The lock guards what stands from here to the mark. */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    struct wakeup *pending;
    size_t n_pending;
    bool wanted;  /* something was offered: connect */
    bool away;    /* no link, and one more try failed: take nothing in */
    bool blocked; /* an alarm */
    struct publisher_stats stats;
    uint64_t sent, answered; /* tags of this link: the last that was published, and confirmed */
    /* --- mark: the rest is the thread's --- */

    struct link *link;
    struct amqp_pause pause;
    int64_t burst_us;
};

/* --- counting, with the lock held ------------------------------------------------------------- */

static bool is_settled(const struct publisher *p)
{
    return p->stats.confirmed + p->stats.unconfirmed + p->stats.dropped == p->stats.offered;
}

static void signal_settled(struct publisher *p)
{
    if (is_settled(p)) {
        (void)pthread_cond_broadcast(&p->settled);
    }
}

static void drop_pending(struct publisher *p)
{
    struct wakeup *w, *next;
    DL_FOREACH_SAFE(p->pending, w, next)
    {
        DL_DELETE(p->pending, w);
        free(w);
    }
    p->stats.dropped += (int64_t)p->n_pending;
    p->n_pending = 0;
}

static bool is_wanted(struct publisher *p)
{
    (void)pthread_mutex_lock(&p->lock);
    bool wanted = p->wanted;
    (void)pthread_mutex_unlock(&p->lock);
    return wanted;
}

static size_t n_pending(struct publisher *p)
{
    (void)pthread_mutex_lock(&p->lock);
    size_t n = p->n_pending;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

/* --- the link --------------------------------------------------------------------------------- */

static bool open_link(struct publisher *p, struct fault *f)
{
    if (!link_open(&p->url, p->name, &p->thread, &p->link, f)) {
        return false;
    }
    (void)amqp_confirm_select(p->link->conn, LINK_CHANNEL);
    return link_answer(p->link, "could not turn confirms on", f) &&
           (!p->exchange[0] || topology_declare_exchange(p->link, p->exchange, f));
}

static bool connect_now(struct publisher *p, struct fault *f)
{
    if (!open_link(p, f)) {
        return false;
    }
    amqp_pause_up(&p->pause);
    (void)pthread_mutex_lock(&p->lock);
    p->away = p->blocked = false;
    p->stats.connected = true;
    p->stats.last_error[0] = '\0';
    (void)pthread_mutex_unlock(&p->lock);
    return true;
}

/* What was not sent yet may go with the next link; if that cannot be had either, it is dropped. */
static void disconnect(struct publisher *p, const struct fault *f)
{
    link_close(p->link, 0);
    p->link = NULL;
    amqp_pause_down(&p->pause);
    (void)pthread_mutex_lock(&p->lock);
    p->away = p->pause.failures > 1;
    p->blocked = p->stats.connected = false;
    p->stats.unconfirmed += (int64_t)(p->sent - p->answered);
    p->sent = p->answered = 0;
    if (p->away) {
        drop_pending(p);
    }
    (void)snprintf(p->stats.last_error, sizeof p->stats.last_error, "%.255s", f->text);
    signal_settled(p);
    (void)pthread_mutex_unlock(&p->lock);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* Confirms are for the statistics and for who flushes: the last tag that was answered stands for
 * those before it, though a few of them may come in another order. */
static void take_confirm(struct publisher *p, uint64_t tag, int64_t *count)
{
    (void)pthread_mutex_lock(&p->lock);
    tag = tag == 0 || tag > p->sent ? p->sent : tag; /* 0 means all */
    if (tag > p->answered) {
        *count += (int64_t)(tag - p->answered);
        p->answered = tag;
    }
    signal_settled(p);
    (void)pthread_mutex_unlock(&p->lock);
}

static void take_method(struct publisher *p, const amqp_method_t *m)
{
    if (m->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = m->decoded;
        take_confirm(p, ack->delivery_tag, &p->stats.confirmed);
    } else if (m->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = m->decoded;
        take_confirm(p, nack->delivery_tag, &p->stats.unconfirmed);
    }
}

static bool take_frames(struct publisher *p, struct fault *f)
{
    amqp_frame_t frame;
    enum link_next next;
    while ((next = link_next(p->link, &frame, f)) == LINK_FRAME) {
        if (frame.frame_type == AMQP_FRAME_METHOD) {
            take_method(p, &frame.payload.method);
        }
        amqp_maybe_release_buffers(p->link->conn);
    }
    (void)pthread_mutex_lock(&p->lock);
    p->blocked = p->link->blocked;
    if (p->blocked) {
        drop_pending(p);
        signal_settled(p);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return next == LINK_NOTHING;
}

/* --- publishing ------------------------------------------------------------------------------- */

static size_t take_burst(struct publisher *p, struct wakeup *burst[BURST])
{
    size_t n = 0;
    (void)pthread_mutex_lock(&p->lock);
    while (p->pending && n < BURST) {
        burst[n] = p->pending;
        DL_DELETE(p->pending, burst[n]);
        n++;
    }
    p->n_pending -= n;
    p->sent += n; /* what fails to be sent counts as lost with the link */
    p->stats.published += (int64_t)n;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

static int publish(struct publisher *p, const struct wakeup *w)
{
    char body[24];
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = DELIVERY_TRANSIENT};
    (void)snprintf(body, sizeof body, "%lld", (long long)w->id);
    return amqp_basic_publish(p->link->conn, LINK_CHANNEL, amqp_cstring_bytes(w->exchange),
                              amqp_cstring_bytes(w->key), 0, 0, &properties,
                              amqp_cstring_bytes(body));
}

/* The first id goes at once. What follows within PACE_US goes together: one id at a time would cost
 * RabbitMQ, and us, about twice the work. */
static void keep_pace(struct publisher *p)
{
    int64_t left_us = p->burst_us + PACE_US - now_us();
    size_t n = n_pending(p);
    if (n > 0 && n < BURST && left_us > 0) { /* or until the link breaks */
        struct pollfd fd = {.fd = link_fd(p->link)};
        (void)ppoll(&fd, 1, &(struct timespec){.tv_nsec = left_us * 1000}, NULL);
    }
}

static void cork(struct publisher *p, size_t n, int on)
{
    if (n >= CORK_FROM) {
        (void)setsockopt(link_fd(p->link), IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    }
}

static bool publish_burst(struct publisher *p, struct fault *f)
{
    struct wakeup *burst[BURST];
    keep_pace(p);
    size_t n = link_can_send(p->link) ? take_burst(p, burst) : 0;
    int status = AMQP_STATUS_OK;
    if (n == 0) {
        return true;
    }
    p->burst_us = now_us();
    POINT(publish_taken);
    cork(p, n, 1);
    for (size_t i = 0; i < n; i++) {
        status = status == AMQP_STATUS_OK ? publish(p, burst[i]) : status;
        free(burst[i]);
    }
    cork(p, n, 0);
    return link_sent(p->link, status, "could not publish", f) && !POINT_FAILS(publish_sent, f);
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool work(struct publisher *p, struct fault *f)
{
    if (!p->link) {
        if (!is_wanted(p) || now_ms() < p->pause.due_ms) {
            return true;
        }
        if (!connect_now(p, f)) {
            return false;
        }
    }
    return take_frames(p, f) && publish_burst(p, f);
}

/* At once when more may be sent, POLLOUT when the socket is full. */
static void wait_for_work(struct publisher *p)
{
    if (!p->link) {
        int64_t due_ms = is_wanted(p) ? p->pause.due_ms : INT64_MAX;
        amqp_thread_wait(&p->thread, -1, 0, due_ms);
        return;
    }
    bool more = n_pending(p) > 0;
    if (link_has_frames(p->link) || (more && link_can_send(p->link))) {
        return;
    }
    amqp_thread_wait(&p->thread, link_fd(p->link), (short)(more ? POLLIN | POLLOUT : POLLIN),
                     now_ms() + LINK_TICK_MS);
}

static void run(void *owner)
{
    struct publisher *p = owner;
    while (!amqp_thread_is_ending(&p->thread)) {
        struct fault f = {0};
        if (!work(p, &f)) {
            disconnect(p, &f);
        }
        wait_for_work(p);
    }
    link_close(p->link, AMQP_THREAD_PATIENCE_MS);
}

static void destroy(void *owner)
{
    struct publisher *p = owner;
    drop_pending(p);
    amqp_url_clear(&p->url);
    free(p);
}

/* --- for everybody ---------------------------------------------------------------------------- */

bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                    struct fault *f)
{
    struct publisher *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->settled, NULL);
    (void)snprintf(p->name, sizeof p->name, "%s", settings->name);
    (void)snprintf(p->exchange, sizeof p->exchange, "%s",
                   settings->exchange ? settings->exchange : "");
    p->wanted = settings->exchange != NULL;
    if (!amqp_url_parse(settings->url, &p->url, f) ||
        !amqp_thread_start(&p->thread, run, destroy, p, f)) {
        destroy(p);
        return false;
    }
    *ret = p;
    return true;
}

static struct wakeup *wakeup_new(const char *exchange, const char *key, int64_t id)
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

bool publisher_offer(struct publisher *p, const char *exchange, const char *key, int64_t id)
{
    struct wakeup *w = wakeup_new(exchange, key, id);
    (void)pthread_mutex_lock(&p->lock);
    bool ok = w && !p->away && !p->blocked && p->n_pending < PUBLISHER_PENDING_MAX;
    p->stats.offered++;
    p->wanted = true;
    if (ok) {
        DL_APPEND(p->pending, w);
        p->n_pending++;
    } else {
        p->stats.dropped++;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!ok) {
        free(w);
    }
    amqp_thread_wake(&p->thread);
    return ok;
}

bool publisher_is_away(struct publisher *p)
{
    (void)pthread_mutex_lock(&p->lock);
    bool away = p->away || p->blocked;
    (void)pthread_mutex_unlock(&p->lock);
    return away;
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
