/* What the producers of script/bench share. */
#ifndef TENON_BENCH_COMMON_H
#define TENON_BENCH_COMMON_H

#include <errno.h>
#include <libpq-fe.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline int64_t now_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Say what could not be done, and why; 1, which is the program's exit code then. */
static inline int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    return 1;
}

/* 0, or 1 after saying why not. */
static inline int begin_transaction(PGconn *conn)
{
    PGresult *r = PQexec(conn, "BEGIN");
    int failed = PQresultStatus(r) == PGRES_COMMAND_OK
                     ? 0
                     : fail("could not begin", PQerrorMessage(conn));
    PQclear(r);
    return failed;
}

#endif
