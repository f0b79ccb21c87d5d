#include "core/db/schema.h"

#include "core/db/sqlstate.h"
#include "core/statements.h"

static int ours(void)
{
    return schema_migrations[schema_migrations_n - 1].version;
}

bool schema_read(struct db *db, int *ret_version, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_schema_version, NULL, 0, &rows, f)) {
        if (sqlstate_is(f->sqlstate, "42P01 3F000")) {
            fault_clear(f);
            return fault_set(f, FAULT_CONFIG,
                             "there is no schema tenon in this database (%s): run tenon setup",
                             db_where(db));
        }
        return fault_add(f, "could not read the schema's version");
    }
    *ret_version = (int)rows_int(rows, 0, 0);
    int breaking = (int)rows_int(rows, 0, 1);
    rows_free(rows);
    if (breaking > ours()) {
        return fault_set(f, FAULT_SCHEMA,
                         "the schema tenon has version %d, which programs of version %d cannot "
                         "use: install a newer tenon",
                         *ret_version, ours());
    }
    return true;
}

bool schema_check(struct db *db, struct fault *f)
{
    int version;
    if (!schema_read(db, &version, f)) {
        return false;
    }
    return version >= ours() || fault_set(f, FAULT_CONFIG,
                                          "the schema tenon has version %d and this program needs "
                                          "%d: run tenon setup",
                                          version, ours());
}

bool schema_check_home(struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!schema_check(db, f) || !db_exec(db, &sql_copied, NULL, 0, &rows, f)) {
        return false;
    }
    if (!rows_is_null(rows, 0, 0)) {
        (void)fault_set(f, FAULT_CONFIG, "%s; if tasks may run in this copy: tenon adopt",
                        rows_text(rows, 0, 0));
    }
    rows_free(rows);
    return f->code == FAULT_NONE;
}
