/* `tenon signal`: tell tasks what they wait for. */
#include "cli/command.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "core/db/schema.h"

static bool send(struct db *db, const char *name, const char *payload, struct fault *f)
{
    const char *const params[] = {name, payload};
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_signal, params, 2, &rows, f)) {
        return fault_add(f, "could not send the signal");
    }
    bool first = rows_bool(rows, 0, 0);
    rows_free(rows);
    (void)printf(first ? "sent\n"
                       : "a signal of this name was sent already; it remains unchanged\n");
    return true;
}

bool signal_run(const struct options *o, struct fault *f)
{
    struct db *db = NULL;
    bool ok = db_open(option_text(o, OPTION_DATABASE_URL), DB_PLAIN, "tenon signal", &db, f) &&
              schema_check(db, f) && send(db, options_arg(o, 0), option_text(o, OPTION_PAYLOAD), f);
    db_close(db);
    return ok;
}
