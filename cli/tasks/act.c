/* `tenon retry`, `cancel`, `delete`, `run-now` and `set`: of the tasks whose ids are given, or of
 * all that fit a filter, after showing how many those are. */
#include "cli/tasks/act.h"

#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/confirm.h"
#include "cli/tasks/filter.h"
#include "core/base/array.h"
#include "core/db/schema.h"

#include <stdlib.h>
#include <string.h>

static const struct act acts[] = {
    {COMMAND_RETRY, "retry", "retried", "dead, cancelled or expired"},
    {COMMAND_RETRY, "undo", "made dead again", "retried and still waiting to start"},
    {COMMAND_CANCEL, "cancel", "cancelled", "blocked, scheduled, ready, running or retrying"},
    {COMMAND_DELETE, "delete", "deleted", "dead, done, cancelled or expired"},
    {COMMAND_RUN_NOW, "run_now", "made ready", "scheduled or retrying"},
    {COMMAND_SET, "set", "changed", "blocked, scheduled, ready or retrying"},
};

/* For how long a preview reads, as a parameter: docs/sizing.md, "All limits". */
#define PREVIEW_MS "500"

/* The columns of act_preview.sql. */
enum { N, NEXT, ID, FITS, STATE, KIND, QUEUE, ERROR };

static const struct act *act_of(const struct options *o)
{
    const struct act *a = &acts[option_flag(o, OPTION_UNDO) ? 1 : 0];
    while (a->command != options_command(o)) {
        a++;
    }
    return a;
}

static const char *task_or_tasks(int64_t n)
{
    return n == 1 ? "task" : "tasks";
}

/* --- what is asked for ---------------------------------------------------------------------- */

static bool changes_read(struct buf *b, const struct options *o, struct fault *f)
{
    buf_init(b, FILTER_BYTES_MAX);
    const char *from_step = option_text(o, OPTION_FROM_STEP);
    if (options_command(o) != COMMAND_SET && !from_step) {
        return true;
    }
    buf_put_char(b, '{');
    if (from_step) {
        json_put_pair(b, "from_step", from_step);
    }
    if (option_is_typed(o, OPTION_PRIORITY)) {
        json_put_key(b, "priority");
        buf_put_int(b, option_int(o, OPTION_PRIORITY));
    }
    if (option_is_typed(o, OPTION_MAX_CRASHES)) {
        json_put_key(b, "max_crashes");
        buf_put_int(b, option_int(o, OPTION_MAX_CRASHES));
    }
    if (option_is_typed(o, OPTION_RUN_AT)) {
        json_put_pair(b, "run_at", option_text(o, OPTION_RUN_AT));
    }
    buf_put_char(b, '}');
    return b->failed ? fault_memory(f)
                     : !filter_is_empty(b) ||
                           fault_set(f, FAULT_CONFIG,
                                     "give what to change: --priority, --run-at or --max-crashes");
}

static bool acting_read(struct acting *a, const struct options *o, struct fault *f)
{
    const char *rate = option_text(o, OPTION_RATE);
    *a = (struct acting){.act = act_of(o),
                         .why = option_text(o, OPTION_WHY),
                         .rate = rate ? strtoll(rate, NULL, 10) : 0};
    if (!filter_read(&a->filter, o, 0, f) || !changes_read(&a->changes, o, f)) {
        return false;
    }
    return !filter_is_empty(&a->filter) ||
           fault_set(f, FAULT_CONFIG,
                     "name the tasks by their ids, or by a filter such as --state or --kind; "
                     "tenon %s --help lists them",
                     command_word(options_command(o)));
}

static void acting_clear(struct acting *a)
{
    buf_clear(&a->filter);
    buf_clear(&a->changes);
}

/* --- the preview ---------------------------------------------------------------------------- */

static bool any_runs(const struct rows *r)
{
    for (size_t i = 0; i < rows_count(r); i++) {
        if (rows_bool(r, i, FITS) && strcmp(rows_text(r, i, STATE), "running") == 0) {
            return true;
        }
    }
    return false;
}

static bool preview(struct acting *a, struct db *db, const struct options *o, struct rows **ret,
                    struct fault *f)
{
    struct buf ids;
    buf_init(&ids, FILTER_BYTES_MAX);
    array_begin(&ids);
    for (size_t i = 0; i < options_args(o); i++) {
        array_put_text(&ids, options_arg(o, i));
    }
    const char *const params[] = {buf_text(&a->filter), a->act->name, array_end(&ids), NULL,
                                  PREVIEW_MS};
    bool ok = params[2] ? db_exec(db, &sql_act_preview, params, 5, ret, f) : fault_memory(f);
    buf_clear(&ids);
    if (ok) {
        a->total = rows_int(*ret, 0, N);
        a->at_least = !rows_is_null(*ret, 0, NEXT);
        a->any_runs = any_runs(*ret);
    }
    return ok || fault_add(f, "could not find the tasks");
}

static bool is_waiting(const char *state)
{
    return strcmp(state, "ready") == 0 || strcmp(state, "scheduled") == 0 ||
           strcmp(state, "retrying") == 0 || strcmp(state, "blocked") == 0;
}

