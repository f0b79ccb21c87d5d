#include "tests/support/stepper.h"

#include "core/base/now.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

enum { ANSWER_MS = 2, LIMIT_MS = 20000 };

void stepper_open(struct stepper *s, const char *url, int lock_timeout_ms)
{
    *s = (struct stepper){.conn = sql_connect(url)};
    s->pid = PQbackendPID(s->conn);
    s->gives_up = lock_timeout_ms > 0;
    sql_run(s->conn,
            "SET timezone = 'UTC'; SET search_path = pg_catalog; SET deadlock_timeout = 20;"
            " SET lock_timeout = %d; SET enable_seqscan = off; SET enable_bitmapscan = off;"
            " SET enable_hashjoin = off; SET enable_mergejoin = off;"
            " SET plan_cache_mode = force_generic_plan; SET jit = off",
            lock_timeout_ms);
}

void stepper_close(struct stepper *s)
{
    PQclear(s->result);
    PQfinish(s->conn);
    *s = (struct stepper){0};
}

void stepper_send(struct stepper *s, const char *text)
{
    if (!PQsendQuery(s->conn, text)) {
        fail_msg("could not send %s: %s", text, PQerrorMessage(s->conn));
    }
    s->busy = true;
}

void stepper_prepare(struct stepper *s, const struct statement *st)
{
    for (size_t i = 0; i < s->n_prepared; i++) {
        if (s->prepared[i] == st) {
            return;
        }
    }
    PGresult *result = PQprepare(s->conn, st->name, st->text, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s.sql: %s", st->name, PQresultErrorMessage(result));
    }
    PQclear(result);
    assert_true(s->n_prepared < STEPPER_PREPARED_MAX);
    s->prepared[s->n_prepared++] = st;
}

void stepper_send_prepared(struct stepper *s, const struct statement *st, const char *const *params,
                           int n)
{
    stepper_prepare(s, st);
    if (!PQsendQueryPrepared(s->conn, st->name, n, params, NULL, NULL, 0)) {
        fail_msg("could not send %s.sql: %s", st->name, PQerrorMessage(s->conn));
    }
    s->busy = true;
}

static bool answered(struct stepper *s, int wait_ms)
{
    struct pollfd pfd = {.fd = PQsocket(s->conn), .events = POLLIN};
    while (PQisBusy(s->conn)) {
        if (poll(&pfd, 1, wait_ms) == 0) {
            return false;
        }
        (void)PQconsumeInput(s->conn);
    }
    return true;
}

static void take(struct stepper *s)
{
    PQclear(s->result);
    s->result = NULL;
    for (PGresult *next; (next = PQgetResult(s->conn));) {
        PQclear(s->result);
        s->result = next;
    }
    s->busy = false;
}

bool stepper_settle(struct stepper *s, PGconn *watch)
{
    int64_t deadline_ms = patience_end_ms(LIMIT_MS);
    while (!answered(s, ANSWER_MS)) {
        if (!s->gives_up &&
            sql_bool(
                watch,
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND pid = ANY (pg_blocking_pids(%d)))", /* autovacuum goes away by itself */
                s->pid)) {
            return false;
        }
        if (now_ms() > deadline_ms) {
            fail_msg("a statement is neither answered nor does it wait for a lock");
        }
    }
    take(s);
    return true;
}

void stepper_await(struct stepper *s)
{
    if (!answered(s, LIMIT_MS * PATIENCE)) {
        fail_msg("a statement is not answered within %d ms", LIMIT_MS);
    }
    take(s);
}

const char *stepper_state(const struct stepper *s)
{
    const char *state = PQresultErrorField(s->result, PG_DIAG_SQLSTATE);
    return state ? state : "";
}

/* The server closes the socket when the backend has ended and its locks are free. */
void stepper_kill(struct stepper *s, PGconn *watch)
{
    char data[4096];
    int64_t deadline_ms = patience_end_ms(LIMIT_MS);
    struct pollfd pfd = {.fd = PQsocket(s->conn), .events = POLLIN};
    sql_run(watch, "SELECT pg_terminate_backend(%d)", s->pid);
    for (;;) {
        ssize_t n = recv(pfd.fd, data, sizeof data, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            break;
        }
        if (now_ms() > deadline_ms) {
            fail_msg("a backend that was terminated does not end");
        }
        (void)poll(&pfd, 1, ANSWER_MS);
    }
    stepper_close(s);
}
