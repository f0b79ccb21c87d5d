#include "worker/round_thread.h"

#include "core/base/now.h"
#include "core/base/point.h"
#include "core/base/thread.h"
#include "core/db/db.h"
#include "core/statements.h"
#include "worker/round_read.h"
#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct round_thread {
    const char *url;
    struct mailbox *mailbox;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct round *asked; /* under the mutex: set by the owner, taken by the thread */
    char worker_id[WORKER_ID_BYTES];
    bool quit;
    struct db *db; /* written by the thread, under the mutex; the owner may cut it */
    struct round_context context;
    struct log_lines *lines;
};

static bool connect_session(struct round_thread *e, struct fault *f)
{
    if (e->db && db_is_open(e->db)) {
        return true;
    }
    struct db *db = NULL;
    bool ok = db_open(e->url, DB_HOT, "tenon worker", &db, f);
    (void)pthread_mutex_lock(&e->mutex);
    db_close(e->db);
    e->db = db;
    (void)pthread_mutex_unlock(&e->mutex);
    return ok;
}

static void report(struct round_thread *e, enum event_type type, enum round_failure failure,
                   const char *text)
{
    mailbox_push(e->mailbox, &(struct event){.type = type, .failure = failure, .text = text});
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
        /* tenon.history has no partition for today; nothing is wrong with the row */
        struct fault second = {0};
        failure = db_exec(e->db, &sql_partitions, NULL, 0, NULL, &second) ? FAILURE_AGAIN
                                                                          : FAILURE_UNKNOWN;
    }
    if (failure != FAILURE_ROW) { /* that may become the note in place of a result */
        (void)fault_add(f, "could not run a round with PostgreSQL");
    }
    report(e, EVENT_ROUND_FAILED, failure, f->text);
}

/* Committed, and yet the answer is as good as lost? Only when a test wants it so. */
static bool answer_fails(const struct round *x, struct fault *f)
{
    return (x->n_finish > 0 && POINT_FAILS(finish_committed, f)) ||
           (x->n_requeue > 0 && POINT_FAILS(requeue_committed, f)) ||
           (x->n_claimed > 0 && POINT_FAILS(claims_committed, f)) ||
           (x->has_turn && POINT_FAILS(turn_taken, f)) ||
           (x->alone == ALONE_ASK_OVER && POINT_FAILS(turn_over, f));
}

/* It has committed. What it claimed and is not known here is the same as a lost answer. */
static void take_answer(struct round_thread *e, struct round_calls *r)
{
    struct fault f = {0};
    bool ok = round_read(r) || fault_memory(&f);
    ok = ok && !answer_fails(r->round, &f);
    for (size_t i = 0; i < r->n; i++) {
        rows_free(r->calls[i].rows);
    }
    if (ok) {
        report(e, EVENT_ROUND_DONE, FAILURE_AGAIN, NULL);
    } else {
        round_free_answer(r->round);
        report(e, EVENT_ROUND_FAILED, FAILURE_UNKNOWN, f.text);
    }
}

static void run_round(struct round_thread *e, struct round *x, const char *worker)
{
    struct fault f = {0};
    struct round_calls r;
    if (!connect_session(e, &f) || !round_build(&r, &e->context, x, worker, &f)) {
        report(e, EVENT_ROUND_FAILED, FAILURE_UNSENT, f.text);
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
    take_answer(e, &r);
}

/* Run the round that was asked for. The mutex is held before and after. */
static void take_round(struct round_thread *e)
{
    struct round *x = e->asked;
    char worker[WORKER_ID_BYTES];
    memcpy(worker, e->worker_id, sizeof worker);
    e->asked = NULL;
    (void)pthread_mutex_unlock(&e->mutex);
    run_round(e, x, worker);
    (void)pthread_mutex_lock(&e->mutex);
}

/* The same, for log lines. */
static bool write_lines(struct round_thread *e)
{
    (void)pthread_mutex_unlock(&e->mutex);
    bool written = log_lines_write(e->lines, e->db);
    (void)pthread_mutex_lock(&e->mutex);
    return written;
}

static void wait_until(struct round_thread *e, int64_t due_ms)
{
    if (due_ms == INT64_MAX) {
        (void)pthread_cond_wait(&e->wake, &e->mutex);
    } else {
        struct timespec until = now_after(due_ms - now_ms());
        (void)pthread_cond_timedwait(&e->wake, &e->mutex, &until);
    }
}

/* Rounds go before log lines, unless those are late. */
static void *round_thread_thread(void *arg)
{
    struct round_thread *e = arg;
    (void)pthread_mutex_lock(&e->mutex);
    while (!e->quit) {
        int64_t due = log_lines_due(e->lines), now = now_ms();
        if (e->asked && now - LOG_WRITE_LATE_MS < due) {
            take_round(e);
        } else if (due <= now) {
            (void)write_lines(e);
        } else {
            wait_until(e, due);
        }
    }
    while (log_lines_due(e->lines) != INT64_MAX && write_lines(e)) {
    } /* until end_thread() cuts it off */
    (void)pthread_mutex_unlock(&e->mutex);
    return NULL;
}

/* The times of its waits are those of now_ms(). */
static bool init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(wake, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return ok;
}

static void free_thread(struct round_thread *e)
{
    db_close(e->db);
    for (size_t i = 0; i < TEXTS; i++) {
        buf_clear(&e->context.texts[i]);
    }
    poll_clear(&e->context.poll);
    log_lines_free(e->lines);
    free(e);
}

bool round_thread_open(const char *url, const struct served *served, struct mailbox *mailbox,
                       struct round_thread **ret, struct fault *f)
{
    struct round_thread *e = calloc(1, sizeof *e);
    if (!e) {
        return fault_memory(f);
    }
    e->url = url;
    e->mailbox = mailbox;
    e->context.served = served;
    if (!poll_init(&e->context.poll, served->n_queues, f)) {
        free_thread(e);
        return false;
    }
    e->lines = log_lines_new();
    (void)pthread_mutex_init(&e->mutex, NULL);
    if (!e->lines || !init_wake(&e->wake)) {
        free_thread(e);
        return fault_memory(f);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        buf_init(&e->context.texts[i], ROUND_TEXT_BYTES_MAX);
    }
    if (!thread_start(&e->thread, 0, round_thread_thread, e, "rounds", f)) {
        free_thread(e);
        return false;
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

void round_thread_log(struct round_thread *e, const struct log_line *line)
{
    if (log_lines_add(e->lines, line)) {
        (void)pthread_mutex_lock(&e->mutex);
        (void)pthread_cond_signal(&e->wake);
        (void)pthread_mutex_unlock(&e->mutex);
    }
}

/* Log lines that wait get a moment to be written; what hangs is cut off. */
static bool end_thread(struct round_thread *e)
{
    (void)pthread_mutex_lock(&e->mutex);
    e->quit = true;
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->mutex);
    if (log_lines_due(e->lines) != INT64_MAX && thread_join(e->thread, ROUND_CLOSE_LIMIT_MS)) {
        return true;
    }
    (void)pthread_mutex_lock(&e->mutex);
    if (e->db) {
        db_cut(e->db);
    }
    (void)pthread_mutex_unlock(&e->mutex);
    return thread_join(e->thread, ROUND_CLOSE_LIMIT_MS);
}

bool round_thread_close(struct round_thread *e)
{
    if (!e) {
        return true;
    }
    if (!end_thread(e)) {
        return false;
    }
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->mutex);
    free_thread(e);
    return true;
}
