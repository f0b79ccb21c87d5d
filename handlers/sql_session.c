#include "handlers/sql_session.h"

#include "core/sqlstate.h"
#include "handlers/statements.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT_BYTES_MAX = 1024, NAME_BYTES = 16 };

/* --- open --- */

static bool fault_of(PGconn *conn, const PGresult *result, struct fault *f)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    enum fault_code code = state && !sqlstate_is(state, "08 53 57P") ? FAULT_CONFIG : FAULT_RETRY;
    return fault_set(f, code, "%s", PQerrorMessage(conn));
}

static PGconn *connect_to(const char *url)
{
    char limit_s[12];
    (void)snprintf(limit_s, sizeof limit_s, "%d", SQL_CONNECT_LIMIT_S);
    const char *const names[] = {"connect_timeout", "fallback_application_name", "tcp_user_timeout",
                                 "dbname",          "client_encoding",           NULL};
    const char *const values[] = {limit_s, "tenon-sql", "20000", url, "UTF8", NULL};
    return PQconnectdbParams(names, values, 1);
}

/* One statement is one transaction: the function's effects and the task's end commit together.
 * The name comes from the server, quoted. Why it is spliced: a name can be no parameter. */
static void put_statement(struct buf *b, const char *name, bool is_void)
{
    if (is_void) {
        buf_printf(b,
                   "WITH ran AS MATERIALIZED (SELECT %s($2::pg_catalog.jsonb))"
                   " SELECT tenon.finish($1) FROM ran",
                   name);
    } else {
        buf_printf(b, "SELECT tenon.finish($1, pg_catalog.to_jsonb(%s($2::pg_catalog.jsonb)))",
                   name);
    }
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static bool prepare(PGconn *conn, const char *name, const char *text, struct fault *f)
{
    PGresult *result = PQprepare(conn, name, text, 0, NULL);
    bool ok = is_good(result) || fault_of(conn, result, f);
    PQclear(result);
    return ok;
}

static bool prepare_function(PGconn *conn, const char *function, int number, struct fault *f)
{
    struct buf text;
    char name[NAME_BYTES];
    PGresult *found = PQexecParams(conn, sql_function.text, 1, NULL, &function, NULL, NULL, 0);
    bool ok = is_good(found) || fault_of(conn, found, f);
    if (ok && PQntuples(found) == 0) {
        ok = fault_set(f, FAULT_CONFIG, "it is an aggregate, a procedure, or returns a set");
    }
    buf_init(&text, STATEMENT_BYTES_MAX);
    if (ok) {
        put_statement(&text, PQgetvalue(found, 0, 0), *PQgetvalue(found, 0, 1) == 't');
        (void)snprintf(name, sizeof name, "f%d", number);
        ok = prepare(conn, name, buf_text(&text), f);
    }
    buf_clear(&text);
    PQclear(found);
    return ok || fault_add(f, "could not prepare %.200s(jsonb)", function);
}

bool sql_session_open(struct sql_session *s, const struct sql_settings *settings, struct fault *f)
{
    const char *url = getenv("DATABASE_URL");
    *s = (struct sql_session){.conn = connect_to(url ? url : "")};
    if (PQstatus(s->conn) != CONNECTION_OK) {
        (void)fault_of(s->conn, NULL, f);
        return fault_add(f, "could not connect to PostgreSQL");
    }
    bool ok = prepare(s->conn, "limit",
                      "SELECT pg_catalog.set_config('statement_timeout', $1, false)", f);
    for (int i = 0; ok && i < settings->n_functions; i++) {
        ok = prepare_function(s->conn, settings->functions[i].name, i, f);
    }
    return ok && ((PQsetnonblocking(s->conn, 1) == 0 && PQenterPipelineMode(s->conn) == 1) ||
                  fault_of(s->conn, NULL, f));
}

void sql_session_close(struct sql_session *s)
{
    PQfinish(s->conn);
    pool_task_clear(&s->task);
    s->conn = NULL;
}

int sql_session_fd(const struct sql_session *s)
{
    return PQsocket(s->conn);
}

/* --- a task --- */

static void keep_error(struct sql_session *s, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    struct sql_error error = {
        .sqlstate = state ? state : SQLSTATE_LOST,
        .message = message ? message : PQresultErrorMessage(result),
        .detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL),
        .context = PQresultErrorField(result, PG_DIAG_CONTEXT),
    };
    if (!s->failed) {
        sql_verdict_of(&error, &s->verdict);
    }
    s->failed = true;
}

