/* A session that does one statement at a time and does not wait for locks: a statement that must
 * wait is left under way, so that a test can go on with another session. */
#ifndef TENON_TESTS_SUPPORT_STEPPER_H
#define TENON_TESTS_SUPPORT_STEPPER_H

#include "tests/support/held.h"

enum { STEPPER_PREPARED_MAX = 32 };

struct stepper {
    PGconn *conn; /* NULL = not open, or killed */
    int pid;
    bool busy;        /* a statement is under way */
    bool gives_up;    /* it has a lock_timeout, so that no wait is long */
    PGresult *result; /* of the last one that was answered */
    size_t n_prepared;
    const struct statement *prepared[STEPPER_PREPARED_MAX];
};

/* Connect, with the settings of a worker's session (core/db/db.c) but these limits:
 * `lock_timeout_ms` (0 = wait as long as it takes), a deadlock is found after 20 ms. */
void stepper_open(struct stepper *s, const char *url, int lock_timeout_ms);
void stepper_close(struct stepper *s);

/* Once per session and statement. Waits for locks on the tables. */
void stepper_prepare(struct stepper *s, const struct statement *st);

/* Send a statement, as a text or an embedded one. */
void stepper_send(struct stepper *s, const char *text);
void stepper_send_prepared(struct stepper *s, const struct statement *st, const char *const *params,
                           int n);

/* Wait until what is under way is answered (true), or waits for a lock (false; never with a
 * lock_timeout). */
bool stepper_settle(struct stepper *s, PGconn *watch);

/* Wait until what is under way is answered, whatever locks it waits for meanwhile. */
void stepper_await(struct stepper *s);

/* The SQLSTATE of the last answer, "" when it was no error. */
const char *stepper_state(const struct stepper *s);

/* pg_terminate_backend() from another session, and wait until it is gone and has let go. */
void stepper_kill(struct stepper *s, PGconn *watch);

#endif
