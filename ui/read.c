/* What the page shows: the statements of the commands, and a few of its own. */
#include "ui/api.h"

#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/db/schema.h"
#include "core/http/series.h"
#include "core/statements.h"
#include "core/tasks/task.h"
#include "ui/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far counts go, beyond which the leading cleaner's are shown, or they are lower bounds; how
 * much is shown: as parameters. */
#define COUNTED_MAX "10000"
#define QUEUES_MAX "200"
#define RUNNING_MAX "200"
#define DEAD_READ_MAX "10000"
#define DEAD_GROUPS_MAX "100"
#define SCHEDULES_MAX "1000"
#define FLOW_COUNTED_MAX "1000"
#define FLOW_SHOWN_MAX "1000"
#define RELATIVES_MAX "20"
#define LIMITS_MAX "100"
#define LIMIT_COUNTED_MAX "1000"
#define LOGS_MAX "100"
#define PAGE_TASKS "50"
#define ENDED_READ_MAX "10000"
#define KINDS_MAX "500"
#define NAMES_READ_MAX "1000"

enum { PAGE_TASKS_MAX = 200, DIGITS_MAX = 18, BOUNDS_BYTES = 10 * SERIES_BUCKETS };

/* In the statements of commands the last column is the row as JSON. */
enum { LAST = -1 };

/* --- helpers -------------------------------------------------------------------------------- */

/* [{...}, {...}] of the rows' column; rows without it are left out. */
static void put_list(struct buf *b, const char *key, const struct rows *r, int column)
{
    bool first = true;
    column = column == LAST ? rows_columns(r) - 1 : column;
    json_put_key(b, key);
    buf_put_char(b, '[');
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, column)) {
            buf_printf(b, "%s\n", first ? "" : ",");
            buf_put(b, rows_text(r, i, column), rows_bytes(r, i, column));
            first = false;
        }
    }
    buf_put_char(b, ']');
}

static void free_rows(struct db_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rows_free(calls[i].rows);
    }
}

/* A whole number among the arguments of the request, or what it is without. */
static bool number_read(const struct call *c, const char *name, const char *without,
                        const char **ret, struct fault *f)
{
    const char *text = http_argument(c->request, name);
    *ret = text && *text ? text : without;
    size_t digits = *ret ? strspn(*ret, "0123456789") : 1;
    return (digits > 0 && digits <= DIGITS_MAX && (!*ret || !(*ret)[digits])) ||
           fault_set(f, FAULT_REFUSED, "%s must be a whole number, not \"%.100s\"", name, *ret);
}

static bool page_read(const struct call *c, const char **cursor, const char **limit,
                      struct fault *f)
{
    if (!number_read(c, "cursor", NULL, cursor, f) ||
        !number_read(c, "limit", PAGE_TASKS, limit, f)) {
        return false;
    }
    long long n = strtoll(*limit, NULL, 10);
    return (n >= 1 && n <= PAGE_TASKS_MAX) ||
           fault_set(f, FAULT_REFUSED, "limit must be 1 to %d", PAGE_TASKS_MAX);
}

static bool exec(struct call *c, const struct statement *statement, const char *const *params,
                 int n, struct rows **ret, struct fault *f)
{
    struct db_call call = {.statement = statement, .params = params, .n_params = n};
    bool ok = pool_run(c->ui->pool, &call, 1, true, f);
    *ret = call.rows;
    return ok;
}

/* {"key": [...]} of one statement. */
static bool exec_list(struct call *c, const struct statement *statement, const char *const *params,
                      int n, const char *key, int column, struct fault *f)
{
    struct rows *rows = NULL;
    if (!exec(c, statement, params, n, &rows, f)) {
        return false;
    }
    buf_put_char(&c->answer->body, '{');
    put_list(&c->answer->body, key, rows, column);
    buf_put_char(&c->answer->body, '}');
    rows_free(rows);
    return true;
}

/* The answer is the one JSON text of a statement. */
static bool exec_text(struct call *c, const struct statement *statement, const char *const *params,
                      int n, struct fault *f)
{
    struct rows *rows = NULL;
    if (!exec(c, statement, params, n, &rows, f)) {
        return false;
    }
    buf_put_text(&c->answer->body, rows_text(rows, 0, 0));
    rows_free(rows);
    return true;
}

/* --- the whole ------------------------------------------------------------------------------ */

