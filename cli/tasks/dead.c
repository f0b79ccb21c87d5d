/* `tenon dead`: the newest dead tasks by error class and kind, as the page shows them. */
#include "cli/command.h"
#include "cli/print.h"
#include "core/db/db.h"
#include "core/db/schema.h"
#include "ui/statements.h"

#include <jansson.h>
#include <string.h>

#define READ_MAX "10000"
#define GROUPS_MAX "100"

enum { AT_LEAST, JSON };

static const char *text_of(const json_t *group, const char *key)
{
    const char *text = json_string_value(json_object_get(group, key));
    return text ? text : "";
}

static bool put_group(struct table *t, const char *json)
{
    json_t *group = json_loads(json, 0, NULL);
    if (group) {
        table_put_printf(t, "%lld", (long long)json_integer_value(json_object_get(group, "n")));
        table_put(t, text_of(group, "kind"));
        table_put(t, *text_of(group, "error_class") ? text_of(group, "error_class") : "-");
        table_put_printf(t, "%.16s", text_of(group, "last_at"));
        table_put(t, text_of(group, "error"));
    }
    json_decref(group);
    return group != NULL;
}

static bool print_groups(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {">N", "<KIND", "<ERROR CLASS", "LAST", "^ERROR"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, JSON) && !put_group(&t, rows_text(r, i, JSON))) {
            t.cells.failed = true;
        }
    }
    bool ok = table_print(&t, f);
    if (rows_bool(r, 0, AT_LEAST)) {
        (void)puts("(only the newest " READ_MAX " dead tasks were read)");
    }
    return ok;
}

static void print_json(const struct rows *r)
{
    const char *comma = "";
    (void)printf("{\"at_least\": %s,\n\"groups\": [", rows_bool(r, 0, AT_LEAST) ? "true" : "false");
    for (size_t i = 0; i < rows_count(r); i++) {
        if (!rows_is_null(r, i, JSON)) {
            (void)printf("%s\n  %s", comma, rows_text(r, i, JSON));
            comma = ",";
        }
    }
    (void)puts("]}");
}

bool dead_run(const struct options *o, struct fault *f)
{
    static const char *const params[] = {READ_MAX, GROUPS_MAX};
    struct db *db = NULL;
    struct rows *rows = NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon dead", &db, f) &&
              schema_check(db, f) && db_exec(db, &sql_dead, params, 2, &rows, f);
    if (ok && option_flag(o, OPTION_JSON)) {
        print_json(rows);
    } else if (ok && (rows_count(rows) == 0 || rows_is_null(rows, 0, JSON))) {
        (void)puts("no task is dead");
    } else if (ok) {
        ok = print_groups(rows, f);
    }
    rows_free(rows);
    db_close(db);
    return ok;
}
