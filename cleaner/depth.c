#include "cleaner/depth.h"

#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/thread.h"
#include "core/db/db.h"

#include <stdio.h>
#include <stdlib.h>

struct depth {
    const char *url;
    pthread_t thread;
    pthread_cond_t wake;
    pthread_mutex_t mutex; /* holds all that follows */
    bool closing, leads;
    struct db *db;   /* NULL = not connected; another thread may only cut it */
    int64_t next_ms; /* when to count */
    int failures;    /* in a row */
    char error[FAULT_TEXT_BYTES_MAX];
};

/* --- one count ------------------------------------------------------------------------------ */

/* The server looks for its client once a second while it counts: a cleaner that has ended leaves
 * no count behind. On some systems PostgreSQL cannot do that, and refuses the setting. */
static bool connect_session(struct depth *d, struct db **ret, struct fault *f)
{
    char limits[256];
    (void)snprintf(limits, sizeof limits,
                   "SET statement_timeout = %d; DO $$ BEGIN"
                   " PERFORM set_config('client_connection_check_interval', '1000', false);"
                   " EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$",
                   DEPTH_STATEMENT_LIMIT_MS);
    return db_open(d->url, DB_PLAIN, "tenon cleaner depth", ret, f) && db_script(*ret, limits, f);
}

static bool may_go_on(const struct depth *d)
{
    return d->leads && !d->closing;
}

/* Under the mutex, which is released meanwhile. */
static bool open_session(struct depth *d, struct fault *f)
{
    struct db *db = NULL;
    if (d->db) {
        return true;
    }
    (void)pthread_mutex_unlock(&d->mutex);
    bool ok = connect_session(d, &db, f);
    if (!ok) {
        db_close(db);
    }
    (void)pthread_mutex_lock(&d->mutex);
    d->db = ok ? db : NULL;
    return ok;
}

static void close_session(struct depth *d)
{
    db_close(d->db);
    d->db = NULL;
}

/* Under the mutex, which is released meanwhile. */
static bool count(struct depth *d, bool *ret_changed, struct fault *f)
{
    struct db_call call = {.statement = &sql_depth};
    if (!open_session(d, f) || !may_go_on(d)) {
        return false;
    }
    (void)pthread_mutex_unlock(&d->mutex);
    bool ok = db_batch(d->db, &call, 1, DEPTH_ANSWER_LIMIT_MS, NULL, f);
    *ret_changed = ok && rows_bool(call.rows, 0, 0);
    rows_free(call.rows);
    (void)pthread_mutex_lock(&d->mutex);
    if (!db_is_open(d->db)) {
        close_session(d);
    }
    return ok;
}

/* Locks, and restarts of the server, are usual and not reported at once. */
static void note_failure(struct depth *d, struct fault *f, int64_t took_ms)
{
    bool passing = fault_passes(f) && took_ms < DEPTH_STATEMENT_LIMIT_MS;
    d->failures++;
    if (!passing || d->failures >= DEPTH_TELL_FAILURES) {
        (void)fault_add(f, "could not count the tasks");
        if (d->error[0] == '\0') {
            log_fault(LOG_WARNING, "depth_failed", f);
        }
        (void)snprintf(d->error, sizeof d->error, "%s", f->text);
    }
}

static void note_success(struct depth *d, int64_t took_ms)
{
    if (d->error[0] != '\0') {
        log_event(LOG_INFO, LOG_EVENT("depth_recovered"), LOG_NUM("took_ms", took_ms));
    }
    d->failures = 0;
    d->error[0] = '\0';
}

static void turn(struct depth *d)
{
    struct fault f = {.code = FAULT_NONE};
    bool changed = false;
    int64_t begun_ms = now_ms();
    bool ok = count(d, &changed, &f);
    int64_t took_ms = now_ms() - begun_ms;
    if (ok) {
        note_success(d, took_ms);
    } else if (may_go_on(d)) {
        note_failure(d, &f, took_ms);
    }
    int64_t pause_ms = took_ms * DEPTH_PAUSE_FACTOR;
    int64_t least_ms = changed ? DEPTH_CHANGED_MS : DEPTH_SAME_MS;
    d->next_ms = now_ms() + (pause_ms > least_ms ? pause_ms : least_ms);
}

/* --- the thread ----------------------------------------------------------------------------- */

static void *run(void *arg)
{
    struct depth *d = arg;
    (void)pthread_mutex_lock(&d->mutex);
    while (!d->closing) {
        if (!d->leads) {
            close_session(d);
            d->next_ms = 0; /* a new leader counts at once */
            d->failures = 0;
            d->error[0] = '\0';
            (void)pthread_cond_wait(&d->wake, &d->mutex);
        } else if (now_ms() < d->next_ms) {
            struct timespec until = now_after(d->next_ms - now_ms());
            (void)pthread_cond_clockwait(&d->wake, &d->mutex, CLOCK_MONOTONIC, &until);
        } else {
            turn(d);
        }
    }
    close_session(d);
    (void)pthread_mutex_unlock(&d->mutex);
    return NULL;
}

/* Under the mutex. */
static void stop_counting(struct depth *d)
{
    if (d->db) {
        db_cut(d->db);
    }
    (void)pthread_cond_signal(&d->wake);
}

void depth_lead(struct depth *d, bool leads)
{
    if (!d) {
        return;
    }
    (void)pthread_mutex_lock(&d->mutex);
    if (d->leads != leads) {
        d->leads = leads;
        if (!leads) {
            stop_counting(d);
        }
        (void)pthread_cond_signal(&d->wake);
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

void depth_error(struct depth *d, char error[FAULT_TEXT_BYTES_MAX])
{
    error[0] = '\0';
    if (d) {
        (void)pthread_mutex_lock(&d->mutex);
        (void)snprintf(error, FAULT_TEXT_BYTES_MAX, "%s", d->error);
        (void)pthread_mutex_unlock(&d->mutex);
    }
}

/* --- life ----------------------------------------------------------------------------------- */

bool depth_open(const char *url, struct depth **ret, struct fault *f)
{
    struct depth *d = calloc(1, sizeof *d);
    if (!d) {
        return fault_memory(f);
    }
    d->url = url;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_cond_init(&d->wake, NULL);
    if (!thread_start(&d->thread, 0, run, d, "counting tasks", f)) {
        (void)pthread_cond_destroy(&d->wake);
        (void)pthread_mutex_destroy(&d->mutex);
        free(d);
        return false;
    }
    *ret = d;
    return true;
}

bool depth_close(struct depth *d)
{
    if (!d) {
        return true;
    }
    (void)pthread_mutex_lock(&d->mutex);
    d->closing = true;
    stop_counting(d);
    (void)pthread_mutex_unlock(&d->mutex);
    if (!thread_join(d->thread, DEPTH_CLOSE_LIMIT_MS)) {
        return false;
    }
    (void)pthread_cond_destroy(&d->wake);
    (void)pthread_mutex_destroy(&d->mutex);
    free(d);
    return true;
}