static void put_states(struct buf *b)
{
    json_put_key(b, "states");
    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        buf_printf(b, "%s\"%s\"", i ? ", " : "[", task_state_word((enum task_state)i));
    }
    buf_put_char(b, ']');
}

bool read_session(struct call *c, struct fault *f)
{
    enum { ROLE, MAY };
    struct rows *rows = NULL;
    struct buf *b = &c->answer->body;
    if (!exec(c, &sql_rights, NULL, 0, &rows, f)) {
        return false;
    }
    bool read_only = c->who.read_only || option_flag(c->ui->options, OPTION_READ_ONLY);
    buf_put_char(b, '{');
    json_put_string(b, "user", *c->who.user ? c->who.user : NULL);
    json_put_string(b, "role", rows_text(rows, 0, ROLE));
    json_put_raw(b, "may_act", rows_bool(rows, 0, MAY) && !read_only ? "true" : "false");
    json_put_string(b, "database", pool_where(c->ui->pool));
    json_put_string(b, "version", TENON_VERSION);
    put_states(b);
    buf_put_char(b, '}');
    rows_free(rows);
    return true;
}

enum { QUEUES, UNHANDLED, LEADER, PAUSED, VERSION, RATES, OVERVIEW_CALLS };

static void put_rates(struct buf *b, const struct rows *r)
{
    static const char *const keys[] = {NULL,          "at_ms",          "arrived", "ended",
                                       "failed",      "died",           "ready",   "ready_at_least",
                                       "ready_age_s", "oldest_ready_s", "workers", "slots"};
    enum { AT_LEAST = 7 };
    json_put_key(b, "now");
    buf_put_char(b, '{');
    for (int i = 1; i < (int)(sizeof keys / sizeof *keys); i++) {
        json_put_raw(b, keys[i],
                     i != AT_LEAST        ? rows_text(r, 0, i)
                     : rows_bool(r, 0, i) ? "true"
                                          : "false");
    }
    buf_put_char(b, '}');
}

bool read_overview(struct call *c, struct fault *f)
{
    static const char *const params[] = {COUNTED_MAX, QUEUES_MAX};
    struct db_call calls[OVERVIEW_CALLS] = {
        [QUEUES] = {.statement = &sql_status_queues, .params = params, .n_params = 2},
        [UNHANDLED] = {.statement = &sql_status_unhandled, .params = params, .n_params = 2},
        [LEADER] = {.statement = &sql_status_leader},
        [PAUSED] = {.statement = &sql_status_paused, .params = &params[1], .n_params = 1},
        [VERSION] = {.statement = &sql_schema_version},
        [RATES] = {.statement = &sql_status_rates, .params = params, .n_params = 2},
    };
    struct buf *b = &c->answer->body;
    if (!pool_run(c->ui->pool, calls, OVERVIEW_CALLS, true, f)) {
        return false;
    }
    buf_put_char(b, '{');
    json_put_raw(b, "schema_version", rows_text(calls[VERSION].rows, 0, 0));
    put_rates(b, calls[RATES].rows);
    json_put_raw(b, "leader", rows_text(calls[LEADER].rows, 0, 1));
    put_list(b, "queues", calls[QUEUES].rows, LAST);
    put_list(b, "unhandled", calls[UNHANDLED].rows, LAST);
    put_list(b, "paused", calls[PAUSED].rows, LAST);
    buf_put_char(b, '}');
    free_rows(calls, OVERVIEW_CALLS);
    return true;
}

/* [0.005, 0.01, ...] */
static void put_bounds(char ret[BOUNDS_BYTES])
{
    int n = 0;
    for (int i = 0; i < SERIES_BUCKETS; i++) {
        n += snprintf(ret + n, (size_t)(BOUNDS_BYTES - n), "%s%s", i ? ", " : "[",
                      series_bounds[i].text);
    }
    (void)snprintf(ret + n, (size_t)(BOUNDS_BYTES - n), "]");
}

bool read_rates(struct call *c, struct fault *f)
{
    static const struct {
        const char *hours, *step_min, *steps;
    } spans[] = {{"1", "1", "60"}, {"6", "5", "72"}, {"24", "20", "72"}, {"72", "60", "72"}};
    enum { SPANS = sizeof spans / sizeof *spans };
    const char *queue = http_argument(c->request, "queue");
    const char *kind = http_argument(c->request, "kind");
    const char *hours = http_argument(c->request, "hours");
    int i = 0;
    while (hours && *hours && i < SPANS && strcmp(spans[i].hours, hours) != 0) {
        i++;
    }
    if (i == SPANS) {
        return fault_set(f, FAULT_REFUSED, "hours must be 1, 6, 24 or 72");
    }
    i = hours && *hours ? i : 1;
    char bounds[BOUNDS_BYTES];
    put_bounds(bounds);
    const char *const params[] = {spans[i].step_min, spans[i].steps, queue && *queue ? queue : NULL,
                                  kind && *kind ? kind : NULL, bounds};
    return exec_text(c, &sql_rates, params, 5, f);
}

