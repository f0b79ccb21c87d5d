#include "core/db/db.h"

#include "core/base/now.h"
#include "core/base/point.h"
#include "core/db/db_login.h"
#include "core/db/db_session.h"
#include "core/db/db_where.h"
#include "core/db/sqlstate.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    DB_BATCH_MAX = 64,
    DB_FRAME = 3, /* statements around a batch in a pooler's session */
    DB_PREPARED_MAX = 256,
    DB_CLOSE_LIMIT_MS = 1000,
    DB_ASK_TRIES = 5,
};

struct db {
    PGconn *conn;
    const char *name; /* borrowed: the program's, and which session of it */
    bool broken, hot;
    bool unnamed;        /* statements are not prepared for later, in a session that is not ours */
    bool framed;         /* nor is anything set but within each transaction, by `frame` */
    bool rolls_back;     /* all of it is one transaction */
    bool heard;          /* the last call of db_next_notified() returned one */
    int64_t deadline_ms; /* of the answer that is waited for */
    char where[256];
    size_t n_prepared;
    const struct statement *prepared[DB_PREPARED_MAX]; /* by this session */
    char frame[SESSION_TEXT_BYTES];
};

static bool fault_of_conn(struct db *db, struct fault *f)
{
    db->broken = true;
    return fault_set(f, FAULT_RETRY, "%s", PQerrorMessage(db->conn));
}

/* Who lacks a right is told which grant has it. */
static const char *hint_of_rights(const char *name)
{
#define HINT(grant) "the owner of the schema grants it: tenon setup " grant
    static const struct {
        const char *name, *hint;
    } parts[] = {{"tenon worker", HINT("--grant-worker ROLE")},
                 {"tenon cleaner", HINT("--grant-cleaner ROLE")},
                 {"tenon intake", HINT("--grant-intake ROLE")},
                 {"tenon enqueue", HINT("--grant-producer ROLE")}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strncmp(name, parts[i].name, strlen(parts[i].name)) == 0) {
            return parts[i].hint;
        }
    }
    return HINT("--grant-reader ROLE, or, to change anything, --grant-operator ROLE");
#undef HINT
}

static bool fault_of_result(struct db *db, const PGresult *result, struct fault *f)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *state = sqlstate ? sqlstate : "";
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    if (!hint && sqlstate_is(state, "42501") && strcmp(db->name, "tenon setup") != 0) {
        hint = hint_of_rights(db->name);
    }
    if (!primary || PQstatus(db->conn) != CONNECTION_OK) {
        return fault_of_conn(db, f);
    }
    db->broken = db->broken || sqlstate_is(state, "08 57P 25006");
    if (f->code == FAULT_NONE) {
        (void)fault_set(f, sqlstate_fault(state), "%s%s%s%s%s%s", primary, detail ? " (" : "",
                        detail ? detail : "", detail ? ")" : "", hint ? "; " : "",
                        hint ? hint : "");
        (void)snprintf(f->sqlstate, sizeof f->sqlstate, "%s", state);
    }
    return false;
}

/* Wait until the socket is readable (or writable, when we have more to send). */
static bool db_wait(struct db *db, bool want_write, struct fault *f)
{
    int64_t left_ms = db->deadline_ms - now_ms();
    struct pollfd pfd = {.fd = PQsocket(db->conn),
                         .events = (short)(POLLIN | (want_write ? POLLOUT : 0))};
    int n = left_ms > 0 ? poll(&pfd, 1, (int)left_ms) : 0;
    if (n == 0) {
        db->broken = true;
        return fault_set(f, FAULT_RETRY, "no answer from PostgreSQL (%s) within the time limit",
                         db->where);
    }
    if (n < 0 && errno != EINTR) {
        db->broken = true;
        return fault_set(f, FAULT_RETRY, "could not poll PostgreSQL's socket: %s", strerror(errno));
    }
    if (n > 0 && (pfd.revents & ~POLLOUT) && !PQconsumeInput(db->conn)) {
        return fault_of_conn(db, f);
    }
    return true;
}

static bool db_flush(struct db *db, struct fault *f)
{
    int left;
    while ((left = PQflush(db->conn)) > 0) {
        if (!db_wait(db, true, f)) {
            return false;
        }
    }
    return left == 0 || fault_of_conn(db, f);
}

