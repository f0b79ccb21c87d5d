/* Random schedules for sql_settle_test: several sessions, in which transactions stay open, and what
 * may happen in them. All is drawn from one seed. */
#ifndef TENON_TESTS_SUPPORT_SETTLE_ACTS_H
#define TENON_TESTS_SUPPORT_SETTLE_ACTS_H

#include "tests/support/held.h"

enum { SESSIONS = 3, CLAIMS_MAX = 200, KEYS_USED = 4 };

struct session {
    PGconn *conn;
    bool locks; /* its transaction may have locked tasks that wait */
};

struct schedule {
    struct fixture *fx;
    uint64_t seed, random;
    struct session sessions[SESSIONS];
    unsigned spared;             /* acts that this one is without */
    const char *keys[KEYS_USED]; /* what its tasks have */
    char worker[UUID_BYTES];
    long long flow;
    int n_claims;
    struct held claims[CLAIMS_MAX];
    bool says; /* each act */
    char broken[1000];
};

/* 0 to n - 1 */
int below(struct schedule *s, int n);

/* A rule is broken; the first one counts. */
void breaks(struct schedule *s, const char *what);

/* Run a statement. What failed is rolled back, with all of its transaction; errors that are not
 * part of it break the schedule. */
void act_sql(struct schedule *s, PGconn *conn, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Is a transaction open; is none that may have locked tasks that wait? */
bool is_open(PGconn *conn);
bool is_quiet(const struct schedule *s);

/* Begin the sessions, commit or roll back, and end them. */
void sessions_open(struct schedule *s);
void end_transaction(struct schedule *s, PGconn *conn);
void sessions_close(struct schedule *s);

/* Draw what this schedule is about. */
void acts_begin(struct schedule *s);

/* Claim one that is ready. */
void act_claim(struct schedule *s);

/* Anything but settling. */
void act_any_other(struct schedule *s);

#endif
