/* The schema `tenon` in the database against the one this program was built for. */
#ifndef TENON_CORE_SCHEMA_H
#define TENON_CORE_SCHEMA_H

#include "core/db/db.h"

struct migration {
    int version;      /* 1: sql/tables.sql; 2, 3 ... without a gap: the number in the file's name */
    const char *name; /* the file's name, without its ending */
    const char *text;
    bool breaking; /* older programs must stop: the file begins with "-- breaking" */
};

struct script {
    const char *name; /* as above */
    const char *text;
};

/* Setup runs, in one transaction: schema_before, the missing migrations, all of schema_after. */
extern const struct script schema_before;          /* sql/before.sql */
extern const struct migration schema_migrations[]; /* sql/tables.sql, and from 1.0 on more */
extern const size_t schema_migrations_n;
extern const struct script schema_after[]; /* sql/functions, sql/after.sql; ends with a NULL name */

/* The version of the database's schema.
 *   false   CONFIG: there is no schema tenon: "run tenon setup"; SCHEMA: a newer one that breaks
 *           older programs; other faults as db_exec() */
MUST_CHECK bool schema_read(struct db *db, int *ret_version, struct fault *f);

/* May this program work with it? As schema_read(), and CONFIG when it is an older one. */
MUST_CHECK bool schema_check(struct db *db, struct fault *f);

/* And may tasks run here? As schema_check(), and CONFIG in a copy of the database for which nobody
 * has said so (tenon adopt). */
MUST_CHECK bool schema_check_home(struct db *db, struct fault *f);

#endif
