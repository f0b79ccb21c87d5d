/* `tenon list`: a page of tasks that fit a filter. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "cli/tasks/filter.h"
#include "core/db/db.h"
#include "core/db/schema.h"

/* The columns of list.sql. */
enum { NEXT, ID, STATE, KIND, QUEUE, PRIORITY, TIME, ATTEMPTS, ERROR, JSON };

static bool has_task(const struct rows *r, size_t i)
{
    return !rows_is_null(r, i, ID);
}

static bool print_tasks(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {">ID",  "STATE", "KIND",      "QUEUE",
                                        ">PRI", "TIME",  ">ATTEMPTS", "LAST ERROR"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (int column = ID; has_task(r, i) && column <= ERROR; column++) {
            table_put(&t, rows_text(r, i, column));
        }
    }
    return table_print(&t, f);
}

static bool print_page(const struct rows *r, struct fault *f)
{
    if (!has_task(r, 0)) {
        (void)puts("no task fits");
    } else if (!print_tasks(r, f)) {
        return false;
    }
    if (!rows_is_null(r, 0, NEXT)) {
        (void)printf("(there may be more: --cursor %s)\n", rows_text(r, 0, NEXT));
    }
    return true;
}

static void print_json(const struct rows *r)
{
    const char *next = rows_text(r, 0, NEXT);
    (void)printf("{\"next\": %s,\n\"tasks\": [", next ? next : "null");
    for (size_t i = 0; i < rows_count(r) && has_task(r, i); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, JSON));
    }
    (void)puts("]}");
}

static bool list(struct db *db, const struct options *o, struct fault *f)
{
    struct buf filter;
    struct rows *rows = NULL;
    bool ok = filter_read(&filter, o, options_args(o), f);
    const char *const params[] = {buf_text(&filter), option_text(o, OPTION_CURSOR),
                                  option_text(o, OPTION_LIMIT)};
    ok = ok &&
         (db_exec(db, &sql_list, params, 3, &rows, f) || fault_add(f, "could not list the tasks"));
    if (ok && !has_task(rows, 0) && rows_is_null(rows, 0, NEXT)) {
        ok = filter_tell_errors(&filter, o, NULL, db, f);
    }
    buf_clear(&filter);
    if (ok && option_flag(o, OPTION_JSON)) {
        print_json(rows);
    } else if (ok) {
        ok = print_page(rows, f);
    }
    rows_free(rows);
    return ok;
}

bool list_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon list", &db, f) &&
              schema_check(db, f) && list(db, o, f);
    db_close(db);
    return ok;
}
