#include "tests/support/load.h"

#include "core/base/now.h"
#include "tests/support/journal.h"

#include "include/tenon/tenon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 5, RUNNING_LIMIT_MS = 20000, STOP_LIMIT_MS = 40000, ROLLED_BACK_EVERY = 10 };

struct producer {
    struct load_shared *shared;
    const char *database_url;
    PGconn *conn;
    tenon *tenon; /* NULL: plain SQL */
    int number;
    unsigned n;
};

bool load_is_long(void)
{
    const char *value = getenv("TEST_LONG");
    return value && *value;
}

int64_t load_now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* --- a producer's process: no cmocka here --- */

static bool execute(struct producer *p, const char *text)
{
    PGresult *result = PQexec(p->conn, text);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool place(struct producer *p)
{
    char text[256], payload[64];
    int64_t id = 0;
    (void)snprintf(payload, sizeof payload, "{\"do\": \"sleep\", \"ms\": %d}",
                   20 + (int)now_jitter(31));
    if (!p->tenon) {
        (void)snprintf(text, sizeof text,
                       "INSERT INTO public.placed SELECT tenon.enqueue('a', '%s')", payload);
        return execute(p, text);
    }
    tenon_task task = TENON_TASK_INIT;
    task.kind = "a";
    task.payload = payload;
    if (tenon_enqueue(p->tenon, p->conn, &task, &id) != TENON_OK) {
        return false;
    }
    (void)snprintf(text, sizeof text, "INSERT INTO public.placed VALUES (%lld)", (long long)id);
    return execute(p, text);
}

static bool finish(struct producer *p, bool commit)
{
    if (!p->tenon) {
        return execute(p, commit ? "COMMIT" : "ROLLBACK");
    }
    return (commit ? tenon_commit(p->tenon, p->conn) : tenon_rollback(p->tenon, p->conn)) ==
           TENON_OK;
}

static bool transact(struct producer *p)
{
    bool commit = ++p->n % ROLLED_BACK_EVERY != 0;
    if (execute(p, "BEGIN") && place(p) && finish(p, commit)) {
        p->shared->commits += commit;
        return true;
    }
    return false;
}

static void reconnect(struct producer *p)
{
    const char *const keywords[] = {"dbname", "connect_timeout", "options", NULL};
    const char *const values[] = {p->database_url, "2", "-c statement_timeout=20s", NULL};
    if (p->tenon) {
        tenon_forget(p->tenon, p->conn);
    }
    PQfinish(p->conn);
    p->conn = PQconnectdbParams(keywords, values, 1);
}

static void measured(struct producer *p)
{
    int64_t start_us = now_us();
    if (!transact(p)) {
        p->shared->failures++;
        reconnect(p);
        return; /* how long a lost connection takes is libpq's affair */
    }
    int64_t took_us = now_us() - start_us;
    if (took_us > p->shared->slowest_us[p->number]) {
        p->shared->slowest_us[p->number] = took_us;
    }
}

static _Noreturn void producer_main(struct producer *p, const char *amqp_url, int per_s)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    p->tenon = p->number % 2 == 0 ? NULL : tenon_new(amqp_url);
    reconnect(p);
    while (!p->shared->stop) {
        measured(p);
        (void)poll(NULL, 0, (int)(500 / per_s + (int)now_jitter((uint64_t)(1000 / per_s) + 1)));
    }
    tenon_free(p->tenon);
    PQfinish(p->conn);
    _exit(0);
}

/* --- the test's side --- */

void load_start(struct load *l, struct fixture *fx, const char *amqp_url, int per_s)
{
    test_sql(fx, "CREATE TABLE IF NOT EXISTS public.placed (task bigint PRIMARY KEY)");
    l->shared = mmap(NULL, sizeof *l->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    assert_true(l->shared != MAP_FAILED);
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        struct producer p = {.shared = l->shared, .database_url = fx->database_url, .number = i};
        l->pids[i] = fork();
        if (l->pids[i] == 0) {
            producer_main(&p, amqp_url, per_s);
        }
        assert_true(l->pids[i] > 0);
    }
}

