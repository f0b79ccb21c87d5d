/* One producer on an idle system: a task every 20 ms, each in a transaction of its own. Writes
 * "<task id> <before> <after>" to stdout: CLOCK_REALTIME in nanoseconds just before the enqueue
 * call and just after the commit returned.
 *
 *     latency TASKS [begin | STATEMENT]      DATABASE_URL and AMQP_URL from the environment
 *
 *   (neither)  tenon_enqueue(), which commits by itself
 *   begin      the call and tenon_commit(), in a transaction that was begun before
 *   STATEMENT  in SQL, instead of the call; it returns the id and commits by itself */
#include "bench/common.h"

#include <tenon/tenon.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY_NS = 20000000 };

static int enqueue_sql(PGconn *conn, const char *statement)
{
    int64_t before = now_ns(CLOCK_REALTIME);
    PGresult *r = PQexec(conn, statement);
    int64_t after = now_ns(CLOCK_REALTIME);
    int failed = PQntuples(r) == 1 ? 0 : fail("could not enqueue", PQerrorMessage(conn));
    if (!failed) {
        (void)printf("%s %" PRId64 " %" PRId64 "\n", PQgetvalue(r, 0, 0), before, after);
    }
    PQclear(r);
    return failed;
}

static int enqueue_one(tenon *t, PGconn *conn, bool begin)
{
    tenon_task task = TENON_TASK_INIT;
    int64_t id;
    task.kind = "noop";
    task.payload = "{\"i\":0}";
    if (begin && begin_transaction(conn) != 0) {
        return 1;
    }
    int64_t before = now_ns(CLOCK_REALTIME);
    int code = tenon_enqueue(t, conn, &task, &id);
    if (code == TENON_OK && begin) {
        code = tenon_commit(t, conn);
    }
    if (code != TENON_OK) {
        return fail("could not enqueue", tenon_errmsg());
    }
    (void)printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", id, before, now_ns(CLOCK_REALTIME));
    return 0;
}

int main(int argc, char **argv)
{
    int tasks = argc >= 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    bool begin = argc == 3 && strcmp(argv[2], "begin") == 0;
    const char *statement = argc == 3 && !begin ? argv[2] : NULL;
    PGconn *conn = PQconnectdb(getenv("DATABASE_URL"));
    tenon *t = tenon_new(NULL);
    int failed = tasks < 1 ? fail("usage", "latency TASKS [begin | STATEMENT]") : 0;
    if (PQstatus(conn) != CONNECTION_OK) {
        failed = fail("could not connect", PQerrorMessage(conn));
    } else if (!t) {
        failed = fail("could not start", tenon_errmsg());
    } else if (!statement && tenon_prepare_statement(t, conn) != TENON_OK) {
        failed = fail("could not prepare", tenon_errmsg());
    }
    for (int i = 0; i < tasks && !failed; i++) {
        struct timespec pause = {.tv_nsec = EVERY_NS};
        failed = statement ? enqueue_sql(conn, statement) : enqueue_one(t, conn, begin);
        (void)nanosleep(&pause, NULL);
    }
    tenon_free(t);
    PQfinish(conn);
    return failed;
}