bool read_load(struct call *c, struct fault *f)
{
    static const char *const params[] = {ENDED_READ_MAX, KINDS_MAX};
    return exec_text(c, &sql_load, params, 2, f);
}

bool read_kinds(struct call *c, struct fault *f)
{
    static const char *const params[] = {COUNTED_MAX, QUEUES_MAX, KINDS_MAX};
    return exec_list(c, &sql_kinds, params, 3, "kinds", 0, f);
}

bool read_names(struct call *c, struct fault *f)
{
    static const char *const params[] = {NAMES_READ_MAX, QUEUES_MAX};
    return exec_text(c, &sql_names, params, 2, f);
}

/* --- tasks ---------------------------------------------------------------------------------- */

bool read_tasks(struct call *c, struct fault *f)
{
    const char *filter = http_argument(c->request, "filter");
    const char *oldest = http_argument(c->request, "oldest");
    const char *params[] = {filter && *filter ? filter : "{}", NULL, NULL,
                            oldest && strcmp(oldest, "true") == 0 ? "true" : "false"};
    struct rows *rows = NULL;
    struct buf *b = &c->answer->body;
    if (!page_read(c, &params[1], &params[2], f) || !exec(c, &sql_tasks, params, 4, &rows, f)) {
        return false;
    }
    buf_put_char(b, '{');
    json_put_raw(b, "next", rows_text(rows, 0, 0));
    json_put_raw(b, "share", rows_text(rows, 0, 1));
    put_list(b, "tasks", rows, LAST);
    buf_put_char(b, '}');
    rows_free(rows);
    return true;
}

/* The payload, the result and their like as PostgreSQL prints them: numbers keep all digits,
 * which a browser's do not. */
static void put_texts(struct buf *b, const struct rows *shown)
{
    static const char *const names[] = {"payload", "result", "progress", "steps"};
    json_put_key(b, "texts");
    buf_put_char(b, '{');
    for (size_t i = 1; i < rows_count(shown); i++) {
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            if (strcmp(rows_text(shown, i, 0), names[j]) == 0) {
                json_put_string(b, names[j], rows_text(shown, i, 1));
            }
        }
    }
    buf_put_char(b, '}');
}

/* It came by the path, not by an option. */
static bool id_of_path(const struct call *c, struct fault *f)
{
    bool ok = id_check(c->rest, f);
    f->code = ok ? f->code : FAULT_REFUSED;
    return ok;
}

bool read_task(struct call *c, struct fault *f)
{
    enum { WHY_JSON = 2, CALLS = 4 };
    const char *const params[] = {c->rest, RELATIVES_MAX, COUNTED_MAX};
    const char *const logs[] = {c->rest, LOGS_MAX};
    struct db_call calls[CALLS] = {{.statement = &sql_show, .params = params, .n_params = 1},
                                   {.statement = &sql_why, .params = params, .n_params = 1},
                                   {.statement = &sql_relations, .params = params, .n_params = 3},
                                   {.statement = &sql_logs_last, .params = logs, .n_params = 2}};
    struct buf *b = &c->answer->body;
    if (!id_of_path(c, f) || !pool_run(c->ui->pool, calls, CALLS, true, f)) {
        return false;
    }
    bool there = rows_count(calls[0].rows) > 0;
    if (there) {
        buf_put_char(b, '{');
        json_put_raw(b, "task", rows_text(calls[0].rows, 0, 1));
        json_put_raw(b, "why", rows_text(calls[1].rows, 0, WHY_JSON));
        json_put_raw(b, "relations",
                     rows_count(calls[2].rows) > 0 ? rows_text(calls[2].rows, 0, 0) : NULL);
        json_put_raw(b, "logs", rows_text(calls[3].rows, 0, 0));
        put_texts(b, calls[0].rows);
        buf_put_char(b, '}');
    }
    free_rows(calls, CALLS);
    return there || fault_set(f, FAULT_ABSENT, "there is no task %s", c->rest);
}

