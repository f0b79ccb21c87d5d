/* Why this is no `struct db`: the functions are the user's, so a session must have the settings of
 * the role and the database (db_open() pins its own); and one thread serves many sessions, so
 * nothing here waits for an answer as db_batch() does. They share how to log in. */
#include "handlers/sql_session.h"

#include "core/base/array.h"
#include "core/base/thread.h"
#include "core/db/db_login.h"
#include "core/db/db_where.h"
#include "core/db/sqlstate.h"
#include "handlers/statements.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

enum { STATEMENT_BYTES_MAX = 1024, NAME_BYTES = 16, ARRAY_BYTES_MAX = 1 << 30 };

/* --- open --- */

static bool fault_of(PGconn *conn, const PGresult *result, struct fault *f)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    enum fault_code code = state && !sqlstate_is(state, "08 53 57P") ? FAULT_CONFIG : FAULT_RETRY;
    return fault_set(f, code, "%s", PQerrorMessage(conn));
}

/* The function's effects and the tasks' ends are one statement: they commit together, and it fails
 * when a claim is no longer valid. The name comes from the server, quoted. Why it is spliced: a
 * name can be no parameter. (unnest() of several is always that of pg_catalog.) */
static void put_statement(struct buf *b, const char *name, bool is_void)
{
    buf_printf(b,
               "WITH ran AS MATERIALIZED ("
               "SELECT given.claim, %s%s(given.payload)%s AS result"
               " FROM unnest($1::pg_catalog.text[], $2::pg_catalog.jsonb[])"
               " AS given (claim, payload))"
               " SELECT tenon.finish_many(pg_catalog.array_agg(ran.claim)%s) FROM ran",
               is_void ? "" : "pg_catalog.to_jsonb(", name, is_void ? "" : ")",
               is_void ? "" : ", pg_catalog.array_agg(ran.result)");
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
    *s = (struct sql_session){.limit_ms = -1, .cancel_fd = -1};
    if (!where_url_check(url, f)) {
        return false;
    }
    if (!login_open(url, false, "tenon-sql", &s->conn, f)) {
        return false;
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
    struct sql_work *w, *next;
    PQfinish(s->conn);
    s->conn = NULL;
    sql_session_cancelled(s);
    DL_FOREACH_SAFE(s->batch, w, next)
    {
        sql_work_free(w);
    }
    s->batch = NULL;
}

void sql_work_free(struct sql_work *w)
{
    pool_task_clear(&w->task);
    free(w);
}

int sql_session_fd(const struct sql_session *s)
{
    return PQsocket(s->conn);
}

/* --- a batch --- */

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
static void take_results(struct sql_session *s)
{
    while (s->batch && !s->over && PQstatus(s->conn) == CONNECTION_OK && !PQisBusy(s->conn)) {
        PGresult *result = PQgetResult(s->conn);
        ExecStatusType status = PQresultStatus(result);
        if (result && status != PGRES_PIPELINE_SYNC && status != PGRES_PIPELINE_ABORTED &&
            !is_good(result)) {
            keep_error(s, result);
        }
        PQclear(result);
        s->over = result && status == PGRES_PIPELINE_SYNC;
    }
}

/* Whether it has committed is unknown, and need not be known: if it has, its tasks have ended, and
 * their answers, whose claims are no longer valid, change nothing. */
static void lose(struct sql_session *s, const char *why)
{
    struct sql_error lost = {.sqlstate = SQLSTATE_LOST, .message = why};
    if (!s->failed) {
        sql_verdict_of(&lost, &s->verdict);
    }
    s->failed = s->lost = s->over = true;
}

/* What is left of a task's time, less a margin in which it can be answered. How long it has waited
 * is taken in steps, so that tasks of one timeout need not set it one by one. */
static int64_t limit_of(const struct sql_work *w, int64_t now_ms)
{
    int64_t margin_ms = w->task.timeout_ms / 10;
    margin_ms = margin_ms < SQL_MARGIN_MS ? margin_ms : SQL_MARGIN_MS;
    int64_t step_ms = margin_ms / 2 > 1 ? margin_ms / 2 : 1;
    int64_t waited_ms = (now_ms - w->came_ms) / step_ms * step_ms;
    int64_t limit_ms = w->task.timeout_ms - margin_ms - waited_ms;
    return limit_ms > 1 ? limit_ms : 1;
}

/* Tasks that wait behind a slow one of their batch are not to wait for long. It is the server that
 * ends it: to ask for that takes a connection of its own, which may never be answered. */
static int64_t limit_of_batch(const struct sql_session *s)
{
    const struct sql_work *w;
    int64_t limit_ms = s->batch->next ? SQL_BATCH_MS_MAX
                                      : INT_MAX; /* the greatest that PostgreSQL takes */
    DL_FOREACH(s->batch, w)
    {
        int64_t own_ms = limit_of(w, s->begun_ms);
        limit_ms = own_ms < limit_ms ? own_ms : limit_ms;
    }
    return limit_ms;
}

/* A limit is in force when the next statement begins. */
static bool send_limit(struct sql_session *s, int64_t limit_ms)
{
    char text[24];
    const char *const params[] = {text};
    if (limit_ms == s->limit_ms) {
        return true;
    }
    s->limit_ms = limit_ms;
    (void)snprintf(text, sizeof text, "%lld", (long long)limit_ms);
    return PQsendQueryPrepared(s->conn, "limit", 1, params, NULL, NULL, 0) == 1;
}

static bool send_batch(struct sql_session *s)
{
    const struct sql_work *w;
    struct buf claims, payloads;
    char name[NAME_BYTES];
    buf_init(&claims, ARRAY_BYTES_MAX);
    buf_init(&payloads, ARRAY_BYTES_MAX);
    array_begin(&claims);
    array_begin(&payloads);
    DL_FOREACH(s->batch, w)
    {
        array_put_text(&claims, w->task.claim);
        array_put_text(&payloads, w->task.payload);
    }
    const char *const params[] = {array_end(&claims), array_end(&payloads)};
    (void)snprintf(name, sizeof name, "f%d", s->batch->function);
    bool ok = params[0] && params[1] && send_limit(s, limit_of_batch(s)) &&
              PQsendQueryPrepared(s->conn, name, 2, params, NULL, NULL, 0) == 1;
    buf_clear(&claims);
    buf_clear(&payloads);
    return ok;
}

/* All statements up to a sync are one transaction, and none runs after one that failed. */
void sql_session_begin(struct sql_session *s, struct sql_work *batch, int64_t now_ms)
{
    s->batch = batch;
    s->begun_ms = now_ms;
    s->failed = s->over = false;
    bool ok = send_batch(s) && PQpipelineSync(s->conn) == 1;
    s->sending = ok && PQflush(s->conn) == 1;
    if (!ok) {
        lose(s, PQerrorMessage(s->conn));
    }
}

void sql_session_go_on(struct sql_session *s)
{
    if (s->sending) {
        s->sending = PQflush(s->conn) == 1;
    }
    bool ok = PQconsumeInput(s->conn) == 1;
    take_results(s);
    if (!ok || PQstatus(s->conn) != CONNECTION_OK) {
        lose(s, PQerrorMessage(s->conn));
    }
}

struct sql_work *sql_session_take(struct sql_session *s)
{
    struct sql_work *batch = s->batch;
    s->batch = NULL;
    s->over = false;
    s->limit_ms = s->failed ? -1 : s->limit_ms; /* the limit was rolled back, too */
    return batch;
}

/* --- cancel --- */

struct cancel {
    PGcancel *request;
    int fd; /* closed when the request was answered */
};

static void cancel_free(struct cancel *c)
{
    PQfreeCancel(c->request);
    (void)close(c->fd);
    free(c);
}

static void *run_cancel(void *arg)
{
    struct cancel *c = arg;
    char error[256];
    (void)PQcancel(c->request, error, sizeof error);
    cancel_free(c);
    return NULL;
}

/* In a thread, because PQcancel() waits for the answer without a limit. */
void sql_session_cancel(struct sql_session *s, int64_t now_ms)
{
    int ends[2];
    pthread_t thread;
    struct fault ignored = {0};
    struct cancel *c = s->cancel_fd < 0 ? malloc(sizeof *c) : NULL;
    if (!c || pipe2(ends, O_CLOEXEC) != 0) {
        free(c);
        return;
    }
    *c = (struct cancel){.request = PQgetCancel(s->conn), .fd = ends[1]};
    s->cancel_fd = ends[0];
    s->cancel_ms = now_ms;
    if (c->request && thread_start(&thread, 0, run_cancel, c, "a cancel", &ignored)) {
        (void)pthread_detach(thread);
    } else {
        cancel_free(c);
    }
}

void sql_session_cancelled(struct sql_session *s)
{
    if (s->cancel_fd >= 0) {
        (void)close(s->cancel_fd);
    }
    s->cancel_fd = -1;
}

bool sql_session_is_idle(const struct sql_session *s)
{
    return !s->batch && s->cancel_fd < 0;
}

int64_t sql_session_wait_ms(const struct sql_session *s, int64_t now_ms)
{
    int64_t left_ms = s->cancel_ms + SQL_CANCEL_LIMIT_MS - now_ms;
    if (s->cancel_fd < 0) {
        return -1;
    }
    return left_ms > 0 ? left_ms : 0;
}

void sql_session_expire(struct sql_session *s, int64_t now_ms)
{
    if (sql_session_wait_ms(s, now_ms) == 0) {
        lose(s, "the server did not answer a cancel");
    }
}
