#include "worker/round_thread.h"

#include "core/array.h"
#include "core/db.h"
#include "core/now.h"
#include "core/point.h"
#include "core/statements.h"
#include "worker/bounds.h"
#include "worker/statements.h"
#include "worker/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 12, PARAMS_MAX = 7, TEXTS = 24 };

struct round_thread {
    struct round_thread_settings settings;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct round *asked; /* under the mutex: set by the owner, taken by the thread */
    char worker_id[WORKER_ID_BYTES];
    bool quit;
    struct db *db; /* written by the thread, under the mutex; the owner may cut it */

    bool forgets_history;     /* done tasks are not kept */
    bool rests[HANDLERS_MAX]; /* as in the last look */
    struct bounds bounds;
    struct buf texts[TEXTS]; /* array literals; their memory is kept */
};

/* One round on its way: the calls, and which is which. */
struct run {
    struct round_thread *e;
    struct round *x;
    struct db_call calls[CALLS_MAX];
    const char *params[CALLS_MAX][PARAMS_MAX];
    size_t n, n_texts;
    int settings, own, verify, finish, requeue, claim, look; /* index of the call, -1 = not asked */
    bool failed;                                             /* a text did not fit */
};

static const char *end_array(struct run *r, struct buf *b)
{
    const char *text = array_end(b);
    r->failed = r->failed || !text;
    return text;
}

static struct buf *new_array(struct run *r)
{
    struct buf *b = &r->e->texts[r->n_texts++];
    array_begin(b);
    return b;
}

static int add_call(struct run *r, const struct statement *statement, int n_params,
                    const char *const *params)
{
    struct db_call *call = &r->calls[r->n];
    memcpy(r->params[r->n], params, (size_t)n_params * sizeof *params);
    *call =
        (struct db_call){.statement = statement, .params = r->params[r->n], .n_params = n_params};
    return (int)r->n++;
}

/* --- the calls --- */

enum field { FIELD_ID, FIELD_CLAIMS, FIELD_START };

static const char *fence_array(struct run *r, struct claim *const *claims, size_t n,
                               enum field field)
{
    struct buf *b = new_array(r);
    for (size_t i = 0; i < n; i++) {
        const struct claim *c = claims[i];
        array_put_int(b, field == FIELD_ID       ? c->id
                         : field == FIELD_CLAIMS ? c->claims
                                                 : c->start_us);
    }
    return end_array(r, b);
}

static void add_finish(struct run *r, const char *worker)
{
    struct round *x = r->x;
    struct buf *replies = new_array(r);
    for (size_t i = 0; i < x->n_finish; i++) {
        array_put_text(replies, x->finish[i]->reply);
    }
    const char *params[] = {worker, fence_array(r, x->finish, x->n_finish, FIELD_ID),
                            fence_array(r, x->finish, x->n_finish, FIELD_CLAIMS),
                            fence_array(r, x->finish, x->n_finish, FIELD_START),
                            end_array(r, replies)};
    r->finish = add_call(r,
                         x->unlocked             ? &sql_finish_unlocked
                         : r->e->forgets_history ? &sql_finish_forget
                                                 : &sql_finish,
                         5, params);
}

static void add_requeue(struct run *r, const char *worker)
{
    struct round *x = r->x;
    struct buf *reasons = new_array(r), *errors = new_array(r), *delays = new_array(r);
    for (size_t i = 0; i < x->n_requeue; i++) {
        const struct claim *c = x->requeue[i];
        array_put_text(reasons, claim_reason(c->outcome));
        array_put_text(errors, c->error);
        if (c->delay_ms >= 0) {
            array_put_int(delays, c->delay_ms);
        } else {
            array_put_text(delays, NULL);
        }
    }
    const char *params[] = {worker,
                            fence_array(r, x->requeue, x->n_requeue, FIELD_ID),
                            fence_array(r, x->requeue, x->n_requeue, FIELD_CLAIMS),
                            fence_array(r, x->requeue, x->n_requeue, FIELD_START),
                            end_array(r, reasons),
                            end_array(r, errors),
                            end_array(r, delays)};
    r->requeue = add_call(r, &sql_requeue, 7, params);
}

