/* `tenon adopt`: tasks may run in this database, which is a copy of another one. */
#include "cli/command.h"
#include "cli/statements.h"
#include "cli/tasks/confirm.h"
#include "core/db/db.h"
#include "core/db/schema.h"

/* An adopted copy of production would send its mails once more: ask first. */
static bool is_confirmed(struct db *db, const struct options *o, bool *ret, struct fault *f)
{
    struct rows *rows = NULL;
    char what[300];
    *ret = true;
    if (option_flag(o, OPTION_YES)) {
        return true;
    }
    if (!db_exec(db, &sql_adopt_preview, NULL, 0, &rows, f)) {
        return fault_add(f, "could not count the tasks that would run");
    }
    bool ok = true;
    if (!rows_is_null(rows, 0, 0)) {
        (void)snprintf(what, sizeof what, "%s of the original would run here, in %.150s",
                       rows_text(rows, 0, 0), db_where(db));
        (void)printf("%s; to prevent that, empty tenon.task and tenon.schedule first\n", what);
        ok = confirm(what, ret, f);
    }
    rows_free(rows);
    return ok;
}

static bool adopt(struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_adopt, NULL, 0, &rows, f)) {
        return fault_add(f, "could not adopt the copy");
    }
    (void)printf("%s: %s\n", db_where(db),
                 rows_bool(rows, 0, 0)
                     ? "workers and cleaners may run here from now on"
                     : "this database is not a copy; workers and cleaners may run here");
    rows_free(rows);
    return true;
}

bool adopt_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    bool go = false;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon adopt", &db, f) &&
              schema_check(db, f) && is_confirmed(db, o, &go, f) && (!go || adopt(db, f));
    db_close(db);
    return ok;
}
