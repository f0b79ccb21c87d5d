/* The model of PostgreSQL: rows of tenon.task and tenon.worker with one committed and one pending
 * version each, row locks, sessions with one transaction and their advisory locks.
 *
 * A statement (statements.h) happens at one moment and sees what is committed, and its own
 * transaction's changes, as READ COMMITTED does. */
#ifndef TENON_TESTS_SIM_SERVER_H
#define TENON_TESTS_SIM_SERVER_H

#include "cleaner/decide/watermark.h"
#include "tests/sim/timeline.h"

#include <stdbool.h>
#include <stdint.h>

#define NEVER_US INT64_MAX /* the run_at of a suspect: infinity */

enum { ROWS_MAX = 200, WORKERS_MAX = 512, SESSIONS_MAX = 512, WAITERS_MAX = 512 };

enum row_state {
    ROW_NONE,
    ROW_TASK,
    ROW_DONE,
    ROW_CANCELLED,
    ROW_DEAD,
};

struct version {
    enum row_state state;
    int64_t run_at, start_us, timeout_ms;
    int64_t key; /* of its last claim; 0 = it is not started */
    int worker, claims, failures, crashes, max_attempts, priority, queue, kind;
    int said;  /* its progress: a number that goes up */
    int steps; /* that it has recorded: 1 to this one */
    /* its row of tenon.suspect */
    int in_a_row, mark,
        alone_claims; /* crashes; how far it was then; of the run that it has alone */
    bool suspect;
    int64_t suspect_due;
    bool delayed, announced;
};

enum change {
    CHANGE_INSERT,
    CHANGE_CLAIM,
    CHANGE_SAY,
    CHANGE_FINISH,
    CHANGE_BACK,
    CHANGE_CANCEL,
};

enum { CLAIMS_KEPT = 16 };

struct row {
    int64_t id; /* its index + 1 */
    struct version now, next;
    int64_t locker; /* session, 0 = nobody */
    bool changed;
    enum change change;
    bool by_cleaner; /* who requeued it */
    bool late;       /* its newest progress was overwritten by a broken session, or met a lock */

    /* what the checks remember */
    int64_t inserted_us, committed_us, changed_us;
    int64_t claimed_us[CLAIMS_KEPT]; /* by number, of the newest claims */
    int last_run;                    /* newest entry of the journal, -1 = it never ran */
    int taken;       /* how often a claim was taken away by the cleaner, or the task by a cancel */
    int64_t idle_us; /* since when it waits although a healthy worker is free; 0 = it does not */
};

enum worker_state { WORKER_NONE, WORKER_ALIVE, WORKER_DRAINING, WORKER_LEFT, WORKER_DEAD };

struct worker_row {
    enum worker_state now, next;
    int64_t changer;                /* the session that is declaring it dead */
    int64_t lock;                   /* the session that holds its advisory lock */
    int64_t locked_us, unlocked_us; /* when it was taken last, and free */
    int node;
    bool alone; /* it has the turn to run suspects */
};

struct session {
    int64_t id;          /* 0 = free */
    bool shared, notify; /* of its transaction: holds the sleeper's lock shared; has a NOTIFY */
};

struct waiter {
    moment_act *act;
    int64_t arg;
    int who;
};

struct server {
    bool up;
    int64_t up_since_us, stalled_until_us;
    int64_t clock_us; /* what the server's clock is ahead */
    int n_rows;
    struct row rows[ROWS_MAX];
    int n_workers; /* rows 1..n_workers */
    struct worker_row workers[WORKERS_MAX + 1];
    int64_t last_session, last_key, leader, sleeper;
    struct session sessions[SESSIONS_MAX];
    int n_waiters;
    struct waiter waiters[WAITERS_MAX];
    bool paused[2]; /* queues */
};

void server_start(struct sim *s);
int64_t server_now(const struct sim *s); /* its clock */
void server_restart(struct sim *s, int64_t down_us);

int64_t session_open(struct sim *s);
bool session_is_open(const struct sim *s, int64_t id);
struct session *session_find(struct sim *s, int64_t id);
void session_commit(struct sim *s, int64_t id);
void session_rollback(struct sim *s, int64_t id);
void session_end(struct sim *s, int64_t id); /* rolls back; its locks are free */

struct row *row_find(struct sim *s, int64_t id); /* NULL: never was */
const struct version *row_see(const struct row *r, int64_t session);
bool row_is_free(const struct row *r, int64_t session);
struct version *row_change(struct sim *s, struct row *r, int64_t session, enum change change);
bool row_is_ready(const struct sim *s, const struct row *r); /* committed, due, not started */

/* Which transactions are in progress. */
void server_snapshot(const struct sim *s, struct snapshot *ret);

/* Call again when any transaction has ended. */
void server_wait(struct sim *s, moment_act *act, int who, int64_t arg);

#endif
