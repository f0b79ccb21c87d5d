/* Producers that know only SQL, a thread and a connection each, whose transactions stay open for
 * a random while. Writes "<task id> <CLOCK_REALTIME in nanoseconds when its COMMIT had
 * returned>" to stdout, in the end.
 *
 *     open_transactions PRODUCERS SECONDS OPEN_MS_MAX STATEMENT     DATABASE_URL: environment
 *
 *   OPEN_MS_MAX  each transaction waits up to so long between STATEMENT and COMMIT; 0 = not at all
 *   STATEMENT    enqueues one task; its first column is the id */
#include "bench/common.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRODUCERS_MAX = 256, COMMITS_MAX = 1000000 };

struct commit {
    int64_t id, at_ns;
};

struct producer {
    pthread_t thread;
    PGconn *conn;
    const char *statement;
    int64_t until_ns;
    unsigned open_us_max, seed;
    struct commit *commits;
    size_t n;
    bool failed;
};

static bool run(struct producer *p, const char *sql, int64_t *ret_id)
{
    PGresult *r = PQexec(p->conn, sql);
    bool ok = PQresultStatus(r) == (ret_id ? PGRES_TUPLES_OK : PGRES_COMMAND_OK);
    if (ok && ret_id) {
        *ret_id = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    }
    PQclear(r);
    if (!ok) {
        (void)fail(sql, PQerrorMessage(p->conn));
    }
    return ok;
}

static void stay_open(struct producer *p)
{
    if (p->open_us_max > 0) {
        int64_t ns = (int64_t)((unsigned)rand_r(&p->seed) % p->open_us_max) * 1000;
        struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        (void)nanosleep(&pause, NULL);
    }
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    while (!p->failed && p->n < COMMITS_MAX && now_ns(CLOCK_REALTIME) < p->until_ns) {
        struct commit *c = &p->commits[p->n];
        p->failed = !run(p, "BEGIN", NULL) || !run(p, p->statement, &c->id);
        if (!p->failed) {
            stay_open(p);
            p->failed = !run(p, "COMMIT", NULL);
            c->at_ns = now_ns(CLOCK_REALTIME);
            p->n += !p->failed;
        }
    }
    return NULL;
}

static int write_all(struct producer *producers, int n)
{
    int failed = 0;
    for (int i = 0; i < n; i++) {
        struct producer *p = &producers[i];
        (void)pthread_join(p->thread, NULL);
        for (size_t k = 0; k < p->n; k++) {
            (void)printf("%" PRId64 " %" PRId64 "\n", p->commits[k].id, p->commits[k].at_ns);
        }
        failed |= p->failed;
        PQfinish(p->conn);
        free(p->commits);
    }
    return failed;
}

int main(int argc, char **argv)
{
    static struct producer producers[PRODUCERS_MAX];
    int n = argc == 5 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (n < 1 || n > PRODUCERS_MAX) {
        return fail("usage", "open_transactions PRODUCERS SECONDS OPEN_MS_MAX STATEMENT");
    }
    for (int i = 0; i < n; i++) {
        struct producer *p = &producers[i];
        *p = (struct producer){.conn = PQconnectdb(getenv("DATABASE_URL")),
                               .statement = argv[4],
                               .open_us_max = (unsigned)strtoul(argv[3], NULL, 10) * 1000,
                               .seed = (unsigned)i,
                               .commits = calloc(COMMITS_MAX, sizeof *p->commits)};
        if (PQstatus(p->conn) != CONNECTION_OK || !p->commits) {
            return fail("could not start", PQerrorMessage(p->conn));
        }
    }
    int64_t until_ns = now_ns(CLOCK_REALTIME) + (int64_t)(strtod(argv[2], NULL) * 1e9);
    for (int i = 0; i < n; i++) {
        producers[i].until_ns = until_ns;
        if (pthread_create(&producers[i].thread, NULL, produce, &producers[i]) != 0) {
            return fail("could not start", "no thread");
        }
    }
    return write_all(producers, n);
}