/* Of the ids that were given, those that the act does not change. */
static size_t tell_unfit(const struct acting *a, const struct rows *r)
{
    size_t n = 0;
    for (size_t i = 0; i < rows_count(r) && !rows_is_null(r, i, ID); i++) {
        const char *state = rows_text(r, i, STATE);
        if (rows_bool(r, i, FITS)) {
            continue;
        }
        n++;
        if (state && strcmp(a->act->name, "retry") == 0 && is_waiting(state)) {
            (void)fprintf(stderr, "task %s is %s already\n", rows_text(r, i, ID), state);
        } else if (state) {
            (void)fprintf(stderr, "task %s is %s, not %s\n", rows_text(r, i, ID), state,
                          a->act->states);
        } else {
            (void)fprintf(stderr, "there is no task %s\n", rows_text(r, i, ID));
        }
    }
    return n;
}

static bool print_preview(const struct acting *a, const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {">ID", "STATE", "<KIND", "<QUEUE", "^LAST ERROR"};
    static const int columns[] = {ID, STATE, KIND, QUEUE, ERROR};
    struct table t;
    if (a->total == 0 && a->at_least) {
        (void)puts("half a second of searching found no matching task; there may still be some");
        return true;
    }
    (void)printf("%s%lld %s would be %s%s\n", a->at_least ? "at least " : "", (long long)a->total,
                 task_or_tasks(a->total), a->act->done, a->total > 3 ? ", the first of them:" : "");
    if (a->total == 0) {
        return true;
    }
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (size_t j = 0; rows_bool(r, i, FITS) && j < t.columns; j++) {
            table_put(&t, rows_text(r, i, columns[j]));
        }
    }
    return table_print(&t, f);
}

/* Tasks that are named by id need no confirmation. */
static bool is_confirmed(const struct acting *a, const struct options *o, bool *ret,
                         struct fault *f)
{
    char what[80];
    *ret = true;
    if (option_flag(o, OPTION_YES) || options_args(o) > 0 || (a->total == 0 && !a->at_least)) {
        return true;
    }
    (void)snprintf(what, sizeof what, "%s%lld %s would be %s", a->at_least ? "at least " : "",
                   (long long)a->total, task_or_tasks(a->total), a->act->done);
    return confirm(what, ret, f);
}

/* --- the end -------------------------------------------------------------------------------- */

static void print_end(const struct acting *a, bool dry_run, bool json)
{
    if (json) {
        (void)printf("{\"act\": \"%s\", \"dry_run\": %s, \"matched\": %lld, \"at_least\": %s, "
                     "\"changed\": %lld, \"skipped\": %lld, \"audit\": %s}\n",
                     a->act->name, dry_run ? "true" : "false", (long long)a->total,
                     a->at_least ? "true" : "false", (long long)a->n, (long long)a->skipped,
                     *a->audit ? a->audit : "null");
    } else if (!dry_run) {
        (void)printf("%lld %s %s%s\n", (long long)a->n, task_or_tasks(a->n), a->act->done,
                     a->act->command == COMMAND_CANCEL && a->any_runs && a->n > 0
                         ? "; the handlers of those that ran are stopped within seconds"
                         : "");
    }
    if (a->skipped > 0 && !json) {
        (void)printf("%lld unchanged: another session has locked them, %sor another task has "
                     "taken their unique key\n",
                     (long long)a->skipped,
                     a->changes.len > 0 && a->act->command == COMMAND_RETRY
                         ? "they have no such step, "
                         : "");
    }
}

static bool act_on(struct acting *a, struct db *db, const struct options *o, struct fault *f)
{
    struct rows *rows = NULL;
    bool json = option_flag(o, OPTION_JSON), dry_run = option_flag(o, OPTION_DRY_RUN);
    bool asks = !option_flag(o, OPTION_YES) && options_args(o) == 0, go = true;
    if (!preview(a, db, o, &rows, f)) {
        return false;
    }
    size_t unfit = options_args(o) > 0 ? tell_unfit(a, rows) : 0;
    bool ok = json || !(asks || dry_run) || print_preview(a, rows, f);
    rows_free(rows);
    if (ok && a->total == 0 && !a->at_least) {
        ok = filter_tell_errors(&a->filter, o, a->act->name, db, f);
    }
    ok = ok && (dry_run || is_confirmed(a, o, &go, f));
    if (!ok || !go) {
        return ok;
    }
    ok = dry_run || acting_run(a, db, f);
    if (ok || a->n > 0) {
        print_end(a, dry_run, json);
    }
    return ok && (unfit == 0 || fault_set(f, FAULT_ABSENT, "%zu of %zu tasks could not be %s",
                                          unfit, options_args(o), a->act->done));
}

bool act_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    struct acting a;
    bool ok = acting_read(&a, o, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), DB_HOT, "tenon operator", &db, f) &&
              schema_check(db, f) && act_on(&a, db, o, f);
    acting_clear(&a);
    db_close(db);
    return ok;
}
