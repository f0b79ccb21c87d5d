#include "cli/migrate.h"

#include "cli/statements.h"

bool migrate_begin(struct db *db, bool dry_run, struct fault *f)
{
    /* 1952804463 spells 'teno'; 3 is setup's own. CREATE SCHEMA IF NOT EXISTS alone is not safe in
     * two sessions at once. */
    return db_script(db, "SET lock_timeout = 0; SET statement_timeout = 0", f) &&
           db_script_long(db,
                          dry_run ? "BEGIN READ ONLY"
                                  : "BEGIN; SELECT pg_advisory_xact_lock(1952804463, 3)",
                          f);
}

bool migrate_read(struct db *db, struct migration_plan *ret, struct fault *f)
{
    struct rows *rows = NULL;
    *ret = (struct migration_plan){.version = 0};
    if (!db_exec(db, &sql_migrate_state, NULL, 0, &rows, f)) {
        return fault_add(f, "could not look for the schema tenon");
    }
    ret->has_schema = rows_bool(rows, 0, 0);
    ret->has_table = rows_bool(rows, 0, 1);
    rows_free(rows);
    if (ret->has_table && !schema_read(db, &ret->version, f)) {
        return false;
    }
    while (ret->first < schema_migrations_n &&
           schema_migrations[ret->first].version <= ret->version) {
        ret->first++;
    }
    return true;
}

static bool make_schema(struct db *db, const struct migration_plan *plan, struct fault *f)
{
    bool ok = (plan->has_schema || (db_exec(db, &sql_migrate_schema, NULL, 0, NULL, f) &&
                                    db_exec(db, &sql_migrate_revoke, NULL, 0, NULL, f))) &&
              (plan->has_table || db_exec(db, &sql_migrate_table, NULL, 0, NULL, f));
    return ok || fault_add(f, "could not make the schema tenon");
}

static bool apply_one(struct db *db, const struct migration *m, struct fault *f)
{
    char version[16];
    (void)snprintf(version, sizeof version, "%d", m->version);
    const char *const params[] = {version, m->name, m->breaking ? "true" : "false"};
    return (db_script_long(db, m->text, f) &&
            db_exec(db, &sql_migrate_record, params, 3, NULL, f)) ||
           fault_add(f, "could not apply %s", m->name);
}

bool migrate_apply(struct db *db, const struct migration_plan *plan, struct fault *f)
{
    if (!make_schema(db, plan, f)) {
        return false;
    }
    for (size_t i = plan->first; i < schema_migrations_n; i++) {
        if (!apply_one(db, &schema_migrations[i], f)) {
            return false;
        }
    }
    return true;
}

static void print_statement(FILE *out, const struct statement *statement)
{
    (void)fprintf(out, "%s;\n", statement->text);
}

void migrate_print(FILE *out, const struct migration_plan *plan)
{
    if (!plan->has_schema) {
        print_statement(out, &sql_migrate_schema);
        print_statement(out, &sql_migrate_revoke);
    }
    if (!plan->has_table) {
        print_statement(out, &sql_migrate_table);
    }
    for (size_t i = plan->first; i < schema_migrations_n; i++) {
        const struct migration *m = &schema_migrations[i];
        (void)fprintf(out, "\n-- %s\n%s", m->name, m->text);
        (void)fprintf(
            out, "INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, '%s', %s);\n",
            m->version, m->name, m->breaking ? "true" : "false");
    }
}
