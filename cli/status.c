/* `tenon status`: the queues, the workers, and what nobody handles. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/log.h"
#include "core/schema.h"
#include "core/statements.h"

#include <inttypes.h>

enum {
    ROWS_LOOKED_AT_MAX = 100000, /* of each queue; a count that reaches it is printed with a "+" */
    LINES_MAX = 1000,            /* queues, workers and kinds that are shown */
};
_Static_assert(ROWS_LOOKED_AT_MAX == 100000 && LINES_MAX == 1000,
               "the parameters below say the same");

struct status {
    struct rows *version, *queues, *workers, *unhandled, *finished;
};

/* The columns of status_queues.sql. */
enum {
    Q_NAME,
    Q_PAUSED,
    Q_READY,
    Q_RUNNING,
    Q_SCHEDULED,
    Q_RETRYING,
    Q_DEAD,
    Q_OLDEST_S,
    Q_DUE_IS_MORE,
    Q_AHEAD_IS_MORE,
    Q_DEAD_IS_MORE
};
/* of status_workers.sql, status_unhandled.sql and status_finished.sql */
enum {
    W_ID,
    W_HOST,
    W_PID,
    W_STATE,
    W_IS_PRESENT,
    W_SLOTS,
    W_RUNNING,
    W_QUEUES,
    W_KINDS,
    W_SINCE,
    W_BACKING_OFF
};
enum { U_QUEUE, U_KIND, U_READY };
enum { F_DONE_HOUR, F_DONE_DAY, F_CANCELLED_DAY, F_IS_MORE };

static bool status_read(struct db *db, struct status *s, struct fault *f)
{
    static const char *const params[] = {"100000", "1000"};
    struct db_call calls[] = {
        {.statement = &sql_schema_version},
        {.statement = &sql_status_queues, .params = params, .n_params = 2},
        {.statement = &sql_status_workers, .params = params, .n_params = 2},
        {.statement = &sql_status_unhandled, .params = params, .n_params = 2},
        {.statement = &sql_status_finished, .params = params, .n_params = 1},
    };
    if (!db_batch(db, calls, sizeof calls / sizeof *calls, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return fault_add(f, "could not read the status");
    }
    s->version = calls[0].rows;
    s->queues = calls[1].rows;
    s->workers = calls[2].rows;
    s->unhandled = calls[3].rows;
    s->finished = calls[4].rows;
    return true;
}

static void status_clear(struct status *s)
{
    rows_free(s->version);
    rows_free(s->queues);
    rows_free(s->workers);
    rows_free(s->unhandled);
    rows_free(s->finished);
}

/* --- for people ----------------------------------------------------------------------------- */

/* "100000+" when more rows were there than were looked at. */
static void put_count(struct table *t, const struct rows *r, size_t row, int column, int is_more)
{
    table_put_printf(t, "%" PRId64 "%s", rows_int(r, row, column),
                     rows_bool(r, row, is_more) ? "+" : "");
}

static bool print_queues(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"QUEUE",      ">READY",    ">OLDEST", ">RUNNING",
                                        ">SCHEDULED", ">RETRYING", ">DEAD",   ""};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        table_put(&t, rows_text(r, i, Q_NAME));
        put_count(&t, r, i, Q_READY, Q_DUE_IS_MORE);
        if (rows_is_null(r, i, Q_OLDEST_S)) {
            table_put(&t, "-");
        } else {
            table_put_printf(&t, "%" PRId64 "s", rows_int(r, i, Q_OLDEST_S));
        }
        put_count(&t, r, i, Q_RUNNING, Q_DUE_IS_MORE);
        put_count(&t, r, i, Q_SCHEDULED, Q_AHEAD_IS_MORE);
        put_count(&t, r, i, Q_RETRYING, Q_AHEAD_IS_MORE);
        put_count(&t, r, i, Q_DEAD, Q_DEAD_IS_MORE);
        table_put(&t, rows_bool(r, i, Q_PAUSED) ? "paused" : "");
    }
    bool ok = table_print(&t, f);
    table_clear(&t);
    return ok;
}

/* A list of names as PostgreSQL prints JSON, ["a","b"], in which no name needs an escape. */
static void put_names(struct table *t, const char *json)
{
    char text[256];
    size_t n = 0;
    for (; *json && n < sizeof text - 4; json++) {
        if (*json != '[' && *json != ']' && *json != '"') {
            text[n++] = *json;
        }
    }
    table_put_printf(t, "%.*s%s", (int)n, text, *json ? "..." : "");
}

static bool print_workers(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"WORKER", "HOST",  ">PID",   "STATE", ">RUNNING",
                                        ">SLOTS", "SINCE", "QUEUES", "KINDS"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        table_put(&t, rows_text(r, i, W_ID));
        table_put(&t, rows_text(r, i, W_HOST));
        table_put(&t, rows_text(r, i, W_PID));
        table_put_printf(&t, "%s%s", rows_text(r, i, W_STATE),
                         rows_bool(r, i, W_IS_PRESENT) ? "" : ", gone");
        table_put(&t, rows_text(r, i, W_RUNNING));
        table_put(&t, rows_text(r, i, W_SLOTS));
        table_put(&t, rows_text(r, i, W_SINCE));
        put_names(&t, rows_text(r, i, W_QUEUES));
        put_names(&t, rows_text(r, i, W_KINDS));
    }
    bool ok = table_print(&t, f);
    table_clear(&t);
    return ok;
}

static void print_backing_off(const struct rows *r)
{
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, W_BACKING_OFF)) {
            (void)printf("\nworker %s has handlers that do not start, and back off:\n%s\n",
                         rows_text(r, i, W_ID), rows_text(r, i, W_BACKING_OFF));
        }
    }
}

