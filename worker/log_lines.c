#include "worker/log_lines.h"

#include "core/base/array.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/statements.h"
#include "worker/statements.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Its level, message and fields lie behind it, one after the other. */
struct waiting {
    struct waiting *next;
    int64_t task, came_us;
    int attempt;
    size_t bytes;
    const char *level, *message, *fields;
    char texts[];
};

enum { TASKS, ATTEMPTS, AGO_US, LEVELS, MESSAGES, FIELDS, PARAMS };

struct log_lines {
    /* under the mutex */
    pthread_mutex_t mutex;
    struct waiting *first, *last;
    size_t n, bytes;
    int64_t left_out; /* since the last write */
    int64_t retry_ms; /* the last write failed: not before then */

    /* the round thread's */
    bool failed; /* the last write */
    struct buf arrays[PARAMS];
};

struct log_lines *log_lines_new(void)
{
    struct log_lines *l = calloc(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    (void)pthread_mutex_init(&l->mutex, NULL);
    for (int i = 0; i < PARAMS; i++) {
        buf_init(&l->arrays[i], 4 * LOG_WRITE_BYTES_MAX);
    }
    return l;
}

static void note_left_out(int64_t n)
{
    if (n > 0) {
        log_event(LOG_WARNING, LOG_EVENT("handler_log_left_out"), LOG_NUM("lines", n));
    }
}

static void free_lines(struct waiting *line)
{
    struct waiting *next;
    for (; line; line = next) {
        next = line->next;
        free(line);
    }
}

void log_lines_free(struct log_lines *l)
{
    if (!l) {
        return;
    }
    for (int i = 0; i < PARAMS; i++) {
        buf_clear(&l->arrays[i]);
    }
    note_left_out(l->left_out + (int64_t)l->n);
    free_lines(l->first);
    (void)pthread_mutex_destroy(&l->mutex);
    free(l);
}

static struct waiting *copy(const struct log_line *line)
{
    size_t message = strlen(line->message) + 1, level = strlen(line->level) + 1;
    size_t fields = line->fields ? strlen(line->fields) + 1 : 0;
    struct waiting *w = malloc(sizeof *w + level + message + fields);
    if (!w) {
        return NULL;
    }
    *w = (struct waiting){.task = line->task,
                          .attempt = line->attempt,
                          .came_us = now_us(),
                          .bytes = sizeof *w + level + message + fields,
                          .level = w->texts,
                          .message = w->texts + level,
                          .fields = fields ? w->texts + level + message : NULL};
    memcpy(w->texts, line->level, level);
    memcpy(w->texts + level, line->message, message);
    if (fields) {
        memcpy(w->texts + level + message, line->fields, fields);
    }
    return w;
}

bool log_lines_add(struct log_lines *l, const struct log_line *line)
{
    struct waiting *w = copy(line);
    (void)pthread_mutex_lock(&l->mutex);
    bool first = !l->first;
    if (!w || l->bytes + w->bytes > LOG_WAITING_BYTES_MAX) {
        l->left_out++;
        free(w);
        w = NULL;
    } else if (first) {
        l->first = l->last = w;
    } else {
        l->last = l->last->next = w;
    }
    l->n += w != NULL;
    l->bytes += w ? w->bytes : 0;
    bool many = w && (l->n == LOG_WRITE_LINES_MAX);
    (void)pthread_mutex_unlock(&l->mutex);
    return (first && w) || many;
}

int64_t log_lines_due(struct log_lines *l)
{
    (void)pthread_mutex_lock(&l->mutex);
    bool many = l->n >= LOG_WRITE_LINES_MAX || l->bytes >= LOG_WRITE_BYTES_MAX;
    int64_t due = !l->first ? INT64_MAX
                            : l->first->came_us / 1000 + (many ? 0 : LOG_WRITE_EVERY_MS);
    due = l->first && due < l->retry_ms ? l->retry_ms : due;
    (void)pthread_mutex_unlock(&l->mutex);
    return due;
}

/* --- the round thread --- */

/* Only this thread takes lines away, so that those that it has seen stay. ret: how many */
static size_t gather(struct log_lines *l, const char *params[PARAMS])
{
    size_t n = 0, bytes = 0;
    int64_t now = now_us();
    for (int i = 0; i < PARAMS; i++) {
        array_begin(&l->arrays[i]);
    }
    (void)pthread_mutex_lock(&l->mutex);
    for (const struct waiting *w = l->first;
         w && n < LOG_WRITE_LINES_MAX && bytes < LOG_WRITE_BYTES_MAX; w = w->next) {
        array_put_int(&l->arrays[TASKS], w->task);
        array_put_int(&l->arrays[ATTEMPTS], w->attempt);
        array_put_int(&l->arrays[AGO_US], now - w->came_us);
        array_put_text(&l->arrays[LEVELS], w->level);
        array_put_text(&l->arrays[MESSAGES], w->message);
        array_put_text(&l->arrays[FIELDS], w->fields);
        bytes += w->bytes;
        n++;
    }
    (void)pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < PARAMS; i++) {
        params[i] = array_end(&l->arrays[i]);
        n = params[i] ? n : 0;
    }
    return n;
}

/* ret: how many lines have been left out since the last call */
static int64_t drop(struct log_lines *l, size_t n, int64_t retry_ms)
{
    (void)pthread_mutex_lock(&l->mutex);
    for (; n > 0 && l->first; n--) {
        struct waiting *w = l->first;
        l->first = w->next;
        l->last = l->first ? l->last : NULL;
        l->bytes -= w->bytes;
        l->n--;
        free(w);
    }
    int64_t left_out = l->left_out;
    l->left_out = 0;
    l->retry_ms = retry_ms;
    (void)pthread_mutex_unlock(&l->mutex);
    return left_out;
}

/* Lines that the database refuses are dropped: none stops those behind it. Without a partition they
 * are refused as well (23514). */
static bool is_refused(struct db *db, const struct fault *f)
{
    struct fault second = {0};
    return f->code == FAULT_ROW && !(strcmp(f->sqlstate, "23514") == 0 &&
                                     db_exec(db, &sql_partitions, NULL, 0, NULL, &second));
}

bool log_lines_write(struct log_lines *l, struct db *db)
{
    const char *params[PARAMS];
    struct fault f = {0};
    size_t n = gather(l, params);
    struct db_call call = {.statement = &sql_log_lines, .params = params, .n_params = PARAMS};
    bool ok = n > 0 ? db && db_is_open(db) && db_batch(db, &call, 1, LOG_WRITE_LIMIT_MS, NULL, &f)
                    : fault_memory(&f);
    rows_free(call.rows);
    bool refused = !ok && f.code == FAULT_ROW && is_refused(db, &f);
    int64_t left_out = drop(l, ok || refused ? n : 0, ok ? 0 : now_ms() + LOG_WRITE_RETRY_MS);
    if (!ok && !l->failed && f.code != FAULT_NONE) {
        (void)fault_add(&f, "could not write to tenon.log_line what handlers logged");
        log_fault(LOG_WARNING, "handler_log_failed", &f);
    }
    note_left_out(left_out);
    l->failed = !ok && (l->failed || f.code != FAULT_NONE);
    return ok;
}
