/* To log in at a server, and why that failed. For db.c, and for tenon-sql,
 * whose sessions are not `struct db`. */
#ifndef TENON_CORE_DB_LOGIN_H
#define TENON_CORE_DB_LOGIN_H

#include "core/base/fault.h"

struct pg_conn;

/* Connect, in each host's time limit.
 *   any       where no host takes writes, also to one that does not
 *   ret_conn  to be closed with PQfinish(), also after a failure; NULL: no memory
 *   false     CONFIG: a person must act (login refused, no such database, no password, no root
 *             certificate); RETRY: all else, an old PgBouncer's refusals among it, which are all
 *             08P01 */
MUST_CHECK bool login_open(const char *url, bool any, const char *name, struct pg_conn **ret_conn,
                           struct fault *f);

#endif
