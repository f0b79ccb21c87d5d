/* The schema in a database: missing migrations of tables, forward only, then all functions, views
 * and rights; in one transaction, so that a database is never halfway. */
#ifndef TENON_CLI_MIGRATE_H
#define TENON_CLI_MIGRATE_H

#include "core/base/buf.h"
#include "core/db/schema.h"

struct migration_plan {
    bool has_schema; /* what the database has ... */
    bool has_table;
    int version;  /* ... 0 = nothing */
    int lost;     /* up to which version the rows of tenon.migration are gone; 0 = they are there */
    size_t first; /* the first missing one of schema_migrations; schema_migrations_n = none */
    bool newer;   /* a later version of tenon has set it up, and this one leaves it as it is */
};

/* Begin the transaction in which all happens, and wait, as long as it takes, for another setup that
 * is at it. With `dry_run` it waits for nobody and cannot write. */
MUST_CHECK bool migrate_begin(struct db *db, bool dry_run, struct fault *f);

/* See what is missing.
 *   false   SCHEMA: the database has a newer schema that this program cannot use; CONFIG: no right
 *           to read it, the schema or something in it belongs to another role, or the rows of
 *           tenon.migration are gone and nothing tells its version; others as db_exec() */
MUST_CHECK bool migrate_read(struct db *db, struct migration_plan *ret, struct fault *f);

/* Apply the missing migrations, and replace functions, views and rights. A newer schema stays as it
 * is: its functions may have other arguments, and ours would be added. The caller commits. */
MUST_CHECK bool migrate_apply(struct db *db, const struct migration_plan *plan, struct fault *f);

enum { MIGRATE_EMPTY_BYTES = 128 };

/* Which tables lack the row that must be there, as after a dump without data; "" = none. The tables
 * must exist; migrate_apply() restores the rows. */
MUST_CHECK bool migrate_find_empty(struct db *db, char ret[MIGRATE_EMPTY_BYTES], struct fault *f);

/* Put the SQL of what is missing, so that it can be read, and run in psql. */
void migrate_put(struct buf *b, const struct migration_plan *plan);

#endif
