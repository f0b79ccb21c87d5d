/* The database that tests' databases are copied from. */
#ifndef TENON_TESTS_SUPPORT_TEMPLATE_H
#define TENON_TESTS_SUPPORT_TEMPLATE_H

#include "tests/support/sql.h"

enum { TEMPLATE_NAME_BYTES = 64 };

/* Make the template unless it exists: one per state of sql/, named after their content.
 * Safe in many processes at once. */
void template_make(PGconn *maintenance, const char *url, char name[TEMPLATE_NAME_BYTES]);

/* Apply every migration of this build to an empty database, as `tenon setup` does. */
void template_migrate(PGconn *conn);

#endif
