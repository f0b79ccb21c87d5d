/* The statement that enqueues one task, prepared in sessions whose owner said that they keep it. */
#ifndef TENON_ENQUEUE_PREPARED_H
#define TENON_ENQUEUE_PREPARED_H

#include <libpq-fe.h>
#include <stdbool.h>

/* Prepare it. Remembered with the connection, until PQreset() or PQfinish().
 *   returns  libpq's result: PGRES_COMMAND_OK, or why not */
PGresult *prepared_make(PGconn *conn, const char *text);

bool prepared_is(const PGconn *conn);

PGresult *prepared_run(PGconn *conn, int n_values, const char *const *values);

/* The session does not have it any more. */
void prepared_forget(PGconn *conn);

#endif
