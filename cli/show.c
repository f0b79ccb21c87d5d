/* `tenon show ID`: all about one task, and why it waits. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/log.h"
#include "core/schema.h"

#include <inttypes.h>
#include <string.h>

enum { TEXT_BYTES = 512, ID_DIGITS_MAX = 18 };

/* The columns of show.sql. */
enum column {
    STATE,
    WHY,
    ID,
    QUEUE,
    KIND,
    PRIORITY,
    ATTEMPT,
    CLAIMS,
    FAILURES,
    CRASHES,
    MAX_ATTEMPTS,
    TIMEOUT_MS,
    CREATED_AT,
    RUN_AT,
    START_TIME,
    END_TIME,
    WORKER_ID,
    HOST,
    PID,
    WORKER_STATE,
    UNIQUE_KEY,
    TRACE,
    LAST_ERROR,
    DEAD_REASON,
    PAYLOAD,
    RESULT,
    PROGRESS,
    RUN_AT_DISTANCE_MS,
    RAN_MS,
    BACKING_OFF,
    JSON
};

/* "1d 2h", "3min 20s", "4.250s": two units at most, so that it can be taken in at a glance. */
static void time_text(int64_t ms, char *text, size_t size)
{
    int64_t s = ms / 1000;
    if (s >= 86400) {
        (void)snprintf(text, size, "%" PRId64 "d %" PRId64 "h", s / 86400, s % 86400 / 3600);
    } else if (s >= 3600) {
        (void)snprintf(text, size, "%" PRId64 "h %" PRId64 "min", s / 3600, s % 3600 / 60);
    } else if (s >= 60) {
        (void)snprintf(text, size, "%" PRId64 "min %" PRId64 "s", s / 60, s % 60);
    } else {
        (void)snprintf(text, size, "%" PRId64 ".%03" PRId64 "s", s, ms % 1000);
    }
}

static void print_time(const char *key, const char *at, int64_t ms, const char *what)
{
    char span[64];
    char text[TEXT_BYTES];
    time_text(ms, span, sizeof span);
    (void)snprintf(text, sizeof text, "%s (%s%s)", at, what, span);
    print_pair(key, text);
}

static void why_text(const struct rows *r, char *text, size_t size)
{
    const char *why = rows_text(r, 0, WHY);
    const char *queue = rows_text(r, 0, QUEUE);
    char span[64];
    time_text(rows_int(r, 0, RUN_AT_DISTANCE_MS), span, sizeof span);
    text[0] = '\0';
    if (strcmp(why, "not_due") == 0) {
        (void)snprintf(text, size, "it is not due before %s (in %s)", rows_text(r, 0, RUN_AT),
                       span);
    } else if (strcmp(why, "queue_paused") == 0) {
        (void)snprintf(text, size, "the queue %s is paused", queue);
    } else if (strcmp(why, "no_worker") == 0) {
        (void)snprintf(text, size, "no living worker handles the kind %s in the queue %s",
                       rows_text(r, 0, KIND), queue);
    } else if (strcmp(why, "handler_backs_off") == 0) {
        (void)snprintf(text, size, "the handler of the kind %s does not start and backs off %s",
                       rows_text(r, 0, KIND), rows_text(r, 0, BACKING_OFF));
    } else if (strcmp(why, "no_free_slot") == 0) {
        (void)snprintf(text, size, "it is ready and waits for a worker with a free slot, for %s",
                       span);
    } else if (strcmp(why, "running") == 0) {
        time_text(rows_int(r, 0, RAN_MS), span, sizeof span);
        const char *host = rows_text(r, 0, HOST);
        (void)snprintf(text, size, "it runs on %s, pid %" PRId64 ", for %s",
                       host ? host : "an unknown worker", rows_int(r, 0, PID), span);
    }
}

static void print_counts(const struct rows *r)
{
    char text[TEXT_BYTES];
    char of_max[32] = "";
    if (!rows_is_null(r, 0, MAX_ATTEMPTS)) {
        (void)snprintf(of_max, sizeof of_max, " of %" PRId64, rows_int(r, 0, MAX_ATTEMPTS));
    }
    (void)snprintf(text, sizeof text,
                   "%" PRId64 " (failures %" PRId64 "%s, crashes %" PRId64 "), claimed %" PRId64
                   " times",
                   rows_int(r, 0, ATTEMPT), rows_int(r, 0, FAILURES), of_max,
                   rows_int(r, 0, CRASHES), rows_int(r, 0, CLAIMS));
    print_pair("attempts", text);
}

