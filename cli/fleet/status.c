/* `tenon status`: the queues, the workers, and what nobody handles. The last column of each
 * statement is the row as JSON. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "core/statements.h"

#include <string.h>

#define ROWS_READ_MAX "100000" /* shared by the queues; larger ones as the leader counted them */
#define TEXT_OF(n) #n
#define TEXT(n) TEXT_OF(n)
#define LINES_MAX 1000 /* queues, workers and kinds that are shown */

enum {
    WHERE_BYTES = 300,
    NAMES_MAX = 20, /* of queues, and of kinds, that a worker serves */
    WRAP_COLUMNS = 2,
};

enum { QUEUES, WORKERS, INTAKE, UNHANDLED, COUNTS, LEADER, PAUSED, FAILING, VERSION, CALLS };

/* The columns of status_queues.sql, status_workers.sql, status_intake.sql, status_unhandled.sql,
 * status_leader.sql, status_paused.sql and status_counts.sql. */
enum {
    Q_NAME,
    Q_PAUSED,
    Q_READY,
    Q_OLDEST_S,
    Q_RUNNING,
    Q_SCHEDULED,
    Q_RETRYING,
    Q_BLOCKED,
    Q_DEAD
};
enum { Q_AT_LEAST = Q_DEAD + 1, Q_COUNTED_AT, Q_AGE_S, Q_JSON };
enum { W_ID, W_HOST, W_PID, W_STATE, W_PRESENT, W_RUNNING, W_SLOTS, W_SINCE };
enum { W_STARTING = W_SINCE + 4, W_QUEUES = W_STARTING + 3, W_KINDS, W_JSON };
enum { I_COLUMNS = 8, I_WHY = I_COLUMNS, I_JSON };
enum { U_QUEUE, U_KIND, U_READY, U_AT_LEAST, U_COUNTED_AT, U_AGE_S, U_JSON };
enum { L_LED, L_JSON };
enum { SENTENCE, S_JSON }; /* of what is paused, and of what fails */
enum { C_DONE_HOUR, C_FAILED_HOUR, C_DIED_HOUR, C_DONE_DAY, C_FAILED_DAY, C_DIED_DAY, C_JSON };

/* --- for people ----------------------------------------------------------------------------- */

/* What was counted by the leader is not of this moment. */
static void put_notes(struct table *t, const struct rows *r, size_t i)
{
    const char *paused = rows_bool(r, i, Q_PAUSED) ? "paused" : "";
    int64_t age_s = rows_int(r, i, Q_AGE_S);
    if (age_s > 0) {
        table_put_printf(t, "%s%sas of %lld s ago", paused, *paused ? ", " : "", (long long)age_s);
    } else {
        table_put(t, paused);
    }
}

static bool print_queues(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"<QUEUE",   ">READY",     ">OLDEST",
                                        ">RUNNING", ">SCHEDULED", ">RETRYING",
                                        ">BLOCKED", ">DEAD",      "<"};
    struct table t;
    bool bounded = false;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        table_put(&t, rows_text(r, i, Q_NAME));
        for (int column = Q_READY; column <= Q_DEAD; column++) {
            const char *more = rows_bool(r, i, Q_AT_LEAST) ? "+" : "";
            const char *text = rows_text(r, i, column);
            table_put_printf(&t, "%s%s", text ? text : "-",
                             column != Q_OLDEST_S ? more
                             : text               ? "s"
                                                  : "");
        }
        put_notes(&t, r, i);
        bounded = bounded || rows_bool(r, i, Q_AT_LEAST);
    }
    bool ok = table_print(&t, f);
    if (bounded) {
        (void)puts("(+: a lower bound; a leading cleaner counts all tasks)");
    }
    return ok;
}

static bool print_workers(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"<WORKER",  "<HOST",  ">PID", "STATE",
                                        ">RUNNING", ">SLOTS", "SINCE"};
    static const int columns[] = {W_ID, W_HOST, W_PID, W_STATE, W_RUNNING, W_SLOTS, W_SINCE};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (size_t j = 0; j < t.columns; j++) {
            const char *text = rows_text(r, i, columns[j]);
            if (columns[j] == W_STATE && !rows_bool(r, i, W_PRESENT)) {
                table_put_printf(&t, "%s, gone", text);
            } else {
                table_put(&t, text);
            }
        }
    }
    return table_print(&t, f);
}

static bool same_text(const struct rows *r, size_t i, size_t j, int column)
{
    const char *one = rows_text(r, i, column), *other = rows_text(r, j, column);
    return strcmp(one ? one : "", other ? other : "") == 0;
}