static void add_verify(struct run *r, const char *worker)
{
    struct buf *ids = new_array(r), *claims = new_array(r);
    for (size_t i = 0; i < r->x->n_verify; i++) {
        array_put_int(ids, r->x->verify[i].id);
        array_put_int(claims, r->x->verify[i].claims);
    }
    const char *params[] = {worker, end_array(r, ids), end_array(r, claims)};
    r->verify = add_call(r, &sql_verify, 3, params);
}

/* The queues, another one first each turn. */
static const char *queues_array(struct run *r)
{
    const struct round_thread_settings *s = &r->e->settings;
    struct buf *b = new_array(r);
    for (size_t i = 0; i < s->n_queues; i++) {
        array_put_text(b, s->queues[(i + r->x->turn) % s->n_queues]);
    }
    return end_array(r, b);
}

static const char *kinds_array(struct run *r)
{
    const struct round_thread_settings *s = &r->e->settings;
    struct buf *b = new_array(r);
    for (int i = 0; i < s->n_handlers; i++) {
        for (size_t j = 0; !r->x->rests[i] && j < s->handlers[i].n_kinds; j++) {
            array_put_text(b, s->handlers[i].kind_names[j]);
        }
    }
    return end_array(r, b);
}

static void add_claims(struct run *r, const char *worker)
{
    struct round *x = r->x;
    const char *queues = queues_array(r), *kinds = kinds_array(r);
    if (x->n_ids > 0) {
        struct buf *ids = new_array(r);
        for (size_t i = 0; i < x->n_ids; i++) {
            array_put_int(ids, x->ids[i]);
        }
        const char *params[] = {worker, end_array(r, ids), queues, kinds};
        r->claim = add_call(r, &sql_claim, 4, params);
    }
    if (x->n_poll > 0) {
        struct buf *n = &r->e->texts[r->n_texts++];
        buf_empty(n);
        buf_put_int(n, x->n_poll);
        struct buf *from = new_array(r);
        if (memcmp(r->e->rests, x->rests, sizeof x->rests) != 0) {
            memcpy(r->e->rests, x->rests, sizeof x->rests);
            bounds_other_kinds(&r->e->bounds);
        }
        bounds_start(&r->e->bounds, x->turn, x->oldest, x->everything, now_ms(), from);
        const char *by_age = r->e->bounds.by_age ? "true" : "false";
        const char *params[] = {worker, queues, kinds, buf_text(n), end_array(r, from), by_age};
        r->look = add_call(r, &sql_poll, 6, params);
    }
}

static void add_calls(struct run *r, const char *worker)
{
    struct round *x = r->x;
    if (x->chores) {
        (void)add_call(r, &sql_partitions, 0, &worker);
        r->settings = add_call(r, &sql_keeps_history, 0, &worker);
    }
    if (x->own) {
        r->own = add_call(r, &sql_own, 1, &worker);
    }
    if (x->n_verify > 0) {
        add_verify(r, worker);
    }
    if (x->n_finish > 0) {
        add_finish(r, worker);
    }
    if (x->n_requeue > 0) {
        add_requeue(r, worker);
    }
    if (x->n_ids > 0 || x->n_poll > 0) {
        add_claims(r, worker);
    }
}

/* --- the answers --- */

/* The index of `id` among `n` claims, looked for from `*at` on, because the rows come nearly in
 * order. */
static size_t index_of(struct claim *const *claims, size_t n, int64_t id, size_t *at)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = (*at + i) % n;
        if (claims[j]->id == id) {
            *at = j + 1;
            return j;
        }
    }
    return n;
}

static void read_finished(struct round *x, const struct rows *rows)
{
    size_t at = 0;
    memset(x->finished, 0, x->n_finish * sizeof *x->finished);
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t j = index_of(x->finish, x->n_finish, rows_int(rows, i, 0), &at);
        if (j < x->n_finish) {
            x->finished[j] = true;
        }
    }
}

