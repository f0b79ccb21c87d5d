/* A connection of tenon-sql, which runs one batch at a time: tasks of one function, called for each
 * and finished in one statement, so that they commit together. */
#ifndef TENON_HANDLERS_SQL_SESSION_H
#define TENON_HANDLERS_SQL_SESSION_H

#include "handlers/sql_settings.h"
#include "handlers/sql_verdict.h"

struct pg_conn;

enum {
    SQL_CONNECT_LIMIT_S = 5,
    SQL_MARGIN_MS = 1000,   /* a statement ends so much before its task's deadline, at most */
    SQL_BATCH_MS_MAX = 200, /* what takes longer with several tasks is ended and rolled back */
};

struct sql_work {
    struct pool_task task;
    int function;
    int64_t came_ms;
    bool alone;   /* its batch failed: it gets a transaction of its own */
    bool stopped; /* its claim is lost */
    struct sql_work *prev, *next;
};

struct sql_session {
    struct pg_conn *conn;
    struct sql_work *batch; /* NULL: it is idle */
    int64_t begun_ms;
    int64_t limit_ms; /* the statement_timeout that it has; -1 = not known */
    bool sending;     /* not all of it is sent */
    bool over;        /* the batch has committed, or failed: the caller takes it out */
    bool failed;      /* what was said first is in `verdict` */
    bool lost;        /* the connection is, and with it what became of the batch */
    struct sql_verdict verdict;
};

/* Connect, and prepare a statement for each function.
 *   false   CONFIG: there is no such function, or the role may not call it; RETRY: no connection */
MUST_CHECK bool sql_session_open(struct sql_session *s, const struct sql_settings *settings,
                                 struct fault *f);
void sql_session_close(struct sql_session *s);

int sql_session_fd(const struct sql_session *s);

/* Begin a list of tasks of one function, which it takes over, in the order of the list: one that
 * fails fails all. Afterwards `over` may be set. */
void sql_session_begin(struct sql_session *s, struct sql_work *batch, int64_t now_ms);

/* Go on with what can be sent and read. Afterwards `over` may be set, `lost` without a batch, too.
 */
void sql_session_go_on(struct sql_session *s);

/* Take the batch out when it is over. */
struct sql_work *sql_session_take(struct sql_session *s);

/* Ask the server to end the batch: it fails. */
void sql_session_cancel(struct sql_session *s);

void sql_work_free(struct sql_work *w);

#endif
