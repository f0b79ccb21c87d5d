/* The schema `tenon` in the database against the one this program was built for. */
#ifndef TENON_CORE_SCHEMA_H
#define TENON_CORE_SCHEMA_H

#include "core/db.h"

struct migration {
    int version;      /* 1, 2, 3 ... without a gap; the number in the file's name */
    const char *name; /* the file's name, without its ending */
    const char *text;
    bool breaking; /* older programs must stop: the file begins with "-- breaking" */
};

extern const struct migration schema_migrations[]; /* generated from sql/migrations, by version */
extern const size_t schema_migrations_n;

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