static void read_requeue(struct round *x, const struct rows *rows)
{
    size_t at = 0;
    memset(x->requeue_state, 0, x->n_requeue * sizeof *x->requeue_state);
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t j = index_of(x->requeue, x->n_requeue, rows_int(rows, i, 0), &at);
        const char *state = rows_text(rows, i, 1);
        if (j < x->n_requeue) {
            x->requeue_state[j] = strcmp(state, "dead") == 0    ? REQUEUE_DEAD
                                  : strcmp(state, "ready") == 0 ? REQUEUE_READY
                                                                : REQUEUE_WAITS;
        }
    }
}

/* As index_of(); of two claims of one task their number says which. */
static size_t verify_index(const struct round *x, int64_t id, int64_t claims, size_t *at)
{
    for (size_t i = 0; i < x->n_verify; i++) {
        size_t j = (*at + i) % x->n_verify;
        if (x->verify[j].id == id && x->verify[j].claims == claims) {
            *at = j + 1;
            return j;
        }
    }
    return x->n_verify;
}

static void read_verdicts(struct round *x, const struct rows *rows)
{
    size_t at = 0;
    for (size_t i = 0; i < x->n_verify; i++) {
        x->verdicts[i] = VERDICT_LOST;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t j = verify_index(x, rows_int(rows, i, 0), rows_int(rows, i, 1), &at);
        if (j < x->n_verify) {
            x->verdicts[j] = strcmp(rows_text(rows, i, 2), "mine") == 0 ? VERDICT_MINE
                                                                        : VERDICT_ENDED;
        }
    }
}

static struct claim *read_claim(const struct rows *rows, size_t i)
{
    struct claim *c = claim_new(rows_int(rows, i, 0), rows_text(rows, i, 7), rows_text(rows, i, 8),
                                rows_text(rows, i, 9), rows_text(rows, i, 10),
                                rows_bytes(rows, i, 10));
    if (c) {
        c->claims = (int32_t)rows_int(rows, i, 1);
        c->attempt = (int32_t)rows_int(rows, i, 11);
        c->start_us = rows_int(rows, i, 2);
        c->timeout_ms = rows_int(rows, i, 3);
        c->failures = (int32_t)rows_int(rows, i, 4);
        c->max_attempts = (int32_t)rows_int(rows, i, 5);
        c->priority = (int32_t)rows_int(rows, i, 6);
    }
    return c;
}

static bool read_claims(struct round *x, const struct rows *rows, size_t *n)
{
    for (size_t i = 0; rows && i < rows_count(rows); i++) {
        struct claim *c = read_claim(rows, i);
        if (!c) {
            return false;
        }
        x->claimed[x->n_by_id + x->n_by_poll] = c;
        (*n)++;
    }
    return true;
}

static bool read_owned(struct round *x, const struct rows *rows)
{
    size_t n = rows_count(rows);
    x->owned = calloc(n + 1, sizeof *x->owned);
    for (size_t i = 0; x->owned && i < n; i++) {
        struct claim *c = claim_new(rows_int(rows, i, 0), "", "", NULL, NULL, 0);
        if (!c) {
            return false;
        }
        c->claims = (int32_t)rows_int(rows, i, 1);
        c->start_us = rows_int(rows, i, 2);
        x->owned[x->n_owned++] = c;
    }
    return x->owned != NULL;
}

/* The number of a queue, looked for from `*at` on, because many rows of one come together. */
static size_t queue_number(const struct round_thread_settings *s, const char *queue, size_t *at)
{
    for (size_t i = 0; i < s->n_queues; i++) {
        size_t j = (*at + i) % s->n_queues;
        if (strcmp(s->queues[j], queue) == 0) {
            *at = j;
            return j;
        }
    }
    return s->n_queues;
}

/* Where the next look may begin. */
static void read_bounds(struct run *r, const struct rows *rows)
{
    struct round_thread *e = r->e;
    size_t at = 0;
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t queue = queue_number(&e->settings, rows_text(rows, i, 7), &at);
        if (queue < e->settings.n_queues) {
            bounds_saw(&e->bounds, queue, (int32_t)rows_int(rows, i, 6), rows_int(rows, i, 12),
                       rows_int(rows, i, 13));
        }
    }
    bounds_end(&e->bounds, rows_count(rows) == (size_t)r->x->n_poll, now_ms());
    r->x->partial = e->bounds.partial;
}