void load_stop(struct load *l)
{
    int64_t deadline_ms = patience_end_ms(STOP_LIMIT_MS);
    l->shared->stop = true;
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        int status = -1;
        while (waitpid(l->pids[i], &status, WNOHANG) == 0) {
            if (now_ms() > deadline_ms) {
                fail_msg("producer %d does not end within %d ms", i, STOP_LIMIT_MS);
            }
            (void)poll(NULL, 0, POLL_MS);
        }
        assert_int_equal(status, 0);
    }
}

/* The journal as a table beside the application's own. */
static void load_runs(struct fixture *fx)
{
    struct journal j;
    char *ids = NULL, *ended = NULL;
    size_t n_ids = 0, n_ended = 0;
    journal_read(fx, &j);
    FILE *id_text = open_memstream(&ids, &n_ids), *ended_text = open_memstream(&ended, &n_ended);
    for (size_t i = 0; i < j.n; i++) {
        (void)fprintf(id_text, "%s%lld", i ? "," : "", (long long)j.runs[i].id);
        (void)fprintf(ended_text, "%s%c", i ? "," : "", j.runs[i].end_ns ? 't' : 'f');
    }
    (void)fclose(id_text);
    (void)fclose(ended_text);
    test_sql(fx,
             "CREATE TABLE IF NOT EXISTS public.run (task bigint, ended boolean);"
             "TRUNCATE public.run;"
             "INSERT INTO public.run SELECT * FROM unnest('{%s}'::bigint[], '{%s}'::boolean[])",
             ids, ended);
    free(ids);
    free(ended);
    journal_clear(&j);
}

static void print_doubled(struct fixture *fx)
{
    char *text = test_sql_text(fx, "SELECT string_agg(task::text, ' ') FROM (SELECT task FROM "
                                   "public.run GROUP BY 1 HAVING count(*) > 1 LIMIT 20) t");
    print_error("run twice: %s\n", text);
    free(text);
}

void load_check(struct fixture *fx, int64_t limit_ms, int64_t doubled_max, struct load_counts *ret)
{
    int64_t last = test_sql_int(fx, "SELECT max(task) FROM public.placed");
    test_await(fx, limit_ms,
               "SELECT count(*) = 0, count(*), min(id), max(last_error) FROM tenon.task "
               "WHERE id <= %lld",
               (long long)last);
    load_runs(fx);
    *ret = (struct load_counts){
        .placed = test_sql_int(fx, "SELECT count(*) FROM public.placed"),
        .lost = test_sql_int(fx,
                             "SELECT count(*) FROM public.placed p WHERE task <= %lld AND NOT "
                             "EXISTS (SELECT FROM public.run r WHERE r.task = p.task AND r.ended)",
                             (long long)last),
        .phantom = test_sql_int(fx, "SELECT count(*) FROM public.run r WHERE NOT EXISTS "
                                    "(SELECT FROM public.placed p WHERE p.task = r.task)"),
        .doubled = test_sql_int(fx, "SELECT count(*) FROM (SELECT FROM public.run GROUP BY task "
                                    "HAVING count(*) > 1) t"),
    };
    assert_true(ret->placed > 0);
    assert_int_equal(ret->lost, 0);
    assert_int_equal(ret->phantom, 0);
    if (ret->doubled > doubled_max) {
        print_doubled(fx);
    }
    assert_in_range(ret->doubled, 0, doubled_max);
}

static int64_t running(const struct fixture *fx)
{
    struct journal j;
    int64_t n = 0;
    journal_read(fx, &j);
    for (size_t i = 0; i < j.n; i++) {
        n += j.runs[i].end_ns == 0;
    }
    journal_clear(&j);
    return n;
}

void load_await_running(struct fixture *fx, int64_t n)
{
    int64_t deadline_ms = patience_end_ms(RUNNING_LIMIT_MS);
    while (running(fx) < n) {
        if (now_ms() > deadline_ms) {
            fail_msg("%lld handlers never ran at once", (long long)n);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

int64_t load_await_start(struct fixture *fx, int64_t since_ns, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    for (;;) {
        struct journal j;
        int64_t first_ns = 0;
        journal_read(fx, &j);
        for (size_t i = 0; i < j.n && !first_ns; i++) {
            first_ns = j.runs[i].start_ns > since_ns ? j.runs[i].start_ns : 0;
        }
        journal_clear(&j);
        if (first_ns) {
            return (first_ns - since_ns) / 1000000;
        }
        if (now_ms() > deadline_ms) {
            fail_msg("no task started within %lld ms", (long long)limit_ms);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}
