#include "intake/note.h"

#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/thread.h"
#include "intake/statements.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct intake_note {
    const char *url;
    struct source *const *sources;
    size_t n;
    char host[256];
    int64_t begun_ms;
    pthread_t thread;
    pthread_cond_t wake;
    pthread_mutex_t mutex; /* holds all that follows */
    bool closing;
    struct db *db;    /* NULL = not connected; another thread may only cut it */
    struct buf rows;  /* as JSON */
    struct buf state; /* of each source, why it takes nothing */
    bool has_rows;    /* in the database, or may have */
    char *noted;      /* the state that was written last; NULL = it is not known */
    int64_t next_ms;
    int failures;                     /* in a row */
    char error[FAULT_TEXT_BYTES_MAX]; /* as logged */
};

/* --- what is written -------------------------------------------------------------------------- */

static void put_source(struct intake_note *n, struct source *source)
{
    struct source_stats s;
    source_stats(source, &s);
    const char *queue = source_queue(source), *problem = source_problem(&s);
    buf_put_text(&n->rows, n->rows.len > 1 ? ", {\"queue\": " : "{\"queue\": ");
    buf_put_json(&n->rows, queue, strlen(queue));
    buf_printf(&n->rows,
               ", \"is_stream\": %s, \"taken\": %" PRId64 ", \"repeated\": %" PRId64
               ", \"rejected\": %" PRId64 ", \"kept\": %" PRId64 ", \"unkeyed\": %" PRId64
               ", \"error\": ",
               source_is_stream(source) ? "true" : "false", s.total.taken, s.total.repeated,
               s.total.rejected, s.total.kept, s.total.unkeyed);
    buf_put_json_or_null(&n->rows, problem);
    buf_put_char(&n->rows, '}');
    buf_printf(&n->state, "%s\n", problem ? problem : "");
}

/* Of no sources, when the program ends: they may be gone. */
static void gather(struct intake_note *n)
{
    buf_empty(&n->rows);
    buf_empty(&n->state);
    buf_put_char(&n->rows, '[');
    for (size_t i = 0; !n->closing && i < n->n; i++) {
        put_source(n, n->sources[i]);
    }
    buf_put_char(&n->rows, ']');
}

/* --- the session: under the mutex, which is released meanwhile -------------------------------- */

static bool open_session(struct intake_note *n, struct fault *f)
{
    struct db *db = NULL;
    if (n->db) {
        return true;
    }
    (void)pthread_mutex_unlock(&n->mutex);
    bool ok = db_open(n->url, DB_PLAIN, "tenon intake status", &db, f);
    if (!ok) {
        db_close(db);
    }
    (void)pthread_mutex_lock(&n->mutex);
    n->db = ok ? db : NULL;
    return ok;
}

static bool write_rows(struct intake_note *n, struct fault *f)
{
    char pid[12], up_ms[24];
    const char *const params[] = {n->host, pid, TENON_VERSION, up_ms, buf_text(&n->rows)};
    struct db_call call = {.statement = &sql_note, .params = params, .n_params = 5};
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    (void)snprintf(up_ms, sizeof up_ms, "%" PRId64, now_ms() - n->begun_ms);
    if (n->rows.failed || n->state.failed) {
        return fault_memory(f);
    }
    if (!open_session(n, f)) {
        return false;
    }
    n->has_rows = true; /* also if the answer is lost */
    (void)pthread_mutex_unlock(&n->mutex);
    bool ok = db_batch(n->db, &call, 1, NOTE_ANSWER_LIMIT_MS, NULL, f);
    rows_free(call.rows);
    (void)pthread_mutex_lock(&n->mutex);
    if (!db_is_open(n->db)) {
        db_close(n->db);
        n->db = NULL;
    }
    return ok;
}

