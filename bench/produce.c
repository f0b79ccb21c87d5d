/* Producers that enqueue as fast as they can through libtenon: one process with one handle, a
 * thread and a connection per producer. A transaction is one call, which commits by itself.
 *
 *     produce PRODUCERS SECONDS TASKS_MAX BATCH [begin]
 *
 *   SECONDS    how long; 0 = until each producer has enqueued TASKS_MAX / PRODUCERS tasks
 *   BATCH      tasks per transaction: 1 = tenon_enqueue(), more = tenon_enqueue_many()
 *   begin      a transaction is BEGIN, the call and COMMIT
 *
 * Every task has a small payload. Writes "<tasks> <seconds>" to stdout; the seconds end when all is
 * committed, while some wake-ups may still be on their way. DATABASE_URL and AMQP_URL come from the
 * environment. */
#include "bench/common.h"

#include <tenon/tenon.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCERS_MAX = 256, PAYLOAD_BYTES = 32 };

struct producer {
    pthread_t thread;
    PGconn *conn;
    tenon *t;
    int64_t until_ns, tasks_max, tasks;
    size_t batch;
    bool begins;
    int failed;
};

static const char *payloads[TENON_BATCH_MAX];

static int enqueue_once(struct producer *p)
{
    tenon_task task = TENON_TASK_INIT;
    int64_t id;
    task.kind = "noop";
    task.payload = payloads[0];
    if (p->begins && begin_transaction(p->conn) != 0) {
        return 1;
    }
    int code = p->batch == 1
                   ? tenon_enqueue(p->t, p->conn, &task, &id)
                   : tenon_enqueue_many(p->t, p->conn, &task, payloads, NULL, p->batch, NULL);
    if (code == TENON_OK && p->begins) {
        code = tenon_commit(p->t, p->conn);
    }
    if (code != TENON_OK) {
        return fail("could not enqueue", tenon_errmsg());
    }
    p->tasks += (int64_t)p->batch;
    return 0;
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    while (!p->failed && p->tasks < p->tasks_max &&
           (!p->until_ns || now_ns(CLOCK_MONOTONIC) < p->until_ns)) {
        p->failed = enqueue_once(p);
    }
    return NULL;
}

/* {"i":0}, {"i":1} and so on, for the tasks of one transaction. */
static void make_payloads(void)
{
    static char texts[TENON_BATCH_MAX][PAYLOAD_BYTES];
    for (int i = 0; i < TENON_BATCH_MAX; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "{\"i\":%d}", i);
        payloads[i] = texts[i];
    }
}

static int connect_all(tenon *t, struct producer *producers, int n)
{
    for (int i = 0; i < n; i++) {
        producers[i].conn = PQconnectdb(getenv("DATABASE_URL"));
        if (PQstatus(producers[i].conn) != CONNECTION_OK) {
            return fail("could not connect", PQerrorMessage(producers[i].conn));
        }
        if (tenon_prepare_statement(t, producers[i].conn) != TENON_OK) {
            return fail("could not prepare", tenon_errmsg());
        }
    }
    return 0;
}

static int run_all(struct producer *producers, int n, int64_t start_ns)
{
    int64_t tasks = 0;
    int failed = 0;
    for (int i = 0; i < n; i++) {
        if (pthread_create(&producers[i].thread, NULL, produce, &producers[i]) != 0) {
            return fail("could not start", "no thread");
        }
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(producers[i].thread, NULL);
        tasks += producers[i].tasks;
        failed |= producers[i].failed;
    }
    (void)printf("%" PRId64 " %.3f\n", tasks, (double)(now_ns(CLOCK_MONOTONIC) - start_ns) / 1e9);
    return failed;
}

int main(int argc, char **argv)
{
    static struct producer producers[PRODUCERS_MAX];
    bool begins = argc == 6 && strcmp(argv[5], "begin") == 0;
    int n = argc == 5 || begins ? (int)strtol(argv[1], NULL, 10) : 0;
    if (n < 1 || n > PRODUCERS_MAX) {
        return fail("usage", "produce PRODUCERS SECONDS TASKS_MAX BATCH [begin]");
    }
    double seconds = strtod(argv[2], NULL);
    int64_t tasks_max = strtoll(argv[3], NULL, 10) / n;
    size_t batch = (size_t)strtoll(argv[4], NULL, 10);
    tenon *t = tenon_new(NULL);
    if (!t) {
        return fail("could not start", tenon_errmsg());
    }
    if (connect_all(t, producers, n) != 0) {
        return 1;
    }
    make_payloads();
    int64_t start_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < n; i++) {
        producers[i].t = t;
        producers[i].until_ns = seconds > 0 ? start_ns + (int64_t)(seconds * 1e9) : 0;
        producers[i].tasks_max = seconds > 0 ? INT64_MAX : tasks_max;
        producers[i].batch = batch;
        producers[i].begins = begins;
    }
    int failed = run_all(producers, n, start_ns);
    tenon_free(t);
    for (int i = 0; i < n; i++) {
        PQfinish(producers[i].conn);
    }
    return failed;
}
