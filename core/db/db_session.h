/* What a session is told before anything else, and a pooler's with each transaction. Only for
 * core/db/db.c. */
#ifndef TENON_CORE_DB_SESSION_H
#define TENON_CORE_DB_SESSION_H

#include "core/db/db.h"

#include <stddef.h>

enum { SESSION_TEXT_BYTES = 3072 };

/* A script that sets up a session of our own. */
void session_text(enum db_kind kind, char text[SESSION_TEXT_BYTES]);

/* One statement that sets the same as for DB_HOT, until the transaction ends; without what is the
 * connection's. */
void session_local_text(char text[SESSION_TEXT_BYTES]);

#endif
