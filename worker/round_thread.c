#include "worker/round_thread.h"

#include "core/array.h"
#include "core/db.h"
#include "core/now.h"
#include "core/point.h"
#include "core/statements.h"
#include "worker/poll.h"
#include "worker/statements.h"
#include "worker/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POLL_COLUMN_ID = 0,
    POLL_COLUMN_RUN_AT = 2,
    POLL_COLUMN_RANGE = 12,
    POLL_COLUMN_FULL = 13,
    POLL_COLUMN_BOUNDED = 14,
};

enum { CALLS_MAX = 12, PARAMS_MAX = 10, TEXTS = 24 };

struct round_thread {
    struct round_thread_settings settings;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct round *asked; /* under the mutex: set by the owner, taken by the thread */
    char worker_id[WORKER_ID_BYTES];
    bool quit;
    struct db *db; /* written by the thread, under the mutex; the owner may cut it */

    bool forgets_history; /* done tasks are not kept */
    struct poll poll;
    struct buf texts[TEXTS]; /* array literals; their memory is kept */
};

/* One round on its way: the calls, and which is which. */
struct run {
    struct round_thread *e;
    struct round *x;
    struct db_call calls[CALLS_MAX];
    const char *params[CALLS_MAX][PARAMS_MAX];
    size_t n, n_texts;
    int settings, own, verify, finish, requeue, claim, poll; /* index of the call, -1 = not asked */
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

static const char *queues_array(struct run *r)
{
    const struct round_thread_settings *s = &r->e->settings;
    struct buf *b = new_array(r);
    for (size_t i = 0; i < s->n_queues; i++) {
        array_put_text(b, s->queues[i]);
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

static const char *number(struct run *r, int64_t n)
{
    struct buf *b = &r->e->texts[r->n_texts++];
    buf_empty(b);
    buf_put_int(b, n);
    return buf_text(b);
}

static void add_claim(struct run *r, const char *worker)
{
    struct buf *ids = new_array(r);
    for (size_t i = 0; i < r->x->n_ids; i++) {
        array_put_int(ids, r->x->ids[i]);
    }
    const char *params[] = {worker, end_array(r, ids), queues_array(r), kinds_array(r),
                            number(r, CLAIM_BYTES_MAX)};
    r->claim = add_call(r, &sql_claim, 5, params);
}

static void add_poll(struct run *r, const char *worker)
{
    struct round_thread *e = r->e;
    poll_begin(&e->poll, r->x->way, r->x->turn, now_ms());
    struct buf *queues = new_array(r), *priorities = new_array(r);
    struct buf *from_us = new_array(r), *from_ids = new_array(r);
    for (size_t i = 0; i < e->poll.n_ranges; i++) {
        const struct poll_range *range = &e->poll.ranges[i];
        array_put_text(queues, e->settings.queues[range->queue]);
        array_put_int(priorities, range->priority);
        if (range->from.run_at_us == INT64_MIN) {
            array_put_text(from_us, NULL);
        } else {
            array_put_int(from_us, range->from.run_at_us);
        }
        array_put_int(from_ids, range->from.id);
    }
    const char *params[] = {worker,
                            kinds_array(r),
                            number(r, r->x->n_poll),
                            end_array(r, queues),
                            end_array(r, priorities),
                            end_array(r, from_us),
                            end_array(r, from_ids),
                            number(r, POLL_ROWS_MAX),
                            number(r, CLAIM_BYTES_MAX),
                            r->x->way == POLL_ON ? "false" : "true"};
    r->poll = add_call(r, &sql_poll, 10, params);
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
    if (x->n_ids > 0) {
        add_claim(r, worker);
    }
    if (x->n_poll > 0) {
        add_poll(r, worker);
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

static bool read_claims(struct round *x, const struct rows *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct claim *c = read_claim(rows, i);
        if (!c) {
            return false;
        }
        x->claimed[x->n_claimed++] = c;
    }
    return true;
}

/* The claimed tasks, and how far was read for them. */
static bool read_poll(struct run *r, const struct rows *rows)
{
    struct round *x = r->x;
    size_t n = rows_count(rows);
    enum poll_end end = POLL_ALL;
    for (; n > 0 && !rows_is_null(rows, n - 1, POLL_COLUMN_RANGE); n--) {
        poll_read_to(&r->e->poll, (size_t)rows_int(rows, n - 1, POLL_COLUMN_RANGE) - 1,
                     (struct poll_place){.run_at_us = rows_int(rows, n - 1, POLL_COLUMN_RUN_AT),
                                         .id = rows_int(rows, n - 1, POLL_COLUMN_ID)});
        if (rows_bool(rows, n - 1, POLL_COLUMN_FULL)) {
            end = POLL_FULL;
        } else if (rows_bool(rows, n - 1, POLL_COLUMN_BOUNDED)) {
            end = POLL_BOUNDED;
        }
    }
    x->end = poll_end(&r->e->poll, end, now_ms());
    return read_claims(x, rows, n);
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
    if (r->claim >= 0) {
        const struct rows *rows = r->calls[r->claim].rows;
        return read_claims(x, rows, rows_count(rows));
    }
    return r->poll < 0 || read_poll(r, r->calls[r->poll].rows);
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

/* Committed, and yet the answer is as good as lost? Only when a test wants it so. */
static bool answer_fails(const struct run *r, struct fault *f)
{
    return (r->x->n_finish > 0 && POINT_FAILS(finish_committed, f)) ||
           (r->x->n_requeue > 0 && POINT_FAILS(requeue_committed, f)) ||
           (r->x->n_claimed > 0 && POINT_FAILS(claims_committed, f));
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
                    .poll = -1};
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
        report_fault(e, &f);
        return;
    }
    bool ok = read_answers(&r) && !answer_fails(&r, &f);
    for (size_t i = 0; i < r.n; i++) {
        rows_free(r.calls[i].rows);
    }
    if (!ok) {
        /* it has committed, and what it claimed is not known here: the same as a lost answer */
        for (size_t i = 0; i < x->n_claimed; i++) {
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
    if (!poll_init(&e->poll, settings->n_queues, f)) {
        poll_clear(&e->poll);
        free(e);
        return false;
    }
    (void)pthread_mutex_init(&e->mutex, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
    for (size_t i = 0; i < TEXTS; i++) {
        buf_init(&e->texts[i], ROUND_TEXT_BYTES_MAX);
    }
    if (pthread_create(&e->thread, NULL, round_thread_thread, e) != 0) {
        poll_clear(&e->poll);
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
    poll_clear(&e->poll);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->mutex);
    free(e);
    return true;
}