/* The number of workers that serve what this one does; 0 where one before it does. */
static size_t same_workers(const struct rows *r, size_t i)
{
    size_t n = 0;
    for (size_t j = 0; j < rows_count(r); j++) {
        bool same = same_text(r, i, j, W_QUEUES) && same_text(r, i, j, W_KINDS);
        if (same && j < i) {
            return 0;
        }
        n += same;
    }
    return n;
}

/* "a,b,c" as "a, b, c"; of many the first ones. */
static void put_names(struct buf *b, const char *names)
{
    size_t n = 0, more = 0;
    for (const char *at = names; at && *at; n++) {
        size_t bytes = strcspn(at, ",");
        more += n >= NAMES_MAX;
        if (n < NAMES_MAX) {
            buf_put_text(b, n ? ", " : "");
            buf_put(b, at, bytes);
        }
        at += bytes + (at[bytes] == ',');
    }
    if (more > 0) {
        buf_printf(b, ", and %zu more", more);
    }
}

/* Workers of one program serve the same: a line for all of them. */
static void print_served(const struct rows *r)
{
    (void)putchar('\n');
    for (size_t i = 0; i < rows_count(r); i++) {
        size_t n = same_workers(r, i);
        struct buf line;
        buf_init(&line, PRINT_BYTES_MAX);
        buf_printf(&line, n == 1 ? "%zu worker serves " : "%zu workers serve ", n);
        put_names(&line, rows_text(r, i, W_QUEUES));
        buf_put_text(&line, "; kinds: ");
        put_names(&line, rows_text(r, i, W_KINDS));
        if (n > 0) {
            print_wrapped(0, WRAP_COLUMNS, buf_text(&line));
        }
        buf_clear(&line);
    }
}

static bool print_intake(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"<INTAKE", "<HOST",     ">PID",      "STATE",
                                        ">TAKEN",  ">REPEATED", ">REJECTED", "^SINCE"};
    struct table t;
    table_init(&t, heads, I_COLUMNS);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (int column = 0; column < I_COLUMNS; column++) {
            table_put(&t, rows_text(r, i, column));
        }
    }
    (void)putchar('\n');
    bool ok = table_print(&t, f);
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, I_WHY)) {
            print_wrapped(0, WRAP_COLUMNS, rows_text(r, i, I_WHY));
        }
    }
    return ok;
}

static void print_sentences(const struct rows *r)
{
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)fputs(i ? "" : "\n", stdout);
        print_wrapped(0, WRAP_COLUMNS, rows_text(r, i, SENTENCE));
    }
}

static void print_starting(const struct rows *workers)
{
    for (size_t i = 0; i < rows_count(workers); i++) {
        if (!rows_is_null(workers, i, W_STARTING)) {
            (void)printf("\nworker %s\n  has handlers whose first process is still starting:\n",
                         rows_text(workers, i, W_ID));
            print_wrapped(0, WRAP_COLUMNS, rows_text(workers, i, W_STARTING));
        }
    }
}

static void print_unhandled(const struct rows *unhandled)
{
    for (size_t i = 0; i < rows_count(unhandled); i++) {
        struct buf line;
        buf_init(&line, PRINT_BYTES_MAX);
        buf_printf(&line, "no living worker handles the kind %s in the queue %s: %s%s ready",
                   rows_text(unhandled, i, U_KIND), rows_text(unhandled, i, U_QUEUE),
                   rows_bool(unhandled, i, U_AT_LEAST) ? "at least " : "",
                   rows_text(unhandled, i, U_READY));
        if (rows_int(unhandled, i, U_AGE_S) > 0) {
            buf_printf(&line, " (as of %s s ago)", rows_text(unhandled, i, U_AGE_S));
        }
        (void)fputs(i ? "" : "\n", stdout);
        print_wrapped(0, WRAP_COLUMNS, buf_text(&line));
        buf_clear(&line);
    }
}