/* The commit is the answer to the sync: what comes before may still fail with it. */
static void answer(struct sql_session *s, struct pool *p)
{
    if (s->failed) {
        pool_answer(p, s->task.id, &s->verdict.answer);
    } else {
        pool_done(p, s->task.id, NULL, 0, NULL); /* the result is in the row already */
    }
    pool_task_clear(&s->task);
    s->busy = false;
}

static void take_results(struct sql_session *s, struct pool *p)
{
    while (s->busy && PQstatus(s->conn) == CONNECTION_OK && !PQisBusy(s->conn)) {
        PGresult *result = PQgetResult(s->conn);
        ExecStatusType status = PQresultStatus(result);
        if (result && status != PGRES_PIPELINE_SYNC && status != PGRES_PIPELINE_ABORTED &&
            !is_good(result)) {
            keep_error(s, result);
        }
        PQclear(result);
        if (result && status == PGRES_PIPELINE_SYNC) {
            answer(s, p);
        }
    }
}

/* Whether it has committed is unknown, and need not be known: if it has, the task has ended, and
 * this answer, whose claim is not valid any more, changes nothing. */
static void answer_lost(struct sql_session *s, struct pool *p)
{
    struct sql_error lost = {.sqlstate = SQLSTATE_LOST, .message = PQerrorMessage(s->conn)};
    if (!s->failed) {
        sql_verdict_of(&lost, &s->verdict);
    }
    s->failed = true;
    answer(s, p);
}

/* Both in one pipeline: the limit is in force when the function's statement begins. */
bool sql_session_begin(struct sql_session *s, struct pool_task *task, int function, struct pool *p)
{
    int64_t margin_ms = task->timeout_ms / 10;
    char limit_ms[24], name[NAME_BYTES];
    s->task = *task;
    *task = (struct pool_task){.line = NULL};
    margin_ms = margin_ms < SQL_MARGIN_MS ? margin_ms : SQL_MARGIN_MS;
    (void)snprintf(limit_ms, sizeof limit_ms, "%lld", (long long)(s->task.timeout_ms - margin_ms));
    (void)snprintf(name, sizeof name, "f%d", function);
    const char *const limit[] = {limit_ms};
    const char *const run[] = {s->task.claim, s->task.payload};
    s->busy = true;
    s->failed = false;
    bool ok = PQsendQueryPrepared(s->conn, "limit", 1, limit, NULL, NULL, 0) &&
              PQsendQueryPrepared(s->conn, name, 2, run, NULL, NULL, 0) && PQpipelineSync(s->conn);
    if (ok) {
        s->sending = PQflush(s->conn) == 1;
    } else {
        answer_lost(s, p);
    }
    return ok;
}

bool sql_session_go_on(struct sql_session *s, struct pool *p)
{
    if (s->sending) {
        s->sending = PQflush(s->conn) == 1;
    }
    bool ok = PQconsumeInput(s->conn) == 1;
    take_results(s, p);
    ok = ok && PQstatus(s->conn) == CONNECTION_OK;
    if (!ok && s->busy) {
        answer_lost(s, p);
    }
    return ok;
}

void sql_session_cancel(struct sql_session *s)
{
    char error[256];
    PGcancel *cancel = PQgetCancel(s->conn);
    (void)(cancel && PQcancel(cancel, error, sizeof error));
    PQfreeCancel(cancel);
}
