#include "enqueue/prepared.h"

#include <libpq-events.h>
#include <stdint.h>

static const char name[] = "tenon.enqueue";

/* A session that was reopened has no statement. */
static int on_event(PGEventId event, void *info, void *unused)
{
    (void)unused;
    if (event == PGEVT_CONNRESET) {
        prepared_forget(((PGEventConnReset *)info)->conn);
    }
    return 1;
}

PGresult *prepared_make(PGconn *conn, const char *text)
{
    PGresult *result = PQprepare(conn, name, text, 0, NULL);
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        /* false when it is registered already; without memory the statement is not used */
        (void)PQregisterEventProc(conn, on_event, "libtenon", NULL);
        (void)PQsetInstanceData(conn, on_event, (void *)(uintptr_t)name);
    }
    return result;
}

bool prepared_is(const PGconn *conn)
{
    return PQinstanceData(conn, on_event) != NULL;
}

PGresult *prepared_run(PGconn *conn, int n_values, const char *const *values)
{
    return PQexecPrepared(conn, name, n_values, values, NULL, NULL, 0);
}

void prepared_forget(PGconn *conn)
{
    (void)PQsetInstanceData(conn, on_event, NULL);
}
