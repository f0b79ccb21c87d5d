#include "cli/setup/migrate.h"

#include "cli/statements.h"
#include "core/db/sqlstate.h"

#include <stdio.h>

enum { SCRIPT_BYTES_MAX = 1 << 20, SCRIPT_NAME_BYTES = 100 };

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

/* An object of another role could run with our rights, and with those of its callers. */
static bool check_owner(struct db *db, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_migrate_foreign, NULL, 0, &rows, f)) {
        return fault_add(f, "could not read the owner of the schema tenon");
    }
    bool ok = rows_count(rows) == 0 ||
              fault_set(f, FAULT_CONFIG,
                        "%.200s (in the schema tenon of %s) belongs to the role %.100s, but setup "
                        "runs as %.100s: run setup as the owner of the whole schema, or first drop "
                        "the objects of that role",
                        rows_text(rows, 0, 0), db_where(db), rows_text(rows, 0, 1),
                        rows_text(rows, 0, 2));
    rows_free(rows);
    return ok;
}

/* The tables are there, and tenon.migration is empty. */
static bool find_lost(struct db *db, int noted, struct migration_plan *ret, struct fault *f)
{
    ret->lost = noted;
    ret->version = noted;
    return noted > 0 ||
           fault_set(
               f, FAULT_CONFIG,
               "the schema tenon of %s has tables, but tenon.migration has no rows (was a dump "
               "without data and comments restored?): DROP SCHEMA tenon CASCADE, then run "
               "tenon setup again",
               db_where(db));
}

bool migrate_read(struct db *db, struct migration_plan *ret, struct fault *f)
{
    enum { SCHEMA, TABLE, TABLES, NOTED };
    struct rows *rows = NULL;
    *ret = (struct migration_plan){.version = 0};
    if (!check_owner(db, f)) {
        return false;
    }
    if (!db_exec(db, &sql_migrate_state, NULL, 0, &rows, f)) {
        return fault_add(f, "could not look for the schema tenon");
    }
    ret->has_schema = rows_bool(rows, 0, SCHEMA);
    ret->has_table = rows_bool(rows, 0, TABLE);
    bool ok = (!ret->has_table || schema_read(db, &ret->version, f)) &&
              (ret->version > 0 || !rows_bool(rows, 0, TABLES) ||
               find_lost(db, (int)rows_int(rows, 0, NOTED), ret, f));
    rows_free(rows);
    if (!ok) {
        return false;
    }
    while (ret->first < schema_migrations_n &&
           schema_migrations[ret->first].version <= ret->version) {
        ret->first++;
    }
    ret->newer = ret->version > schema_migrations[schema_migrations_n - 1].version;
    return true;
}

static void put_row(struct buf *b, const struct migration *m)
{
    buf_printf(b, "INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, '%s', %s);\n",
               m->version, m->name, m->breaking ? "true" : "false");
}

/* The script of what is missing before the first migration, and that of a migration: what is run
 * and what is printed is the same. */
static void put_schema(struct buf *b, const struct migration_plan *plan)
{
    if (!plan->has_schema) {
        buf_printf(b, "%s;\n", sql_migrate_schema.text);
    }
    if (!plan->has_table) {
        buf_printf(b, "%s;\n%s;\n", sql_migrate_revoke.text, sql_migrate_table.text);
    }
    for (size_t i = 0; i < plan->first && schema_migrations[i].version <= plan->lost; i++) {
        put_row(b, &schema_migrations[i]);
    }
}

/* The comment is in a dump without data as well (migrate_state.sql). */
static void put_migration(struct buf *b, const struct migration *m)
{
    buf_printf(b, "\n-- %s\n%s", m->name, m->text);
    put_row(b, m);
    buf_printf(b, "COMMENT ON TABLE tenon.migration IS 'Which migrations were applied: 1 to %d';\n",
               m->version);
}

static void put_script(struct buf *b, const struct script *script)
{
    buf_printf(b, "\n-- %s\n%s", script->name, script->text);
}

/* `doing`: what could not be done, after a fault that says nothing of locks. A deadlock is one. */
static bool explain(struct fault *f, const char *doing, const char *name)
{
    if (sqlstate_is(f->sqlstate, "55P03 40P01")) {
        return fault_add(f, "nothing was changed; end the transaction that uses tables or views of "
                            "tenon, or run setup again later");
    }
    return fault_add(f, "could not %s %s", doing, name);
}

static bool run_script(struct db *db, const struct script *script, struct fault *f)
{
    char name[SCRIPT_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s.sql of this program", script->name);
    return db_script_long(db, script->text, f) || explain(f, "run", name);
}

static bool run(struct db *db, struct buf *b, const char *doing, const char *name, struct fault *f)
{
    bool ok = !b->failed ? b->len == 0 || db_script_long(db, buf_text(b), f) : fault_memory(f);
    buf_clear(b);
    return ok || explain(f, doing, name);
}

bool migrate_apply(struct db *db, const struct migration_plan *plan, struct fault *f)
{
    struct buf b;
    buf_init(&b, SCRIPT_BYTES_MAX);
    if (plan->newer) {
        return true;
    }
    /* Every statement on what setup wants to change waits behind it. In a deadlock it must give up
     * before PostgreSQL ends the application's statement; but an autovacuum gives way only after
     * deadlock_timeout. */
    if (!db_script(db,
                   "SELECT set_config('lock_timeout', (setting::int * 1.5)::int::text, true)"
                   " FROM pg_settings WHERE name = 'deadlock_timeout'",
                   f)) {
        return fault_add(f, "could not set setup's lock_timeout");
    }
    put_schema(&b, plan);
    bool ok = run(db, &b, "make", "the schema tenon", f) && run_script(db, &schema_before, f);
    for (size_t i = plan->first; ok && i < schema_migrations_n; i++) {
        put_migration(&b, &schema_migrations[i]);
        ok = run(db, &b, "apply", schema_migrations[i].name, f);
    }
    for (const struct script *script = schema_after; ok && script->name; script++) {
        ok = run_script(db, script, f);
    }
    return ok;
}

bool migrate_find_empty(struct db *db, char ret[MIGRATE_EMPTY_BYTES], struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_migrate_empty, NULL, 0, &rows, f)) {
        return fault_add(f, "could not look for missing rows");
    }
    const char *empty = rows_text(rows, 0, 0);
    (void)snprintf(ret, MIGRATE_EMPTY_BYTES, "%s", empty ? empty : "");
    rows_free(rows);
    return true;
}

void migrate_put(struct buf *b, const struct migration_plan *plan)
{
    put_schema(b, plan);
    put_script(b, &schema_before);
    for (size_t i = plan->first; i < schema_migrations_n; i++) {
        put_migration(b, &schema_migrations[i]);
    }
    for (const struct script *script = schema_after; script->name; script++) {
        put_script(b, script);
    }
}