static void print_times(const struct rows *r)
{
    char span[64];
    print_pair("created", rows_text(r, 0, CREATED_AT));
    print_pair("run at", rows_text(r, 0, RUN_AT));
    if (!rows_is_null(r, 0, TIMEOUT_MS)) {
        time_text(rows_int(r, 0, TIMEOUT_MS), span, sizeof span);
        print_pair("timeout", span);
    }
    print_pair("started", rows_text(r, 0, START_TIME));
    const char *end = rows_text(r, 0, END_TIME);
    if (end && !rows_is_null(r, 0, START_TIME)) {
        print_time("ended", end, rows_int(r, 0, RAN_MS), "ran ");
    } else {
        print_pair("ended", end);
    }
}

static void print_worker(const struct rows *r)
{
    char text[TEXT_BYTES];
    const char *id = rows_text(r, 0, WORKER_ID);
    const char *host = rows_text(r, 0, HOST);
    if (id && host) {
        (void)snprintf(text, sizeof text, "%s on %s, pid %" PRId64 ", %s", id, host,
                       rows_int(r, 0, PID), rows_text(r, 0, WORKER_STATE));
        id = text;
    }
    print_pair("worker", id);
}

static void print_task(const struct rows *r)
{
    char why[TEXT_BYTES];
    why_text(r, why, sizeof why);
    print_pair("task", rows_text(r, 0, ID));
    print_pair("state", rows_text(r, 0, STATE));
    print_pair("why", why);
    print_pair("reason", rows_text(r, 0, DEAD_REASON));
    print_pair("kind", rows_text(r, 0, KIND));
    print_pair("queue", rows_text(r, 0, QUEUE));
    print_pair("priority", rows_text(r, 0, PRIORITY));
    print_counts(r);
    print_times(r);
    print_worker(r);
    print_pair("unique key", rows_text(r, 0, UNIQUE_KEY));
    print_pair("trace", rows_text(r, 0, TRACE));
    print_pair("last error", rows_text(r, 0, LAST_ERROR));
    print_pair("progress", rows_text(r, 0, PROGRESS));
    print_pair("result", rows_text(r, 0, RESULT));
    print_pair("payload", rows_text(r, 0, PAYLOAD));
}

static bool id_check(const char *text, struct fault *f)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > ID_DIGITS_MAX || text[digits]) {
        return fault_set(
            f, FAULT_CONFIG,
            "the ID \"%.100s\" is not allowed: it is a task's number, at most %d digits", text,
            ID_DIGITS_MAX);
    }
    return true;
}

static bool show(struct db *db, const char *id, bool json, struct fault *f)
{
    const char *const params[] = {id};
    struct rows *rows = NULL;
    if (!schema_check(db, f)) {
        return false;
    }
    if (!db_exec(db, &sql_show, params, 1, &rows, f)) {
        return fault_add(f, "could not read task %s", id);
    }
    bool found = rows_count(rows) > 0;
    if (found && json) {
        (void)puts(rows_text(rows, 0, JSON));
    } else if (found) {
        print_task(rows);
    }
    rows_free(rows);
    return found;
}

int show_main(const struct options *o)
{
    struct fault f = {FAULT_NONE};
    struct db *db = NULL;
    const char *id = options_arg(o, 0);
    bool found = id_check(id, &f) &&
                 db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT, "tenon show", &db, &f) &&
                 show(db, id, option_flag(o, OPTION_JSON), &f);
    db_close(db);
    if (f.code != FAULT_NONE) {
        log_fault(LOG_ERROR, "show_failed", &f);
        return fault_exit_code(&f);
    }
    if (!found) {
        (void)fprintf(stderr,
                      "tenon show: there is no task %s; it was never enqueued, its transaction "
                      "has not committed, or its history is over\n",
                      id);
    }
    return found ? 0 : 1;
}
