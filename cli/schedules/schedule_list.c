/* What `tenon schedule` prints: list, show, next. */
#include "cli/print.h"
#include "cli/schedules/schedule.h"
#include "cli/statements.h"

#define LIST_MAX 1000 /* schedules */
#define TEXT_OF(n) #n
#define TEXT(n) TEXT_OF(n)

enum { LIST_COLUMNS = 7, LIST_JSON = LIST_COLUMNS };
enum { NEXT_UTC, NEXT_THERE, NEXT_ZONE, NEXT_JSON };

/* {"key": [row, row]} */
static void print_rows(const char *key, const struct rows *r, int column)
{
    (void)printf("{\"%s\": [", key);
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, column));
    }
    (void)puts("]}");
}

/* A table of the first columns. */
static bool print_table(const struct rows *r, const char *const *heads, int columns,
                        struct fault *f)
{
    struct table t;
    table_init(&t, heads, (size_t)columns);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (int column = 0; column < columns; column++) {
            table_put(&t, rows_text(r, i, column));
        }
    }
    return table_print(&t, f);
}

bool schedule_list(struct db *db, const struct options *o, struct fault *f)
{
    static const char *const heads[] = {"<SCHEDULE",  "<WHEN", "<ZONE",      "<KIND",
                                        "NEXT (UTC)", "STATE", "^LAST (UTC)"};
    const char *const params[] = {TEXT(LIST_MAX)};
    struct rows *rows = NULL;
    bool ok = true;
    if (!db_exec(db, &sql_schedule_list, params, 1, &rows, f)) {
        return fault_add(f, "could not read the schedules");
    }
    if (option_flag(o, OPTION_JSON)) {
        print_rows("schedules", rows, LIST_JSON);
    } else if (rows_count(rows) == 0) {
        (void)puts("no schedules");
    } else {
        ok = print_table(rows, heads, LIST_COLUMNS, f);
        if (rows_count(rows) >= LIST_MAX) {
            (void)printf("(only the first %d by name)\n", LIST_MAX);
        }
    }
    rows_free(rows);
    return ok;
}

static bool absent(const char *name, struct fault *f)
{
    return fault_set(f, FAULT_ABSENT, "there is no schedule %.100s; tenon schedule list shows all",
                     name);
}

bool schedule_show(struct db *db, const struct options *o, struct fault *f)
{
    const char *const params[] = {options_arg(o, 1)};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_schedule_show, params, 1, &rows, f)) {
        return fault_add(f, "could not read the schedule %.100s", params[0]);
    }
    return print_shown(rows, option_flag(o, OPTION_JSON)) || absent(params[0], f);
}

static bool print_next(const struct rows *rows, bool json, struct fault *f)
{
    if (json) {
        print_rows("ticks", rows, NEXT_JSON);
        return true;
    }
    const char *const heads[] = {"UTC", rows_text(rows, 0, NEXT_ZONE)};
    return print_table(rows, heads, NEXT_ZONE, f);
}

bool schedule_next(struct db *db, const struct options *o, struct fault *f)
{
    const char *name = options_args(o) > 1 ? options_arg(o, 1) : NULL;
    const char *const params[] = {name, option_text(o, OPTION_CRON), option_text(o, OPTION_ZONE),
                                  option_text(o, OPTION_HOW_MANY)};
    struct rows *rows = NULL;
    if (!name == !params[1]) {
        return fault_set(f, FAULT_CONFIG,
                         "tenon schedule next takes either the name of a schedule or --cron");
    }
    if (!db_exec(db, &sql_schedule_next, params, 4, &rows, f)) {
        return fault_add(f, "could not find the next ticks");
    }
    bool there = rows_count(rows) > 0;
    bool ok = there ? print_next(rows, option_flag(o, OPTION_JSON), f) : absent(name, f);
    rows_free(rows);
    return ok;
}
