/* A connection of tenon-sql, which runs one task at a time. */
#ifndef TENON_HANDLERS_SQL_SESSION_H
#define TENON_HANDLERS_SQL_SESSION_H

#include "handlers/sql_settings.h"
#include "handlers/sql_verdict.h"

struct pg_conn;

enum {
    SQL_CONNECT_LIMIT_S = 5,
    SQL_MARGIN_MS = 1000, /* a statement ends so much before its task's deadline, at most */
};

struct sql_session {
    struct pg_conn *conn;
    struct pool_task task;
    bool busy;    /* with `task` */
    bool sending; /* not all of it is sent */
    bool failed;  /* what it said is in `verdict` */
    struct sql_verdict verdict;
};

/* Connect, and prepare a statement for each function.
 *   false   CONFIG: there is no such function, or the role may not call it; RETRY: no connection */
MUST_CHECK bool sql_session_open(struct sql_session *s, const struct sql_settings *settings,
                                 struct fault *f);
void sql_session_close(struct sql_session *s);

int sql_session_fd(const struct sql_session *s);

/* Begin `task`, which it takes over, with the function of that number.
 *   false   the connection is lost; the task is answered all the same */
MUST_CHECK bool sql_session_begin(struct sql_session *s, struct pool_task *task, int function,
                                  struct pool *p);

/* Go on with what can be sent and read; answers the task when it has ended.
 *   false   the connection is lost; its task is answered all the same */
MUST_CHECK bool sql_session_go_on(struct sql_session *s, struct pool *p);

/* Ask the server to end the statement. */
void sql_session_cancel(struct sql_session *s);

#endif
