/* `tenon flow`: flows and batches: list, cancel, close, and one as a tree. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "core/options/option_value.h"

#include <stdlib.h>
#include <string.h>

#define TASKS_SHOWN "10000" /* of a flow, unless --limit says another number */

enum { DEPTH_MAX = 40 }; /* of the tree as it is printed */

/* The columns of flow_list.sql, flow_show.sql, flow_tasks.sql. */
enum { LIST_COLUMNS = 11, LIST_JSON = LIST_COLUMNS };
enum { NAME, TEXT, TASKS };
enum { ID, PARENT, TASK_NAME, KIND, STATE, ALSO, JSON };

static bool list(struct db *db, const struct options *o, struct fault *f)
{
    static const char *const heads[] = {">FLOW",    "NAME",     "STATE",     ">TASKS",
                                        ">BLOCKED", ">WAITING", ">RUNNING",  ">DONE",
                                        ">DEAD",    ">OTHERS",  "MADE (UTC)"};
    const char *const params[] = {option_text(o, OPTION_CURSOR), option_text(o, OPTION_LIMIT)};
    struct rows *rows = NULL;
    struct table t;
    if (!db_exec(db, &sql_flow_list, params, 2, &rows, f)) {
        return fault_add(f, "could not list the flows");
    }
    size_t n = rows_count(rows);
    bool full = n > 0 && (int64_t)n == option_int(o, OPTION_LIMIT), ok = true;
    if (option_flag(o, OPTION_JSON)) {
        (void)printf("{\"next\": %s,\n\"flows\": [", full ? rows_text(rows, n - 1, 0) : "null");
        for (size_t i = 0; i < n; i++) {
            (void)printf("%s\n  %s", i ? "," : "", rows_text(rows, i, LIST_JSON));
        }
        (void)puts("]}");
    } else if (n == 0) {
        (void)puts("no flows");
    } else {
        table_init(&t, heads, LIST_COLUMNS);
        for (size_t i = 0; i < n * LIST_COLUMNS; i++) {
            table_put(&t, rows_text(rows, i / LIST_COLUMNS, (int)(i % LIST_COLUMNS)));
        }
        ok = table_print(&t, f);
        if (full) {
            (void)printf("(there may be more: --cursor %s)\n", rows_text(rows, n - 1, 0));
        }
    }
    rows_free(rows);
    return ok;
}

/* --- one flow as a tree ----------------------------------------------------------------------- */

/* By the index of a row; -1 = none. */
struct branch {
    int child; /* the first */
    int next;  /* of the same parent */
    int depth;
};

/* The row of a task, by halves; -1 = it is not shown. */
static int row_of(const struct rows *r, int64_t id)
{
    int low = 0, high = (int)rows_count(r) - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rows_int(r, (size_t)middle, ID) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return high >= 0 && rows_int(r, (size_t)low, ID) == id ? low : -1;
}

/* Hang each task under its parent, which has a lower id and so is there already; those without one
 * under the root, which is the branch after the last. */
static struct branch *branches(const struct rows *r)
{
    int n = (int)rows_count(r);
    struct branch *b = calloc((size_t)n + 1, sizeof *b);
    for (int i = 0; b && i <= n; i++) {
        b[i] = (struct branch){-1, -1, 0};
    }
    for (int i = n - 1; b && i >= 0; i--) {
        int parent = rows_is_null(r, (size_t)i, PARENT) ? -1
                                                        : row_of(r, rows_int(r, (size_t)i, PARENT));
        struct branch *above = &b[parent < 0 ? n : parent];
        b[i].next = above->child;
        above->child = i;
    }
    return b;
}

static void put_task(struct table *t, const struct rows *r, size_t i, int depth)
{
    int indent = depth > DEPTH_MAX ? DEPTH_MAX : depth;
    table_put_printf(t, "%*s%s", 2 * indent, "", rows_text(r, i, ID));
    table_put(t, rows_text(r, i, TASK_NAME));
    table_put(t, rows_text(r, i, KIND));
    table_put(t, rows_text(r, i, STATE));
    table_put(t, rows_text(r, i, ALSO));
}

/* A walk without recursion: a chain of tasks may be long. The stack holds, for each depth, the task
 * that comes next there. */
static bool print_tree(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {"TASK", "NAME", "KIND", "STATE", "ALSO AFTER"};
    int n = (int)rows_count(r), top = 0;
    struct branch *b = branches(r);
    int *stack = calloc((size_t)n + 1, sizeof *stack);
    struct table t;
    if (!b || !stack) {
        free(b);
        free(stack);
        return fault_memory(f);
    }
    table_init(&t, heads, sizeof heads / sizeof *heads);
    stack[top] = b[n].child;
    while (top >= 0) {
        int i = stack[top];
        if (i < 0) {
            top--;
            continue;
        }
        put_task(&t, r, (size_t)i, b[i].depth);
        stack[top] = b[i].next;
        if (b[i].child >= 0) {
            stack[++top] = b[i].child;
            for (int c = b[i].child; c >= 0; c = b[c].next) {
                b[c].depth = b[i].depth + 1;
            }
        }
    }
    free(b);
    free(stack);
    return table_print(&t, f);
}