static bool read_answers(struct run *r)
{
    struct round *x = r->x;
    if (r->own >= 0 && !read_owned(x, r->calls[r->own].rows)) {
        return false;
    }
    if (r->settings >= 0) {
        r->e->forgets_history = !rows_bool(r->calls[r->settings].rows, 0, 0);
    }
    if (r->verify >= 0) {
        read_verdicts(x, r->calls[r->verify].rows);
    }
    if (r->finish >= 0) {
        read_finished(x, r->calls[r->finish].rows);
    }
    if (r->requeue >= 0) {
        read_requeue(x, r->calls[r->requeue].rows);
    }
    if (r->look >= 0) {
        read_bounds(r, r->calls[r->look].rows);
    }
    return read_claims(x, r->claim >= 0 ? r->calls[r->claim].rows : NULL, &x->n_by_id) &&
           read_claims(x, r->look >= 0 ? r->calls[r->look].rows : NULL, &x->n_by_poll);
}

/* --- the thread --- */

static bool connect_session(struct round_thread *e, struct fault *f)
{
    if (e->db && db_is_open(e->db)) {
        return true;
    }
    struct db *db = NULL;
    bool ok = db_open(e->settings.url, DB_HOT, "tenon worker", &db, f);
    (void)pthread_mutex_lock(&e->mutex);
    db_close(e->db);
    e->db = db;
    (void)pthread_mutex_unlock(&e->mutex);
    return ok;
}

static void report(struct round_thread *e, enum event_type type, enum round_failure failure,
                   const char *text)
{
    mailbox_push(e->settings.mailbox,
                 &(struct event){.type = type, .failure = failure, .text = text});
}

/* What the server refuses in a session that lives on, for want of disk space say, has been rolled
 * back: only a session that broke leaves us in doubt. */
static void report_fault(struct round_thread *e, struct fault *f)
{
    bool unknown = !db_is_open(e->db);
    enum round_failure failure = unknown                ? FAILURE_UNKNOWN
                                 : f->code == FAULT_ROW ? FAILURE_ROW
                                                        : FAILURE_AGAIN;
    if (strcmp(f->sqlstate, "23514") == 0) {
        /* tenon.finished has no partition for today; nothing is wrong with the row */
        struct fault second = {0};
        failure = db_exec(e->db, &sql_partitions, NULL, 0, NULL, &second) ? FAILURE_AGAIN
                                                                          : FAILURE_UNKNOWN;
    }
    (void)fault_add(f, "could not round tasks with PostgreSQL");
    report(e, EVENT_ROUND_FAILED, failure, f->text);
}

static size_t count_of(const struct run *r, int call)
{
    return call >= 0 ? rows_count(r->calls[call].rows) : 0;
}

/* Committed, and yet the answer is as good as lost? Only when a test wants it so. */
static bool answer_fails(const struct run *r, struct fault *f)
{
    return (r->x->n_finish > 0 && POINT_FAILS(finish_committed, f)) ||
           (r->x->n_requeue > 0 && POINT_FAILS(requeue_committed, f)) ||
           (count_of(r, r->claim) + count_of(r, r->look) > 0 && POINT_FAILS(claims_committed, f));
}

/* A call has failed, or its session. If the look was run, it may have told others what it took, and
 * may hold the lock for which they wait. */
static void poll_fails(const struct run *r, size_t failed)
{
    if (r->look < 0 || (failed < (size_t)r->look && db_is_open(r->e->db))) {
        return;
    }
    bounds_fail(&r->e->bounds);
    struct fault second = {0};
    if (db_is_open(r->e->db) && !db_exec(r->e->db, &sql_unlock_looks, NULL, 0, NULL, &second)) {
        db_cut(r->e->db); /* the lock goes with the session */
    }
}