static void print_unhandled(const struct rows *r)
{
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)printf("%sno living worker handles the kind %s in the queue %s: %s ready\n",
                     i ? "" : "\n", rows_text(r, i, U_KIND), rows_text(r, i, U_QUEUE),
                     rows_text(r, i, U_READY));
    }
}

static bool print_status(const struct status *s, const char *where, struct fault *f)
{
    const char *more = rows_bool(s->finished, 0, F_IS_MORE) ? "+" : "";
    (void)printf("schema tenon, version %s (%s)\n", rows_text(s->version, 0, 0), where);
    (void)printf(
        "done %s%s in the last hour, %s%s in the last day; cancelled %s%s in the last day\n\n",
        rows_text(s->finished, 0, F_DONE_HOUR), more, rows_text(s->finished, 0, F_DONE_DAY), more,
        rows_text(s->finished, 0, F_CANCELLED_DAY), more);
    if (rows_count(s->queues) == 0) {
        (void)puts("no queue holds a task or has settings");
    } else if (!print_queues(s->queues, f)) {
        return false;
    }
    (void)putchar('\n');
    if (rows_count(s->workers) == 0) {
        (void)puts("no worker is there");
    } else if (!print_workers(s->workers, f)) {
        return false;
    }
    print_backing_off(s->workers);
    print_unhandled(s->unhandled);
    return true;
}

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *json_int_or_null(const struct rows *r, size_t row, int column)
{
    return rows_is_null(r, row, column) ? json_null() : json_integer(rows_int(r, row, column));
}

static json_t *json_queues(const struct rows *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows_count(r); i++) {
        bool due = rows_bool(r, i, Q_DUE_IS_MORE);
        bool ahead = rows_bool(r, i, Q_AHEAD_IS_MORE);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:b, s:I, s:o, s:I, s:I, s:I, s:I, s:b}",
                                              "queue", rows_text(r, i, Q_NAME), "paused",
                                              rows_bool(r, i, Q_PAUSED), "ready",
                                              (json_int_t)rows_int(r, i, Q_READY), "oldest_ready_s",
                                              json_int_or_null(r, i, Q_OLDEST_S), "running",
                                              (json_int_t)rows_int(r, i, Q_RUNNING), "scheduled",
                                              (json_int_t)rows_int(r, i, Q_SCHEDULED), "retrying",
                                              (json_int_t)rows_int(r, i, Q_RETRYING), "dead",
                                              (json_int_t)rows_int(r, i, Q_DEAD), "at_least",
                                              due || ahead || rows_bool(r, i, Q_DEAD_IS_MORE)));
    }
    return list;
}

static json_t *json_workers(const struct rows *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:s, s:b, s:I, s:I, s:s, s:o, s:o, s:s?}", "id",
                            rows_text(r, i, W_ID), "host", rows_text(r, i, W_HOST), "pid",
                            (json_int_t)rows_int(r, i, W_PID), "state", rows_text(r, i, W_STATE),
                            "present", rows_bool(r, i, W_IS_PRESENT), "running",
                            (json_int_t)rows_int(r, i, W_RUNNING), "slots",
                            (json_int_t)rows_int(r, i, W_SLOTS), "since", rows_text(r, i, W_SINCE),
                            "queues", json_loads(rows_text(r, i, W_QUEUES), 0, NULL), "kinds",
                            json_loads(rows_text(r, i, W_KINDS), 0, NULL), "backing_off",
                            rows_text(r, i, W_BACKING_OFF)));
    }
    return list;
}

static json_t *json_unhandled(const struct rows *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:I}", "queue", rows_text(r, i, U_QUEUE),
                                              "kind", rows_text(r, i, U_KIND), "ready",
                                              (json_int_t)rows_int(r, i, U_READY)));
    }
    return list;
}

static json_t *json_status(const struct status *s, const char *where)
{
    json_t *finished = json_pack("{s:I, s:I, s:I, s:b}", "done_last_hour",
                                 (json_int_t)rows_int(s->finished, 0, F_DONE_HOUR), "done_last_day",
                                 (json_int_t)rows_int(s->finished, 0, F_DONE_DAY),
                                 "cancelled_last_day",
                                 (json_int_t)rows_int(s->finished, 0, F_CANCELLED_DAY), "at_least",
                                 rows_bool(s->finished, 0, F_IS_MORE));
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "database", where, "schema_version",
                     (json_int_t)rows_int(s->version, 0, 0), "finished", finished, "queues",
                     json_queues(s->queues), "workers", json_workers(s->workers), "unhandled",
                     json_unhandled(s->unhandled));
}

/* --- main ----------------------------------------------------------------------------------- */

static bool status(const struct options *o, struct db **db, struct status *s, struct fault *f)
{
    /* plans pinned to the indexes: a queue table looks empty to the planner, whatever it holds */
    if (!db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT, "tenon status", db, f) ||
        !schema_check(*db, f) || !status_read(*db, s, f)) {
        return false;
    }
    return option_flag(o, OPTION_JSON) ? print_json(json_status(s, db_where(*db)), f)
                                       : print_status(s, db_where(*db), f);
}

int status_main(const struct options *o)
{
    struct fault f = {FAULT_NONE};
    struct status s = {NULL};
    struct db *db = NULL;
    if (!status(o, &db, &s, &f)) {
        log_fault(LOG_ERROR, "status_failed", &f);
    }
    status_clear(&s);
    db_close(db);
    return fault_exit_code(&f);
}