bool read_dead(struct call *c, struct fault *f)
{
    static const char *const params[] = {DEAD_READ_MAX, DEAD_GROUPS_MAX};
    struct rows *rows = NULL;
    struct buf *b = &c->answer->body;
    if (!exec(c, &sql_dead, params, 2, &rows, f)) {
        return false;
    }
    buf_put_char(b, '{');
    json_put_raw(b, "at_least", rows_bool(rows, 0, 0) ? "true" : "false");
    json_put_raw(b, "step_s", rows_text(rows, 0, 2));
    put_list(b, "groups", rows, 1);
    buf_put_char(b, '}');
    rows_free(rows);
    return true;
}

/* --- flows and limits ----------------------------------------------------------------------- */

bool read_flows(struct call *c, struct fault *f)
{
    const char *params[] = {NULL, NULL, FLOW_COUNTED_MAX};
    return page_read(c, &params[0], &params[1], f) &&
           exec_list(c, &sql_flows, params, 3, "flows", 0, f);
}

bool read_flow(struct call *c, struct fault *f)
{
    const char *const params[] = {c->rest, FLOW_SHOWN_MAX};
    struct db_call calls[] = {{.statement = &sql_flow_show, .params = params, .n_params = 1},
                              {.statement = &sql_flow_tasks, .params = params, .n_params = 2}};
    struct buf *b = &c->answer->body;
    if (!id_of_path(c, f) || !pool_run(c->ui->pool, calls, 2, true, f)) {
        return false;
    }
    bool there = rows_count(calls[0].rows) > 0;
    if (there) {
        buf_put_char(b, '{');
        json_put_raw(b, "flow", rows_text(calls[0].rows, 0, 1));
        put_list(b, "tasks", calls[1].rows, LAST);
        buf_put_char(b, '}');
    }
    free_rows(calls, 2);
    return there || fault_set(f, FAULT_ABSENT, "there is no flow %s", c->rest);
}

bool read_limits(struct call *c, struct fault *f)
{
    const char *begins = http_argument(c->request, "key");
    const char *const params[] = {begins ? begins : "", LIMITS_MAX, LIMIT_COUNTED_MAX};
    struct rows *rows = NULL;
    struct buf *b = &c->answer->body;
    if (!exec(c, &sql_limits, params, 3, &rows, f)) {
        return false;
    }
    buf_put_char(b, '{');
    json_put_raw(b, "more", rows_bool(rows, 0, 0) ? "true" : "false");
    put_list(b, "limits", rows, 1);
    buf_put_char(b, '}');
    rows_free(rows);
    return true;
}

/* --- the others ----------------------------------------------------------------------------- */

bool read_schedules(struct call *c, struct fault *f)
{
    static const char *const params[] = {SCHEDULES_MAX}, *const ended[] = {ENDED_READ_MAX,
                                                                           SCHEDULES_MAX};
    struct db_call calls[] = {{.statement = &sql_schedule_list, .params = params, .n_params = 1},
                              {.statement = &sql_outcomes, .params = ended, .n_params = 2}};
    struct buf *b = &c->answer->body;
    if (!pool_run(c->ui->pool, calls, 2, true, f)) {
        return false;
    }
    buf_put_char(b, '{');
    put_list(b, "schedules", calls[0].rows, LAST);
    put_list(b, "outcomes", calls[1].rows, LAST);
    buf_put_char(b, '}');
    free_rows(calls, 2);
    return true;
}

bool read_workers(struct call *c, struct fault *f)
{
    static const char *const params[] = {COUNTED_MAX, QUEUES_MAX, RUNNING_MAX};
    struct db_call calls[] = {{.statement = &sql_status_workers, .params = params, .n_params = 2},
                              {.statement = &sql_running, .params = params, .n_params = 3}};
    struct buf *b = &c->answer->body;
    if (!pool_run(c->ui->pool, calls, 2, true, f)) {
        return false;
    }
    buf_put_char(b, '{');
    put_list(b, "workers", calls[0].rows, LAST);
    put_list(b, "running", calls[1].rows, 0);
    buf_put_char(b, '}');
    free_rows(calls, 2);
    return true;
}

bool read_audit(struct call *c, struct fault *f)
{
    const char *params[] = {NULL, NULL};
    return page_read(c, &params[0], &params[1], f) &&
           exec_list(c, &sql_audit, params, 2, "acts", LAST, f);
}
