#include "cleaner/relay.h"

#include "cleaner/relay_state.h"
#include "cleaner/statements.h"
#include "core/base/array.h"
#include "core/base/now.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the link --------------------------------------------------------------------------------- */

static void forget(struct relay *r)
{
    struct order *o, *next;
    messages_free(&r->ready);
    messages_free(&r->sent);
    r->n_ready = r->n_sent = r->n_rest = r->sent_bytes = 0;
    HASH_ITER(hh, r->busy, o, next)
    {
        messages_free(&o->rest);
        HASH_DEL(r->busy, o);
        free(o);
    }
    ended_begin(&r->ended);
    db_close(r->db);
    r->db = NULL;
    r->tag = 0;
    r->returning = r->more = r->newest = false;
    r->from = r->read_ms = r->pause_ms = 0;
}

static bool begin(struct relay *r, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_open(r->database_url, DB_HOT, "tenon cleaner relay", &r->db, f) ||
        !db_exec(r->db, &sql_relay_begin, NULL, 0, &rows, f)) {
        return false;
    }
    (void)snprintf(r->token, sizeof r->token, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    return true;
}

/* Which message closed the channel is known when it was alone. */
static bool tell_bad(struct relay *r, struct fault *f)
{
    if (r->bad_id > 0) {
        array_put_int(&r->ended.failed, r->bad_id);
        array_put_text(&r->ended.errors, r->bad_error);
        array_put_text(&r->ended.retries, "f");
        r->ended.n_failed++;
        r->bad_id = 0;
        relay_count_refused(r, r->bad_exchange, r->bad_error);
    }
    return relay_tell_ended(r, f);
}

static bool up(void *owner, struct fault *f)
{
    struct relay *r = owner;
    struct link *l = r->thread.link;
    (void)amqp_confirm_select(l->conn, LINK_CHANNEL);
    if (!atomic_load(&r->leads) || !link_answer(l, "could not turn confirms on", f) ||
        !begin(r, f) || !tell_bad(r, f)) {
        return false;
    }
    r->settled = (struct settled){.all_ms = now_ms()};
    r->seen = 0;
    r->watch_ms = 0;
    r->more = true;
    (void)pthread_mutex_lock(&r->lock);
    r->stats.connected = true;
    r->stats.error[0] = '\0';
    (void)pthread_mutex_unlock(&r->lock);
    return true;
}

/* RabbitMQ closes the channel for a message that it cannot take: its exchange is not there, or not
 * ours to write to. Which one it was is found by sending one at a time. */
static bool note_closed(struct relay *r, const struct fault *f)
{
    if (f->code != FAULT_CONFIG || r->n_sent == 0) {
        return false;
    }
    r->thread.pause = (struct amqp_pause){.due_ms = 0};
    if (r->n_sent > 1) {
        r->careful = (int)r->n_sent;
        return true;
    }
    r->bad_id = r->sent->id;
    r->bad_until_ms = now_ms() + RELAY_BAD_EXCHANGE_MS;
    (void)snprintf(r->bad_exchange, sizeof r->bad_exchange, "%s", r->sent->exchange);
    (void)snprintf(r->bad_error, sizeof r->bad_error, "%.500s", f->text);
    return true;
}

static void down(void *owner, const struct fault *f)
{
    struct relay *r = owner;
    bool leads = atomic_load(&r->leads), told = note_closed(r, f);
    forget(r);
    if (!leads) {
        atomic_store(&r->thread.wanted, false);
    }
    (void)pthread_mutex_lock(&r->lock);
    r->stats.connected = false;
    r->stats.in_flight = 0;
    (void)snprintf(r->stats.error, sizeof r->stats.error, "%s", leads && !told ? f->text : "");
    (void)pthread_mutex_unlock(&r->lock);
}

static void note_idle(struct relay *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stats.in_flight = (int64_t)(r->n_ready + r->n_sent);
    r->idle = r->n_ready + r->n_sent + r->ended.n + r->ended.n_failed == 0 && r->from == 0 &&
              !r->more && !atomic_load(&r->called);
    if (r->idle) {
        (void)pthread_cond_broadcast(&r->quiet);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static bool work(void *owner, struct fault *f)
{
    struct relay *r = owner;
    if (!atomic_load(&r->leads)) {
        return fault_set(f, FAULT_RETRY, "another cleaner leads");
    }
    if (!link_take_frames(r->thread.link, relay_take_frame, r, f) || !relay_tell_ended(r, f) ||
        !relay_watch(r, f) || !relay_read_more(r, f) || !relay_send_ready(r, f)) {
        return false;
    }
    note_idle(r);
    int64_t due_ms = relay_read_due(r), now = now_ms();
    r->thread.due_ms = due_ms > now && due_ms < INT64_MAX ? due_ms : 0;
    r->thread.unsent = due_ms <= now || r->ended.n + r->ended.n_failed > 0 || relay_may_send(r);
    return true;
}

/* --- for everybody ---------------------------------------------------------------------------- */

static void destroy(void *owner)
{
    struct relay *r = owner;
    struct ended *e = &r->ended;
    struct buf *all[] = {&e->done, &e->expired, &e->failed, &e->errors, &e->retries};
    forget(r);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_clear(all[i]);
    }
    (void)pthread_cond_destroy(&r->quiet);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

bool relay_open(const char *database_url, const char *amqp_url, struct relay **ret, struct fault *f)
{
    static const struct amqp_duty duty = {up, work, down, destroy};
    struct relay *r = calloc(1, sizeof *r);
    if (!r) {
        return fault_memory(f);
    }
    struct ended *e = &r->ended;
    struct buf *all[] = {&e->done, &e->expired, &e->failed, &e->errors, &e->retries};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_init(all[i], RELAY_ARRAY_BYTES_MAX);
    }
    ended_begin(e);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->quiet, NULL);
    r->database_url = database_url;
    if (!amqp_thread_start(&r->thread, amqp_url, "tenon cleaner relay", &duty, r, f)) {
        destroy(r);
        return false;
    }
    *ret = r;
    return true;
}

void relay_lead(struct relay *r, bool leads)
{
    if (r && atomic_exchange(&r->leads, leads) && !leads) {
        amqp_thread_want(&r->thread); /* it looks, and stops */
    }
}

void relay_call(struct relay *r)
{
    if (!r || !atomic_load(&r->leads)) {
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    r->idle = false;
    (void)pthread_mutex_unlock(&r->lock);
    atomic_store(&r->called, true);
    atomic_store(&r->looks, true);
    amqp_thread_want(&r->thread);
}

int64_t relay_seen(const struct relay *r)
{
    return r ? r->seen : INT64_MAX;
}

bool relay_flush(struct relay *r, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms);
    if (!r) {
        return true;
    }
    (void)pthread_mutex_lock(&r->lock);
    while (!r->idle && pthread_cond_clockwait(&r->quiet, &r->lock, CLOCK_MONOTONIC, &until) == 0) {
    }
    bool ok = r->idle;
    (void)pthread_mutex_unlock(&r->lock);
    return ok;
}

void relay_stats(struct relay *r, struct relay_stats *ret)
{
    *ret = (struct relay_stats){.sent = 0};
    if (r) {
        (void)pthread_mutex_lock(&r->lock);
        *ret = r->stats;
        (void)pthread_mutex_unlock(&r->lock);
    }
}

void relay_close(struct relay *r)
{
    if (r) {
        amqp_thread_end(&r->thread, RELAY_CLOSE_LIMIT_MS);
    }
}
