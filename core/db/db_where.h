/* Where a session leads, and how safe the way is: for log lines and faults. For what opens one. */
#ifndef TENON_CORE_DB_WHERE_H
#define TENON_CORE_DB_WHERE_H

#include "core/base/fault.h"

#include <stddef.h>

struct pg_conn;

/* "host=127.0.0.1 port=5432 dbname=app user=app" */
void where_text(const struct pg_conn *conn, char *text, size_t size);

/* CONFIG: libpq cannot read it, or would take part of the password for something else. The text
 * says which form was given and which is wanted, and repeats nothing of it. */
MUST_CHECK bool where_url_check(const char *url, struct fault *f);

/* "not encrypted" or "not verified", when it is a connection to another host; NULL = neither. */
const char *where_insecure(struct pg_conn *conn);

#endif