static void run_round(struct round_thread *e, struct round *x, const char *worker)
{
    struct fault f = {0};
    struct run r = {.e = e,
                    .x = x,
                    .settings = -1,
                    .own = -1,
                    .verify = -1,
                    .finish = -1,
                    .requeue = -1,
                    .claim = -1,
                    .look = -1};
    if (!connect_session(e, &f)) {
        report(e, EVENT_ROUND_FAILED, FAILURE_AGAIN, f.text); /* nothing was sent */
        return;
    }
    add_calls(&r, worker);
    if (r.failed) {
        report(e, EVENT_ROUND_FAILED, FAILURE_ROW,
               "the results are too large, or there is no memory");
        return;
    }
    if (x->n_finish > 0) {
        POINT(finish_planned);
    }
    size_t failed = 0;
    if (POINT_FAILS(round_planned, &f) ||
        !db_batch(e->db, r.calls, r.n, ROUND_LIMIT_MS, &failed, &f)) {
        poll_fails(&r, failed);
        report_fault(e, &f);
        return;
    }
    bool ok = !answer_fails(&r, &f) && read_answers(&r);
    for (size_t i = 0; i < r.n; i++) {
        rows_free(r.calls[i].rows);
    }
    if (!ok) {
        poll_fails(&r, r.n);
        /* it has committed, and what it claimed is not known here: the same as a lost answer */
        for (size_t i = 0; i < x->n_by_id + x->n_by_poll; i++) {
            claim_free(x->claimed[i]);
        }
        for (size_t i = 0; i < x->n_owned; i++) {
            claim_free(x->owned[i]);
        }
        free(x->owned);
        x->owned = NULL;
        x->n_owned = 0;
        report(e, EVENT_ROUND_FAILED, FAILURE_UNKNOWN, "out of memory");
        return;
    }
    report(e, EVENT_ROUND_DONE, FAILURE_AGAIN, NULL);
}

static void *round_thread_thread(void *arg)
{
    struct round_thread *e = arg;
    (void)pthread_mutex_lock(&e->mutex);
    while (!e->quit) {
        if (!e->asked) {
            (void)pthread_cond_wait(&e->wake, &e->mutex);
            continue;
        }
        struct round *x = e->asked;
        char worker[WORKER_ID_BYTES];
        memcpy(worker, e->worker_id, sizeof worker);
        e->asked = NULL;
        (void)pthread_mutex_unlock(&e->mutex);
        run_round(e, x, worker);
        (void)pthread_mutex_lock(&e->mutex);
    }
    (void)pthread_mutex_unlock(&e->mutex);
    return NULL;
}

bool round_thread_open(const struct round_thread_settings *settings, struct round_thread **ret,
                       struct fault *f)
{
    struct round_thread *e = calloc(1, sizeof *e);
    if (!e) {
        return fault_memory(f);
    }
    e->settings = *settings;
    if (!bounds_init(&e->bounds, settings->n_queues, f)) {
        bounds_clear(&e->bounds);
        free(e);
        return false;
    }
    (void)pthread_mutex_init(&e->mutex, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
    for (size_t i = 0; i < TEXTS; i++) {
        buf_init(&e->texts[i], ROUND_TEXT_BYTES_MAX);
    }
    if (pthread_create(&e->thread, NULL, round_thread_thread, e) != 0) {
        bounds_clear(&e->bounds);
        free(e);
        return fault_set(f, FAULT_RETRY, "could not start the round thread");
    }
    *ret = e;
    return true;
}

void round_thread_run(struct round_thread *e, struct round *x, const char *worker_id)
{
    (void)pthread_mutex_lock(&e->mutex);
    e->asked = x;
    (void)snprintf(e->worker_id, sizeof e->worker_id, "%s", worker_id);
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->mutex);
}

bool round_thread_close(struct round_thread *e)
{
    if (!e) {
        return true;
    }
    (void)pthread_mutex_lock(&e->mutex);
    e->quit = true;
    if (e->db) {
        db_cut(e->db);
    }
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->mutex);
    if (!thread_join(e->thread, ROUND_CLOSE_LIMIT_MS)) {
        return false;
    }
    db_close(e->db);
    for (size_t i = 0; i < TEXTS; i++) {
        buf_clear(&e->texts[i]);
    }
    bounds_clear(&e->bounds);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->mutex);
    free(e);
    return true;
}
