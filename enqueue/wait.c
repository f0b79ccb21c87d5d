/* Waiting for tasks' ends, in the public library. */
#include "core/base/now.h"
#include "enqueue/errtext.h"
#include "enqueue/statements.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wait {
    PGconn *conn;
    tenon_awaited *tasks;
    size_t n;
    bool any; /* one has ended in this call */
};

/* A task that is there and has none of these words is unfinished. */
static int state_of(const char *word)
{
    static const char *const words[] = {[TENON_TASK_DONE] = "done",
                                        [TENON_TASK_DEAD] = "dead",
                                        [TENON_TASK_CANCELLED] = "cancelled",
                                        [TENON_TASK_EXPIRED] = "expired",
                                        [TENON_TASK_ABSENT] = ""};
    for (int i = TENON_TASK_DONE; i <= TENON_TASK_ABSENT; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    return TENON_TASK_UNFINISHED;
}

static int copy_field(const PGresult *result, int column, char **ret)
{
    *ret = PQgetisnull(result, 0, column) ? NULL : strdup(PQgetvalue(result, 0, column));
    return *ret || PQgetisnull(result, 0, column)
               ? TENON_OK
               : errtext_set(TENON_MEMORY, "no memory for the result of a task");
}

static int take_answer(struct wait *w, tenon_awaited *task, const PGresult *result)
{
    int state = state_of(PQgetvalue(result, 0, 0));
    if (state == TENON_TASK_UNFINISHED) {
        return TENON_OK;
    }
    int code = copy_field(result, 1, &task->result);
    code = code == TENON_OK ? copy_field(result, 2, &task->error) : code;
    if (code == TENON_OK) {
        task->state = state;
        w->any = true;
    }
    return code;
}

/* Each is a transaction of its own, so that it holds the task's row no longer than it must. */
static int ask(struct wait *w, tenon_awaited *task, bool mark)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRId64, task->id);
    const char *const values[] = {id, mark ? "true" : "false"};
    PGresult *result = PQexecParams(w->conn, sql_wait_ask.text, 2, NULL, values, NULL, NULL, 0);
    int code = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1
                   ? take_answer(w, task, result)
                   : errtext_take(w->conn, result);
    PQclear(result);
    return code;
}

/* Those that were never asked for, and those nothing has been heard of for long; ret_ms: when the
 * next is to be. */
static int ask_all(struct wait *w, int64_t *ret_ms)
{
    *ret_ms = INT64_MAX;
    for (size_t i = 0; i < w->n; i++) {
        tenon_awaited *task = &w->tasks[i];
        int64_t now = now_ms();
        if (task->state != TENON_TASK_UNFINISHED) {
            continue;
        }
        if (task->asked_ms == 0 || now >= task->asked_ms + TENON_WAIT_ASK_MS) {
            int code = ask(w, task, true);
            if (code != TENON_OK) {
                return code;
            }
            task->asked_ms = now;
        }
        int64_t due = task->asked_ms + TENON_WAIT_ASK_MS;
        *ret_ms = due < *ret_ms ? due : *ret_ms;
    }
    return TENON_OK;
}

/* Any role that can connect may notify there: it is only a reason to ask. */
static int take_notified(struct wait *w)
{
    PGnotify *notify;
    int code = TENON_OK;
    while (code == TENON_OK && (notify = PQnotifies(w->conn))) {
        int64_t id = strcmp(notify->relname, "tenon_ended") == 0
                         ? (int64_t)strtoll(notify->extra, NULL, 10)
                         : 0;
        PQfreemem(notify);
        for (size_t i = 0; i < w->n && code == TENON_OK; i++) {
            if (w->tasks[i].id == id && w->tasks[i].state == TENON_TASK_UNFINISHED) {
                code = ask(w, &w->tasks[i], false);
            }
        }
    }
    return code;
}

static int wait_for_word(struct wait *w, int64_t until_ms)
{
    int64_t left = until_ms - now_ms();
    int limit = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
    struct pollfd fd = {.fd = PQsocket(w->conn), .events = POLLIN};
    if (poll(&fd, 1, limit) < 0 && errno != EINTR) {
        return errtext_set(TENON_FAILED, "could not wait: %s", strerror(errno));
    }
    return PQconsumeInput(w->conn) ? TENON_OK
                                   : errtext_set(TENON_RETRY, "%s", PQerrorMessage(w->conn));
}

/* A pooler tells its clients another process id than the backend's own, and what is said to that
 * backend may reach nobody. Asked first, as a LISTEN would stay behind in a session of others. */
static int refuse_pooler(PGconn *conn)
{
    PGresult *result = PQexec(conn, "SELECT pg_catalog.pg_backend_pid()");
    bool told = PQresultStatus(result) == PGRES_TUPLES_OK;
    bool direct = told && strtol(PQgetvalue(result, 0, 0), NULL, 10) == PQbackendPID(conn);
    int code = direct ? TENON_OK
               : told ? errtext_set(TENON_MISUSE,
                                    "waiting for tasks needs a direct connection; this one leads"
                                    " through a pooler, which delivers no notifications")
                      : errtext_take(conn, result);
    PQclear(result);
    return code;
}

static int begin(const struct wait *w)
{
    bool in_transaction = false;
    int code = errtext_look_at(w->conn, &in_transaction);
    if (code != TENON_OK) {
        return code;
    }
    if (in_transaction) {
        return errtext_set(
            TENON_MISUSE,
            "cannot wait in a transaction: it receives no notifications before its end");
    }
    code = refuse_pooler(w->conn);
    if (code != TENON_OK) {
        return code;
    }
    PGresult *result = PQexec(w->conn, "LISTEN tenon_ended");
    code = PQresultStatus(result) == PGRES_COMMAND_OK ? TENON_OK : errtext_take(w->conn, result);
    PQclear(result);
    return code;
}

int tenon_wait(PGconn *conn, tenon_awaited *tasks, size_t n, int timeout_ms)
{
    struct wait w = {.conn = conn, .tasks = tasks, .n = n};
    int64_t until = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms, next = 0;
    int code = begin(&w);
    while (code == TENON_OK) {
        code = ask_all(&w, &next);
        code = code == TENON_OK ? take_notified(&w) : code;
        if (code != TENON_OK || w.any || next == INT64_MAX) {
            break;
        }
        if (now_ms() >= until) {
            return errtext_set(TENON_NOT_YET, "none of %zu tasks has ended within %d ms", n,
                               timeout_ms);
        }
        code = wait_for_word(&w, next < until ? next : until);
    }
    return code == TENON_OK ? errtext_ok() : code;
}
