#include "tests/support/polls.h"

#include "worker/statements.h"

#include <stdlib.h>

PGresult *poll_run(PGconn *conn, const char *worker, const char *queues, const char *kinds,
                   const char *n)
{
    static const char range[] =
        "SELECT array_agg(%s ORDER BY p DESC, nth) FROM unnest('%s'::text[])"
        " WITH ORDINALITY q (q, nth), generate_series(0, 9) p";
    char *q = sql_text(conn, range, "q", queues), *p = sql_text(conn, range, "p", queues);
    char *us = sql_text(conn, range, "NULL::bigint", queues);
    char *ids = sql_text(conn, range, "0", queues);
    const char *const params[] = {worker, kinds,   n,          q,      p,         us,
                                  ids,    "10000", "16777216", "true", POLL_EVER, POLL_KEYS};
    PGresult *result = statement_run(conn, &sql_poll, params, POLL_PARAMS);
    free(q);
    free(p);
    free(us);
    free(ids);
    return result;
}

int poll_claimed(const PGresult *result)
{
    int n = 0;
    while (n < PQntuples(result) && PQgetisnull(result, n, COLUMN_RANGE)) {
        n++;
    }
    return n;
}
