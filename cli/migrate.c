#include "cli/migrate.h"

#include "cli/statements.h"

enum { SCRIPT_BYTES_MAX = 1 << 20 };

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

/* The script of what is missing before the first migration, and that of a migration: what is run
 * and what is printed is the same. */
static void put_schema(struct buf *b, const struct migration_plan *plan)
{
    if (!plan->has_schema) {
        buf_printf(b, "%s;\n%s;\n", sql_migrate_schema.text, sql_migrate_revoke.text);
    }
    if (!plan->has_table) {
        buf_printf(b, "%s;\n", sql_migrate_table.text);
    }
}

static void put_migration(struct buf *b, const struct migration *m)
{
    buf_printf(b, "\n-- %s\n%s", m->name, m->text);
    buf_printf(b, "INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, '%s', %s);\n",
               m->version, m->name, m->breaking ? "true" : "false");
}

static bool run(struct db *db, struct buf *b, struct fault *f)
{
    bool ok = !b->failed ? b->len == 0 || db_script_long(db, buf_text(b), f) : fault_memory(f);
    buf_clear(b);
    return ok;
}

bool migrate_apply(struct db *db, const struct migration_plan *plan, struct fault *f)
{
    struct buf b;
    buf_init(&b, SCRIPT_BYTES_MAX);
    put_schema(&b, plan);
    if (!run(db, &b, f)) {
        return fault_add(f, "could not make the schema tenon");
    }
    for (size_t i = plan->first; i < schema_migrations_n; i++) {
        put_migration(&b, &schema_migrations[i]);
        if (!run(db, &b, f)) {
            return fault_add(f, "could not apply %s", schema_migrations[i].name);
        }
    }
    return true;
}

void migrate_put(struct buf *b, const struct migration_plan *plan)
{
    put_schema(b, plan);
    for (size_t i = plan->first; i < schema_migrations_n; i++) {
        put_migration(b, &schema_migrations[i]);
    }
}
