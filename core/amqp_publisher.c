#include "core/amqp_publisher.h"

#include "core/amqp_publisher_state.h"
#include "core/now.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- counting, with the lock held ------------------------------------------------------------- */

static int64_t n_settled(const struct publisher *p)
{
    return p->stats.confirmed + p->stats.unconfirmed + p->stats.dropped;
}

static bool is_settled(const struct publisher *p)
{
    return n_settled(p) == p->stats.offered && (p->n_questions == 0 || p->away);
}

void publisher_signal(struct publisher *p)
{
    if (is_settled(p)) {
        (void)pthread_cond_broadcast(&p->settled);
    }
}

void publisher_want(struct publisher *p, bool *question)
{
    p->n_questions += *question ? 0 : 1;
    *question = true;
    p->wanted = true;
}

void publisher_want_no_more(struct publisher *p, bool *question)
{
    p->n_questions -= *question ? 1 : 0;
    *question = false;
}

void publisher_drop_pending(struct publisher *p)
{
    while (p->ring_n > 0) {
        p->ring[p->ring_first].route->pending--;
        p->ring_first = (p->ring_first + 1) % PUBLISHER_PENDING_MAX;
        p->ring_n--;
        p->stats.dropped++;
    }
}

struct route *publisher_route(struct publisher *p, const char *queue, bool add)
{
    struct route *r = NULL;
    HASH_FIND_STR(p->routes, queue, r);
    if (r || !add || p->n_routes == PUBLISHER_QUEUES_MAX || strlen(queue) >= TOPOLOGY_QUEUE_BYTES) {
        return r;
    }
    r = calloc(1, sizeof *r);
    if (!r) {
        return NULL;
    }
    memcpy(r->queue, queue, strlen(queue) + 1);
    unsigned before = HASH_COUNT(p->routes);
    HASH_ADD_STR(p->routes, queue, r);
    if (HASH_COUNT(p->routes) == before) { /* no memory for the table */
        free(r);
        return NULL;
    }
    p->route_list[p->n_routes++] = r;
    if (p->declare) {
        publisher_want(p, &r->wants_declare);
    }
    return r;
}

static void destroy(void *owner)
{
    struct publisher *p = owner;
    struct route *r, *next;
    HASH_ITER(hh, p->routes, r, next)
    {
        HASH_DEL(p->routes, r);
        free(r);
    }
    free(p->ring);
    free(p->url);
    free(p->name);
    free(p->declare);
    free(p);
}

/* --- for everybody ---------------------------------------------------------------------------- */

static void init_locks(struct publisher *p)
{
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->settled, &attr);
    (void)pthread_condattr_destroy(&attr);
}

bool publisher_open(const struct publisher_settings *settings, struct publisher **ret,
                    struct fault *f)
{
    struct amqp_url parts = {0};
    if (!amqp_url_parse(settings->url, &parts, f)) {
        return false;
    }
    amqp_url_clear(&parts);
    struct publisher *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    init_locks(p);
    p->window = settings->window > 0 ? settings->window : PUBLISHER_WINDOW_IDS;
    p->url = strdup(settings->url);
    p->name = strdup(settings->name);
    p->declare = settings->declare ? strdup(settings->declare) : NULL;
    p->ring = calloc(PUBLISHER_PENDING_MAX, sizeof *p->ring);
    confirms_reset(&p->confirms);
    bool ok = (p->url && p->name && p->ring && !p->declare == !settings->declare) ||
              fault_memory(f);
    if (!ok || !amqp_thread_start(&p->thread, publisher_run, destroy, p, f)) {
        destroy(p);
        return false;
    }
    *ret = p;
    return true;
}

bool publisher_offer(struct publisher *p, const char *queue, int64_t id)
{
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = publisher_route(p, queue, true);
    bool ok = r && !p->away && !p->blocked && p->ring_n < PUBLISHER_PENDING_MAX &&
              route_accepts(r, p->window, now_ms());
    p->stats.offered++;
    p->wanted = true;
    if (ok) {
        p->ring[(p->ring_first + p->ring_n) % PUBLISHER_PENDING_MAX] = (struct wakeup){r, id};
        p->ring_n++;
        r->pending++;
    } else {
        p->stats.dropped++;
    }
    (void)pthread_mutex_unlock(&p->lock);
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

int64_t publisher_room(struct publisher *p, const char *queue)
{
    int64_t now = now_ms();
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = publisher_route(p, queue, true);
    bool known = r && !p->away && !p->blocked && p->stats.connected;
    int64_t room = known ? route_room(r, p->window, now) : -1;
    bool stale = r && !p->away && (!r->answered || now - r->answered_ms >= ROUTE_FRESH_MS);
    if (stale && r != p->asking) {
        publisher_want(p, &r->wants_ask);
    }
    p->wanted = true;
    (void)pthread_mutex_unlock(&p->lock);
    amqp_thread_wake(&p->thread);
    return room;
}

void publisher_declare(struct publisher *p, const char *queue)
{
    (void)pthread_mutex_lock(&p->lock);
    struct route *r = publisher_route(p, queue, true);
    if (r && p->declare) {
        publisher_want(p, &r->wants_declare);
    }
    (void)pthread_mutex_unlock(&p->lock);
    amqp_thread_wake(&p->thread);
}

bool publisher_flush(struct publisher *p, int64_t limit_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    until.tv_nsec += limit_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_mutex_lock(&p->lock);
    while (!is_settled(p) && pthread_cond_timedwait(&p->settled, &p->lock, &until) == 0) {
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
