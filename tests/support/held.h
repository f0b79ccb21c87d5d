/* Tasks put into any state by tenon's own statements, for tests of SQL. */
#ifndef TENON_TESTS_SUPPORT_HELD_H
#define TENON_TESTS_SUPPORT_HELD_H

#include "core/db/statement.h"
#include "tests/support/fixture.h"

enum { UUID_BYTES = 37, HELD_TEXT_BYTES = 64 };

struct held {
    int64_t id;
    int claims;
    int64_t key;
    char worker[UUID_BYTES];
};

/* Run an embedded statement; an error fails the test. PQclear() what it returns. */
PGresult *statement_run(PGconn *conn, const struct statement *st, const char *const *params, int n);

/* A worker of queue default and every kind the tests use (a, b, mail), alive by its row. */
void worker_make(struct fixture *fx, char worker[UUID_BYTES]);

/* Claim one ready task with worker/claim.sql. False: it was not claimed. */
bool held_take(struct fixture *fx, const char *worker, int64_t id, struct held *ret);

/* Enqueue a task of kind a and claim it for a new worker. */
void held_new(struct fixture *fx, struct held *ret);

/* Take the turn for this worker, and claim this suspect, as the next one, with
 * worker/claim_alone.sql. False: it was not claimed. */
bool held_take_alone(struct fixture *fx, const char *worker, int64_t id, struct held *ret);

/* The run that it has is one alone, after so many crashes in a row. */
void held_alone(struct fixture *fx, const struct held *c, int crashes);

/* worker/requeue.sql for one task; `error` and `delay_ms` may be NULL; one with the reason
 * "wait_signal" waits for the signal s. The new state, "" when nothing was changed; free(). */
char *held_requeue(struct fixture *fx, const struct held *c, const char *reason, const char *error,
                   const char *delay_ms);

/* The same for one that waits for `signal`, for so long; `delay_ms` may be NULL. */
char *held_wait(struct fixture *fx, const struct held *c, const char *signal, const char *delay_ms);

/* worker/finish.sql, or finish_unlocked.sql, for one task; was it finished? */
bool held_finish(struct fixture *fx, const struct statement *st, const struct held *c,
                 const char *reply);

/* What a handler gets as TENON_TASK_CLAIM. */
void held_text(const struct held *c, char text[HELD_TEXT_BYTES]);

/* The task's state in tenon.tasks, "" when there is none; free(). */
char *task_state_of(struct fixture *fx, int64_t id);
void assert_state(struct fixture *fx, int64_t id, const char *state);

#endif
