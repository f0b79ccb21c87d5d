/* A connection of tenon-sql, which runs one batch at a time: tasks of one function, called for each
 * and finished in one statement, so that they commit together. */
#ifndef TENON_HANDLERS_SQL_SESSION_H
#define TENON_HANDLERS_SQL_SESSION_H

#include "handlers/sql_settings.h"
#include "handlers/sql_verdict.h"

struct pg_conn;

enum {
    SQL_MARGIN_MS = 1000,   /* a statement ends at least this long before its task's deadline */
    SQL_BATCH_MS_MAX = 200, /* what takes longer with several tasks is ended and rolled back */
    SQL_CANCEL_LIMIT_MS =
        2000, /* for the answer to a cancel; the worker waits 5 s for the task's */
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
    int64_t limit_ms;  /* the statement_timeout that it has; -1 = not known */
    bool sending;      /* not all of it is sent */
    bool over;         /* the batch has committed, or failed: the caller takes it out */
    bool failed;       /* what was said first is in `verdict` */
    bool lost;         /* the connection is, and with it what became of the batch */
    int cancel_fd;     /* at its end when the server has answered a cancel; -1 = none is asked */
    int64_t cancel_ms; /* when it was asked */
    struct sql_verdict verdict;
};

/* Connect, and prepare a statement for each function.
 *   false   CONFIG: there is no such function, or the role may not call it; else as login_open()
 *           says */
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

/* Ask the server to end the batch: it fails. Returns at once; `cancel_fd` is readable when that was
 * answered, or could not be asked, and then sql_session_cancelled() is to be called. Until then it
 * gets no other batch, which the cancel might end. */
void sql_session_cancel(struct sql_session *s, int64_t now_ms);
void sql_session_cancelled(struct sql_session *s);

bool sql_session_is_idle(const struct sql_session *s);

/* For how long it still waits for the answer to a cancel; -1 = for none. Afterwards
 * sql_session_expire() gives the connection up, as `lost`: it does nothing before. */
int64_t sql_session_wait_ms(const struct sql_session *s, int64_t now_ms);
void sql_session_expire(struct sql_session *s, int64_t now_ms);

void sql_work_free(struct sql_work *w);

#endif
