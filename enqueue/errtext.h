/* What tenon_errmsg() says: why the last call of this thread failed. */
#ifndef TENON_ENQUEUE_ERRTEXT_H
#define TENON_ENQUEUE_ERRTEXT_H

#include "core/base/fault.h"
#include "include/tenon/tenon.h"

/* Nothing failed; TENON_OK. */
int errtext_ok(void);

/* Returns the code. */
int PRINTF_LIKE(2, 3) errtext_set(int code, const char *fmt, ...);

/* What PostgreSQL says, and the code for it. */
int errtext_take(PGconn *conn, const PGresult *result);

/* May a statement be run on `conn`, and is it in a transaction? */
int errtext_look_at(PGconn *conn, bool *ret_in_transaction);

#endif
