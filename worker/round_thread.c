#include "worker/round_thread.h"

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
        poll_clear(&e->context.poll);
        free(e);
        return false;
    }
    (void)pthread_mutex_init(&e->mutex, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
    for (size_t i = 0; i < TEXTS; i++) {
        buf_init(&e->context.texts[i], ROUND_TEXT_BYTES_MAX);
    }
    if (!thread_start(&e->thread, 0, round_thread_thread, e, "rounds", f)) {
        poll_clear(&e->context.poll);
        free(e);
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
        buf_clear(&e->context.texts[i]);
    }
    poll_clear(&e->context.poll);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->mutex);
    free(e);
    return true;
}
