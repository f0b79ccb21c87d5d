#include "tests/support/flow.h"

#include "core/base/now.h"

#include "include/tenon/tenon.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    POLL_MS = 5,
    PAUSE_MS = 8,
    TRICKLE_MS = 100,
    ROLLED_BACK_EVERY = 8,
    MIX = 5,
    TEXT_BYTES = 256
};

struct producer {
    struct flow *flow;
    const struct flow_settings *settings;
    PGconn *conn;
    tenon *tenon; /* NULL: plain SQL */
    int n;
};

void flow_tables(struct fixture *fx)
{
    test_sql(fx, "CREATE TABLE public.placed (task bigint PRIMARY KEY, finish boolean NOT NULL, "
                 "later boolean NOT NULL); CREATE TABLE public.effect (task bigint NOT NULL)");
}

/* --- a producer's process: no cmocka here --- */

static bool execute(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        (void)fprintf(stderr, "%s: %s", text, PQerrorMessage(conn));
    }
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static const char *payload_of(const struct producer *p, char text[TEXT_BYTES])
{
    if (strcmp(p->settings->kind, "a") != 0) {
        return "{}";
    }
    const char *what = p->n % MIX == 0   ? "\"finish\", \"ms\": 20"
                       : p->n % MIX == 1 ? "\"once later\", \"delay_ms\": 10"
                                         : "\"sleep\", \"ms\": 20";
    (void)snprintf(text, TEXT_BYTES, "{\"do\": %s, \"again_ms\": %d}", what,
                   p->n % MIX == 1 ? 0 : p->settings->again_ms);
    return text;
}

static const char *kinds_of(const struct producer *p)
{
    bool mixed = strcmp(p->settings->kind, "a") == 0;
    return mixed && p->n % MIX == 0   ? "true, false"
           : mixed && p->n % MIX == 1 ? "false, true"
                                      : "false, false";
}

static bool place(struct producer *p)
{
    char text[2 * TEXT_BYTES], payload[TEXT_BYTES];
    int64_t id = 0;
    if (!p->tenon) {
        (void)snprintf(text, sizeof text,
                       "INSERT INTO public.placed SELECT tenon.enqueue('%s', '%s', timeout => "
                       "make_interval(secs => nullif(%d, 0) / 1000.0)), %s",
                       p->settings->kind, payload_of(p, payload), p->settings->timeout_ms,
                       kinds_of(p));
        return execute(p->conn, text);
    }
    tenon_task task = TENON_TASK_INIT;
    task.kind = p->settings->kind;
    task.payload = payload_of(p, payload);
    task.timeout_ms = p->settings->timeout_ms;
    if (tenon_enqueue(p->tenon, p->conn, &task, &id) != TENON_OK) {
        (void)fprintf(stderr, "tenon_enqueue: %s\n", tenon_errmsg());
        return false;
    }
    (void)snprintf(text, sizeof text, "INSERT INTO public.placed VALUES (%lld, %s)", (long long)id,
                   kinds_of(p));
    return execute(p->conn, text);
}

static bool transact(struct producer *p)
{
    bool commit = ++p->n % ROLLED_BACK_EVERY != 0;
    if (!execute(p->conn, "BEGIN") || !place(p)) {
        return false;
    }
    if (!p->tenon) {
        return execute(p->conn, commit ? "COMMIT" : "ROLLBACK");
    }
    return (commit ? tenon_commit(p->tenon, p->conn) : tenon_rollback(p->tenon, p->conn)) ==
           TENON_OK;
}

static _Noreturn void producer_main(struct producer *p, const struct fixture *fx)
{
    bool ok = true;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    p->conn = PQconnectdb(fx->database_url);
    while (ok && !*p->flow->stop) {
        ok = transact(p);
        (void)poll(NULL, 0, p->n < FLOW_BURST ? PAUSE_MS : TRICKLE_MS);
    }
    if (p->tenon) {
        (void)tenon_flush(p->tenon, 1000);
    }
    tenon_free(p->tenon);
    PQfinish(p->conn);
    _exit(ok ? 0 : 1);
}

static _Noreturn void libtenon_main(struct producer *p, const struct fixture *fx)
{
    for (const char *const *env = p->settings->env; env && *env; env++) {
        (void)putenv((char *)(uintptr_t)*env);
    }
    p->tenon = tenon_new(fx->amqp_url);
    producer_main(p, fx);
}

/* --- the test's side --- */

void flow_start(struct flow *f, struct fixture *fx, const struct flow_settings *settings)
{
    *f = (struct flow){.stop = mmap(NULL, sizeof *f->stop, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true((void *)f->stop != MAP_FAILED);
    for (int i = 0; i < FLOW_PRODUCERS; i++) {
        struct producer p = {.flow = f, .settings = settings};
        f->pids[i] = fork();
        assert_true(f->pids[i] >= 0);
        if (f->pids[i] == 0 && i == FLOW_LIBTENON) {
            libtenon_main(&p, fx);
        } else if (f->pids[i] == 0) {
            producer_main(&p, fx);
        }
    }
}

void flow_stop(struct flow *f)
{
    *f->stop = true;
}

static bool is_gone(struct flow *f, int producer)
{
    int status;
    if (!f->gone[producer] && waitpid(f->pids[producer], &status, WNOHANG) == f->pids[producer]) {
        f->gone[producer] = true;
        f->status[producer] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return f->gone[producer];
}

void flow_await_end(struct flow *f, int producer, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (!is_gone(f, producer)) {
        if (now_ms() > deadline_ms) {
            fail_msg("producer %d does not end within %lld ms", producer, (long long)limit_ms);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

void flow_clear(struct flow *f)
{
    for (int i = 0; f->stop && i < FLOW_PRODUCERS; i++) {
        if (!is_gone(f, i)) {
            (void)kill(f->pids[i], SIGKILL);
            (void)waitpid(f->pids[i], NULL, 0);
        }
    }
    if (f->stop) {
        (void)munmap((void *)f->stop, sizeof *f->stop);
    }
    *f = (struct flow){0};
}