static bool next_result(struct db *db, PGresult **ret, struct fault *f)
{
    while (PQisBusy(db->conn)) {
        if (!db_wait(db, false, f)) {
            return false;
        }
    }
    *ret = PQgetResult(db->conn);
    return true;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* One result and the NULL that ends it. When the statement failed, `*ret` is NULL, and its fault is
 * in `f`; only a broken session returns false: the rest of the pipeline must still be read. */
static bool whole_result(struct db *db, PGresult **ret, struct fault *f)
{
    PGresult *result = NULL, *end = NULL;
    *ret = NULL;
    if (!next_result(db, &result, f)) {
        return false;
    }
    if (!result || !next_result(db, &end, f) || end) {
        PQclear(end);
        PQclear(result);
        return fault_of_conn(db, f);
    }
    if (is_good(result)) {
        *ret = result;
        return true;
    }
    if (PQresultStatus(result) != PGRES_PIPELINE_ABORTED) { /* then one before it has failed */
        (void)fault_of_result(db, result, f);
    }
    PQclear(result);
    return true;
}

static bool is_prepared(const struct db *db, const struct statement *statement)
{
    for (size_t i = 0; i < db->n_prepared && !db->unnamed; i++) {
        if (db->prepared[i] == statement) {
            return true;
        }
    }
    return false;
}

/* A session that forgot one would prepare it again, which the server refuses. */
static void remember(struct db *db, const struct statement *statement, struct fault *f)
{
    if (db->unnamed) {
        return;
    }
    if (db->n_prepared == DB_PREPARED_MAX) {
        db->broken = true;
        (void)fault_set(f, FAULT_BUG, "a session has more than %d statements", DB_PREPARED_MAX);
        return;
    }
    db->prepared[db->n_prepared++] = statement;
}

/* Take the answer to one call; its rows are NULL when it failed. */
static bool take_call(struct db *db, struct db_call *call, bool prepared, struct fault *f)
{
    PGresult *result = NULL;
    if (!prepared) {
        if (!whole_result(db, &result, f)) {
            return false;
        }
        if (result) {
            remember(db, call->statement, f);
        }
        PQclear(result);
    }
    bool ok = whole_result(db, &result, f);
    call->rows = (struct rows *)result;
    return ok;
}

static bool take_sync(struct db *db, struct fault *f)
{
    PGresult *result;
    ExecStatusType status;
    bool nothing = false;
    do {
        if (!next_result(db, &result, f)) {
            return false;
        }
        status = PQresultStatus(result);
        /* a commit that fails (a deferred constraint, a crash) answers with an error and the NULL
         * that ends it, before the sync */
        if (result && status != PGRES_PIPELINE_SYNC) {
            (void)fault_of_result(db, result, f);
        } else if (!result && nothing) {
            return fault_of_conn(db, f);
        }
        nothing = !result;
        PQclear(result);
    } while (status != PGRES_PIPELINE_SYNC && !db->broken);
    return !db->broken;
}

static bool send_all(struct db *db, struct db_call *calls, size_t n, bool *prepared,
                     struct fault *f)
{
    for (size_t i = 0; i < n; i++) {
        struct db_call *c = &calls[i];
        const struct statement *st = c->statement;
        c->rows = NULL;
        const char *name = db->unnamed ? "" : st->name;
        prepared[i] = is_prepared(db, st);
        for (size_t j = 0; j < i && !prepared[i] && !db->unnamed; j++) {
            prepared[i] = calls[j].statement == st;
        }
        if ((!prepared[i] && !PQsendPrepare(db->conn, name, st->text, 0, NULL)) ||
            !PQsendQueryPrepared(db->conn, name, c->n_params, c->params, NULL, NULL, 0)) {
            return fault_of_conn(db, f);
        }
    }
    return (PQpipelineSync(db->conn) == 1 || fault_of_conn(db, f)) && db_flush(db, f);
}

static bool take_all(struct db *db, struct db_call *calls, size_t n, const bool *prepared,
                     size_t *ret_failed, struct fault *f)
{
    for (size_t i = 0; i < n; i++) {
        if (!take_call(db, &calls[i], prepared[i], f)) {
            return false;
        }
        if (!calls[i].rows && *ret_failed == n) {
            *ret_failed = i;
        }
    }
    return take_sync(db, f);
}

static bool run_batch(struct db *db, struct db_call *calls, size_t n, int64_t limit_ms,
                      size_t *ret_failed, struct fault *f)
{
    bool prepared[DB_BATCH_MAX + DB_FRAME];
    *ret_failed = n;
    db->deadline_ms = now_ms() + limit_ms;
    bool ok = !db->broken || fault_set(f, FAULT_RETRY, "the session is closed");
    ok = ok && (PQenterPipelineMode(db->conn) == 1 || fault_of_conn(db, f));
    ok = ok && send_all(db, calls, n, prepared, f);
    if (ok && db->hot) {
        POINT(hot_sent);
    }
    ok = ok && take_all(db, calls, n, prepared, ret_failed, f) && f->code == FAULT_NONE;
    if (!db->broken && PQexitPipelineMode(db->conn) != 1) {
        (void)fault_of_conn(db, f);
        ok = false;
    }
    for (size_t i = 0; !ok && i < n; i++) {
        rows_free(calls[i].rows);
        calls[i].rows = NULL;
    }
    return ok;
}

static bool run_script(struct db *db, const char *text, int64_t limit_ms, struct fault *f);

/* A pooler's session is ours for one transaction, in which it is set up, too. */
static bool run_framed(struct db *db, struct db_call *calls, size_t n, int64_t limit_ms,
                       size_t *ret_failed, struct fault *f)
{
    static const struct statement begin = {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED"};
    static const struct statement commit = {"commit", "COMMIT"};
    const struct statement settings = {"settings", db->frame};
    struct db_call all[DB_BATCH_MAX + DB_FRAME] = {{.statement = &begin}, {.statement = &settings}};
    struct fault ignored = {0};
    memcpy(all + 2, calls, n * sizeof *calls);
    all[n + 2] = (struct db_call){.statement = &commit};
    bool ok = run_batch(db, all, n + DB_FRAME, limit_ms, ret_failed, f);
    memcpy(calls, all + 2, n * sizeof *calls);
    *ret_failed = *ret_failed < 2 || *ret_failed > n + 2 ? n : *ret_failed - 2;
    rows_free(all[0].rows);
    rows_free(all[1].rows);
    rows_free(all[n + 2].rows);
    if (!db->broken && PQtransactionStatus(db->conn) != PQTRANS_IDLE) {
        db->broken = !run_script(db, "ROLLBACK", DB_CLOSE_LIMIT_MS, &ignored);
    }
    return ok;
}

bool db_batch(struct db *db, struct db_call *calls, size_t n, int64_t limit_ms, size_t *ret_failed,
              struct fault *f)
{
    size_t failed;
    if (n > DB_BATCH_MAX) {
        return fault_set(f, FAULT_BUG, "a batch of %zu statements is over the limit of %d", n,
                         DB_BATCH_MAX);
    }
    bool framed = db->framed && PQtransactionStatus(db->conn) == PQTRANS_IDLE;
    bool ok = (framed ? run_framed : run_batch)(db, calls, n, limit_ms, &failed, f);
    if (ret_failed) {
        *ret_failed = failed;
    }
    return ok;
}

bool db_exec(struct db *db, const struct statement *statement, const char *const *params,
             int n_params, struct rows **ret, struct fault *f)
{
    struct db_call call = {.statement = statement, .params = params, .n_params = n_params};
    if (!db_batch(db, &call, 1, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return false;
    }
    if (ret) {
        *ret = call.rows;
    } else {
        rows_free(call.rows);
    }
    return true;
}

/* Not PQexec(), which waits for a server that stopped answering until the kernel gives up.
 *   ret_last  the last statement's answer, when all went well; NULL = nobody wants it */
static bool run_text(struct db *db, const char *text, int64_t limit_ms, PGresult **ret_last,
                     struct fault *f)
{
    PGresult *result = NULL, *last = NULL;
    bool ok = true, read = true;
    if (db->broken) {
        return fault_set(f, FAULT_RETRY, "the session is closed");
    }
    db->deadline_ms = now_ms() + limit_ms;
    if (!PQsendQuery(db->conn, text)) {
        return fault_of_conn(db, f);
    }
    read = db_flush(db, f);
    while (read && (read = next_result(db, &result, f)) && result) {
        if (!is_good(result)) {
            ok = fault_of_result(db, result, f);
        }
        PQclear(last);
        last = result;
    }
    ok = ok && read;
    if (ok && ret_last) {
        *ret_last = last;
    } else {
        PQclear(last);
    }
    return ok;
}

static bool run_script(struct db *db, const char *text, int64_t limit_ms, struct fault *f)
{
    return run_text(db, text, limit_ms, NULL, f);
}

bool db_script(struct db *db, const char *text, struct fault *f)
{
    return run_script(db, text, DB_ANSWER_LIMIT_MS, f);
}

bool db_script_long(struct db *db, const char *text, struct fault *f)
{
    return run_script(db, text, DB_LONG_LIMIT_MS, f);
}

bool db_is_open(const struct db *db)
{
    return !db->broken;
}

void db_cut(struct db *db)
{
    (void)shutdown(PQsocket(db->conn), SHUT_RDWR);
}

int db_fd(const struct db *db)
{
    return PQsocket(db->conn);
}

bool db_next_notified(struct db *db, char text[DB_NOTIFIED_BYTES])
{
    PGnotify *notify = PQnotifies(db->conn);
    if (!notify && !db->heard) {
        db->broken = !PQconsumeInput(db->conn) || db->broken;
        notify = PQnotifies(db->conn);
    }
    db->heard = notify != NULL;
    if (notify) {
        (void)snprintf(text, DB_NOTIFIED_BYTES, "%s", notify->extra);
        PQfreemem(notify);
    }
    return notify != NULL;
}

PGconn *db_conn(const struct db *db)
{
    return db->conn;
}

int db_backend_pid(const struct db *db)
{
    return PQbackendPID(db->conn);
}

const char *db_where(const struct db *db)
{
    return db->where;
}

const char *db_insecure(const struct db *db)
{
    return where_insecure(db->conn);
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* A pooler tells its clients another process id than the backend's own. Asked before anything is
 * set or prepared: whatever stays behind in the pooler's session is somebody else's next. So what a
 * role's own statement_timeout cuts off is asked again. */
static bool ask_pooled(struct db *db, bool *ret_pooled, struct fault *f)
{
    PGresult *pid = NULL;
    for (int tries = 1; !run_text(db, "SELECT pg_catalog.pg_backend_pid()",
                                  (int64_t)DB_CONNECT_LIMIT_S * 1000, &pid, f);
         tries++) {
        if (f->code != FAULT_AGAIN || db->broken || tries == DB_ASK_TRIES) {
            return false;
        }
        fault_clear(f);
    }
    *ret_pooled = !pid || PQntuples(pid) != 1 ||
                  strtol(PQgetvalue(pid, 0, 0), NULL, 10) != db_backend_pid(db);
    PQclear(pid);
    return true;
}

static bool needs_direct(const struct db *db, const char *name, enum db_kind kind, struct fault *f)
{
    return fault_set(f, FAULT_CONFIG,
                     "the session \"%s\" needs a direct connection, and %s leads through a pooler: "
                     "give a direct one with --%s-url",
                     name, db->where, kind == DB_PRESENCE ? "presence" : "database");
}

/* What a DB_READ sets goes with its transaction. */
static bool session_set_up(struct db *db, const char *name, enum db_kind kind, struct fault *f)
{
    char text[SESSION_TEXT_BYTES];
    bool pooled = false;
    if (PQsetnonblocking(db->conn, 1) != 0) {
        return fault_of_conn(db, f);
    }
    if (kind != DB_READ && !ask_pooled(db, &pooled, f)) {
        return false;
    }
    db->rolls_back = kind == DB_READ;
    db->unnamed = pooled || kind == DB_READ;
    db->framed = pooled && kind == DB_HOT;
    if (pooled) {
        session_local_text(db->frame);
        return kind == DB_HOT || kind == DB_PLAIN || needs_direct(db, name, kind, f);
    }
    session_text(kind, text);
    return run_script(db, text, (int64_t)DB_CONNECT_LIMIT_S * 1000, f);
}

bool db_open(const char *url, enum db_kind kind, const char *name, struct db **ret, struct fault *f)
{
    if (!where_url_check(url, f)) {
        return false;
    }
    struct db *db = calloc(1, sizeof *db);
    if (!db) {
        return fault_memory(f);
    }
    db->name = name;
    db->hot = kind == DB_HOT || kind == DB_LEADER;
    bool any = kind == DB_READ || (kind & DB_ANY) != 0;
    kind = (enum db_kind)((unsigned)kind & ~(unsigned)DB_ANY);
    if (!login_open(url, any, name, &db->conn, f)) {
        db_close(db);
        return false;
    }
    where_text(db->conn, db->where, sizeof db->where);
    PQsetNoticeReceiver(db->conn, ignore_notice, NULL);
    if (!session_set_up(db, name, kind, f)) {
        (void)fault_add(f, "could not set up a session on PostgreSQL");
        db_close(db);
        return false;
    }
    *ret = db;
    return true;
}

void db_close(struct db *db)
{
    if (db) {
        struct fault ignored = {0};
        if (db->rolls_back && !db->broken) {
            (void)run_script(db, "ROLLBACK", DB_CLOSE_LIMIT_MS, &ignored);
        }
        PQfinish(db->conn);
        free(db);
    }
}

int db_library_version(void)
{
    return PQlibVersion();
}