static void print_json(const struct rows *flow, const struct rows *tasks)
{
    (void)printf("{\"flow\": %s,\n\"shown\": %zu,\n\"tasks\": [", rows_text(flow, 0, TEXT),
                 rows_count(tasks));
    for (size_t i = 0; i < rows_count(tasks); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(tasks, i, JSON));
    }
    (void)puts("]}");
}

static bool print_flow(const char *id, const struct rows *flow, const struct rows *tasks,
                       struct fault *f)
{
    for (size_t i = 1; i < rows_count(flow); i++) {
        print_pair(rows_text(flow, i, NAME), rows_text(flow, i, TEXT));
    }
    if (rows_count(tasks) == 0) {
        return true;
    }
    (void)putchar('\n');
    bool ok = print_tree(tasks, f);
    if ((int64_t)rows_count(tasks) < rows_int(flow, 0, TASKS)) {
        (void)printf(
            "(the first %zu of %s tasks: --limit shows more, and tenon list --flow %s all)\n",
            rows_count(tasks), rows_text(flow, 0, TASKS), id);
    }
    return ok;
}

static bool absent(const char *id, struct fault *f)
{
    return fault_set(f, FAULT_ABSENT, "there is no flow %s; tenon flow list shows the flows", id);
}

static bool show(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {options_arg(o, 0), option_is_given(o, OPTION_LIMIT)
                                                         ? option_text(o, OPTION_LIMIT)
                                                         : TASKS_SHOWN};
    struct db_call calls[] = {{.statement = &sql_flow_show, .params = params, .n_params = 1},
                              {.statement = &sql_flow_tasks, .params = params, .n_params = 2}};
    if (!db_batch(db, calls, 2, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return fault_add(f, "could not read flow %s", params[0]);
    }
    bool there = rows_count(calls[0].rows) > 0;
    bool ok = there || absent(params[0], f);
    if (there && option_flag(o, OPTION_JSON)) {
        print_json(calls[0].rows, calls[1].rows);
    } else if (there) {
        ok = print_flow(params[0], calls[0].rows, calls[1].rows, f);
    }
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    return ok;
}

/* --- cancel, close ---------------------------------------------------------------------------- */

static bool act(struct db *db, const struct options *o, const struct statement *statement,
                struct fault *f)
{
    const char *const params[] = {options_arg(o, 1)};
    struct rows *rows = NULL;
    if (!db_exec(db, statement, params, 1, &rows, f)) {
        if (strcmp(f->sqlstate, "22023") == 0) { /* of tenon.hold_flow */
            fault_clear(f);
            return absent(params[0], f);
        }
        f->code = f->code == FAULT_ROW ? FAULT_REFUSED : f->code;
        return fault_add(f, "could not %s flow %.100s", options_arg(o, 0), params[0]);
    }
    (void)puts(rows_text(rows, 0, option_flag(o, OPTION_JSON)));
    rows_free(rows);
    return true;
}

static bool cancel(struct db *db, const struct options *o, struct fault *f)
{
    return act(db, o, &sql_flow_cancel, f);
}

static bool close_batch(struct db *db, const struct options *o, struct fault *f)
{
    return act(db, o, &sql_flow_close, f);
}

/* --- main ------------------------------------------------------------------------------------- */

struct action {
    const char *word;
    size_t args;
    enum db_kind kind;
    bool (*run)(struct db *db, const struct options *o, struct fault *f);
};

static const struct action actions[] = {
    {"list", 1, DB_READ, list},
    {"cancel", 2, DB_HOT, cancel},
    {"close", 2, DB_HOT, close_batch},
};

/* Else the first argument is a flow's number. */
static const struct action *action_of(const char *word)
{
    static const struct action shown = {"ID", 1, DB_READ, show};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(word, actions[i].word) == 0) {
            return &actions[i];
        }
    }
    return &shown;
}

static bool check(const struct action *action, const struct options *o, struct fault *f)
{
    if (options_args(o) != action->args) {
        return fault_set(f, FAULT_CONFIG, "%s: tenon flow %s%s",
                         options_args(o) < action->args ? "an argument is missing"
                                                        : "unexpected argument",
                         action->word, action->args == 2 ? " ID" : "");
    }
    const char *id = options_arg(o, action->args - 1);
    return action->run == list || fits_id(id) ||
           fault_set(
               f, FAULT_CONFIG,
               "\"%.100s\" is not the number of a flow; use: tenon flow ID, list, cancel ID or "
               "close ID",
               id);
}

bool flow_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    const struct action *action = action_of(options_arg(o, 0));
    bool ok = check(action, o, f) &&
              db_open(option_text(o, OPTION_DATABASE_URL), action->kind | DB_ANY, "tenon flow", &db,
                      f) &&
              schema_check(db, f) && action->run(db, o, f);
    db_close(db);
    return ok;
}
