/* `tenon audit`: who did what to many tasks, and when. */
#include "cli/command.h"
#include "cli/print.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"

enum { ID, JSON = 7 }; /* of the columns of audit.sql */

static bool print_acts(const struct rows *r, struct fault *f)
{
    static const char *const heads[] = {">ID",      "TIME",     "<WHO", "<ACT",
                                        ">CHANGED", ">SKIPPED", "^WHAT"};
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < rows_count(r); i++) {
        for (int column = 0; column < JSON; column++) {
            table_put(&t, rows_text(r, i, column));
        }
    }
    return table_print(&t, f);
}

static void print_json(const struct rows *r, const char *next)
{
    (void)printf("{\"next\": %s,\n\"acts\": [", next ? next : "null");
    for (size_t i = 0; i < rows_count(r); i++) {
        (void)printf("%s\n  %s", i ? "," : "", rows_text(r, i, JSON));
    }
    (void)puts("]}");
}

static bool print_audit(const struct rows *r, const struct options *o, struct fault *f)
{
    size_t n = rows_count(r);
    bool full = (int64_t)n == option_int(o, OPTION_LIMIT);
    const char *next = full ? rows_text(r, n - 1, ID) : NULL;
    if (option_flag(o, OPTION_JSON)) {
        print_json(r, next);
        return true;
    }
    if (n == 0) {
        (void)puts("the audit is empty");
        return true;
    }
    bool ok = print_acts(r, f);
    if (next) {
        (void)printf("(there may be more: --cursor %s)\n", next);
    }
    return ok;
}

bool audit_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    struct rows *rows = NULL;
    const char *const params[] = {option_text(o, OPTION_CURSOR), option_text(o, OPTION_LIMIT)};
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_READ, "tenon audit", &db, f) &&
              schema_check(db, f) &&
              (db_exec(db, &sql_audit, params, 2, &rows, f) ||
               fault_add(f, "could not read the audit"));
    ok = ok && print_audit(rows, o, f);
    rows_free(rows);
    db_close(db);
    return ok;
}