static bool print_status(const struct db_call *calls, const char *where, struct fault *f)
{
    const struct rows *counts = calls[COUNTS].rows;
    char at[WHERE_BYTES];
    (void)snprintf(at, sizeof at, "%s)", where);
    print_wrapped(printf("schema tenon, version %s (", rows_text(calls[VERSION].rows, 0, 0)),
                  WRAP_COLUMNS, at);
    (void)printf("last hour: %s done, %s failed attempts, %s dead\n",
                 rows_text(counts, 0, C_DONE_HOUR), rows_text(counts, 0, C_FAILED_HOUR),
                 rows_text(counts, 0, C_DIED_HOUR));
    (void)printf("last day: %s done, %s failed attempts, %s dead\n\n",
                 rows_text(counts, 0, C_DONE_DAY), rows_text(counts, 0, C_FAILED_DAY),
                 rows_text(counts, 0, C_DIED_DAY));
    if (rows_count(calls[QUEUES].rows) == 0) {
        (void)puts("no queue has tasks, workers or settings");
    } else if (!print_queues(calls[QUEUES].rows, f)) {
        return false;
    }
    if (rows_count(calls[QUEUES].rows) >= LINES_MAX) {
        (void)printf("(only %d queues: first those with settings or workers)\n", LINES_MAX);
    }
    (void)putchar('\n');
    if (rows_count(calls[WORKERS].rows) == 0) {
        (void)puts("no workers");
    } else if (print_workers(calls[WORKERS].rows, f)) {
        print_served(calls[WORKERS].rows);
    } else {
        return false;
    }
    if (rows_count(calls[INTAKE].rows) > 0 && !print_intake(calls[INTAKE].rows, f)) {
        return false;
    }
    print_sentences(calls[PAUSED].rows);
    print_sentences(calls[FAILING].rows);
    print_starting(calls[WORKERS].rows);
    print_unhandled(calls[UNHANDLED].rows);
    if (!rows_bool(calls[LEADER].rows, 0, L_LED)) {
        (void)putchar('\n');
        print_wrapped(0, WRAP_COLUMNS,
                      "no cleaner leads: workers find tasks later, by polling; start one, or see "
                      "its log");
    }
    return true;
}

/* --- as JSON -------------------------------------------------------------------------------- */

static void print_list(const char *key, const struct rows *r, int column)
{
    (void)printf(",\n\"%s\": [", key);
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, column));
    }
    (void)putchar(']');
}

static bool print_as_json(const struct db_call *calls, const char *where, struct fault *f)
{
    struct buf database;
    buf_init(&database, PRINT_BYTES_MAX);
    buf_put_json(&database, where, strlen(where));
    if (database.failed) {
        return fault_memory(f);
    }
    (void)printf("{\"database\": %s,\n\"schema_version\": %s,\n\"counts\": %s", buf_text(&database),
                 rows_text(calls[VERSION].rows, 0, 0), rows_text(calls[COUNTS].rows, 0, C_JSON));
    (void)printf(",\n\"leader\": %s", rows_text(calls[LEADER].rows, 0, L_JSON));
    print_list("queues", calls[QUEUES].rows, Q_JSON);
    print_list("workers", calls[WORKERS].rows, W_JSON);
    print_list("intake", calls[INTAKE].rows, I_JSON);
    print_list("unhandled", calls[UNHANDLED].rows, U_JSON);
    print_list("paused", calls[PAUSED].rows, S_JSON);
    print_list("failing", calls[FAILING].rows, S_JSON);
    (void)puts("}");
    buf_clear(&database);
    return true;
}

/* --- main ----------------------------------------------------------------------------------- */

bool status_run(const struct options *o, struct fault *f)
{
    static const char *const params[] = {ROWS_READ_MAX, TEXT(LINES_MAX)};
    struct db_call calls[CALLS] = {
        [QUEUES] = {.statement = &sql_status_queues, .params = params, .n_params = 2},
        [WORKERS] = {.statement = &sql_status_workers, .params = params, .n_params = 2},
        [INTAKE] = {.statement = &sql_status_intake, .params = &params[1], .n_params = 1},
        [UNHANDLED] = {.statement = &sql_status_unhandled, .params = params, .n_params = 2},
        [COUNTS] = {.statement = &sql_status_counts},
        [LEADER] = {.statement = &sql_status_leader},
        [PAUSED] = {.statement = &sql_status_paused, .params = &params[1], .n_params = 1},
        [FAILING] = {.statement = &sql_status_failing, .params = &params[1], .n_params = 1},
        [VERSION] = {.statement = &sql_schema_version},
    };
    struct db *db = NULL;
    if (option_flag(o, OPTION_WATCH)) {
        return watch_run(o, f);
    }
    /* plans pinned to the indexes: a queue table looks empty to the planner, whatever it holds */
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon status", &db, f) &&
              schema_check(db, f) &&
              (db_batch(db, calls, CALLS, DB_ANSWER_LIMIT_MS, NULL, f) ||
               fault_add(f, "could not read the status"));
    if (ok && option_flag(o, OPTION_JSON)) {
        ok = print_as_json(calls, db_where(db), f);
    } else if (ok) {
        ok = print_status(calls, db_where(db), f);
    }
    for (int i = 0; i < CALLS; i++) {
        rows_free(calls[i].rows);
    }
    db_close(db);
    return ok;
}