/* Locks, and restarts of the server, are usual and not reported at once. */
static void note_failure(struct intake_note *n, struct fault *f)
{
    n->failures++;
    n->next_ms = now_ms() + now_pause_ms(n->failures, NOTE_TICK_MS, NOTE_MS);
    if ((!fault_passes(f) || n->failures >= NOTE_TELL_FAILURES) && strcmp(n->error, f->text) != 0) {
        (void)snprintf(n->error, sizeof n->error, "%s", f->text);
        (void)fault_add(f, "could not write what tenon status shows of this process");
        log_fault(LOG_WARNING, "intake_note_failed", f);
    }
}

static void note_success(struct intake_note *n)
{
    free(n->noted);
    n->noted = strdup(buf_text(&n->state));
    n->next_ms = now_ms() + NOTE_MS;
    n->failures = 0;
    n->error[0] = '\0';
}

/* --- the thread ------------------------------------------------------------------------------- */

static void turn(struct intake_note *n)
{
    struct fault f = {.code = FAULT_NONE};
    gather(n);
    bool changed = n->noted && strcmp(n->noted, buf_text(&n->state)) != 0;
    if (now_ms() < n->next_ms && !(changed && n->failures == 0)) {
        return;
    }
    if (write_rows(n, &f)) {
        note_success(n);
    } else {
        note_failure(n, &f);
    }
}

/* The session may have been lost since the last time: then another one. */
static void say_goodbye(struct intake_note *n)
{
    for (int tries = 0; n->has_rows && tries < NOTE_GOODBYES; tries++) {
        struct fault ignored = {.code = FAULT_NONE};
        gather(n);
        n->has_rows = !write_rows(n, &ignored);
    }
}

static void *run(void *arg)
{
    struct intake_note *n = arg;
    (void)pthread_mutex_lock(&n->mutex);
    while (!n->closing) {
        turn(n);
        struct timespec until = now_after(NOTE_TICK_MS);
        if (!n->closing) {
            (void)pthread_cond_clockwait(&n->wake, &n->mutex, CLOCK_MONOTONIC, &until);
        }
    }
    say_goodbye(n);
    struct db *db = n->db;
    n->db = NULL;
    (void)pthread_mutex_unlock(&n->mutex);
    db_close(db);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static void destroy(struct intake_note *n)
{
    (void)pthread_cond_destroy(&n->wake);
    (void)pthread_mutex_destroy(&n->mutex);
    buf_clear(&n->rows);
    buf_clear(&n->state);
    free(n->noted);
    free(n);
}

bool intake_note_open(const char *url, struct source *const *sources, size_t n_sources,
                      struct intake_note **ret, struct fault *f)
{
    struct intake_note *n = calloc(1, sizeof *n);
    if (!n) {
        return fault_memory(f);
    }
    n->url = url;
    n->sources = sources;
    n->n = n_sources;
    n->begun_ms = now_ms();
    (void)gethostname(n->host, sizeof n->host - 1);
    buf_init(&n->rows, 1 << 20);
    buf_init(&n->state, 1 << 20);
    (void)pthread_mutex_init(&n->mutex, NULL);
    (void)pthread_cond_init(&n->wake, NULL);
    if (!thread_start(&n->thread, 0, run, n, "what tenon status shows", f)) {
        destroy(n);
        return false;
    }
    *ret = n;
    return true;
}

void intake_note_close(struct intake_note *n)
{
    if (!n) {
        return;
    }
    (void)pthread_mutex_lock(&n->mutex);
    n->closing = true;
    (void)pthread_cond_signal(&n->wake);
    (void)pthread_mutex_unlock(&n->mutex);
    bool over = thread_join(n->thread, NOTE_CLOSE_LIMIT_MS);
    if (!over) {
        (void)pthread_mutex_lock(&n->mutex);
        if (n->db) {
            db_cut(n->db);
        }
        (void)pthread_mutex_unlock(&n->mutex);
        over = thread_join(n->thread, NOTE_CUT_LIMIT_MS);
    }
    if (over) {
        destroy(n);
    }
}
