/* `tenon adopt`: tasks may run in this database, which is a copy of another one. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/db.h"
#include "core/schema.h"

static bool adopt(struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_adopt, NULL, 0, &rows, f)) {
        return fault_add(f, "could not adopt it");
    }
    (void)printf("%s: %s\n", db_where(db),
                 rows_bool(rows, 0, 0) ? "workers and cleaners may run here from now on"
                                       : "it is no copy; workers and cleaners may run here");
    rows_free(rows);
    return true;
}

bool adopt_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon adopt", &db, f) &&
              schema_check(db, f) && adopt(db, f);
    db_close(db);
    return ok;
}
