/* Which workers are dead, judged by checks of their locks (docs/tour.md, "Who is dead").
 *
 * A worker is dead when its lock was free on checks VERDICT_CHECK_MS apart in one unbroken session
 * that is older than VERDICT_PATIENCE_MS: after a restart of the server all locks are free for a
 * while. */
#ifndef TENON_CLEANER_DECIDE_VERDICT_H
#define TENON_CLEANER_DECIDE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERDICT_CHECK_MS = 500,
    VERDICT_SLACK_MS = 50, /* a check that is early by this much still counts */
    VERDICT_PATIENCE_MS = 15000,
    VERDICT_SUSPECTS_MAX = 1024, /* more are checked later */
    VERDICT_ID_BYTES = 37,       /* a uuid as text */
};

struct verdict_suspect {
    char id[VERDICT_ID_BYTES];
    int free_checks;    /* on which the lock was free, one after the other */
    int64_t checked_ms; /* the last that counted */
    bool seen;          /* on the present check */
};

struct verdict {
    int64_t session_ms; /* when the session began */
    size_t n;
    struct verdict_suspect suspects[VERDICT_SUSPECTS_MAX];
};

/* A new session: nobody is a suspect. */
void verdict_start(struct verdict *v, int64_t now_ms);

/* Forget all suspects: no checks were made for a while, in a session that continues. */
void verdict_forget(struct verdict *v);

/* A check: each worker that is alive or draining by its row and whose lock is free, and the end;
 * those who are not among them are no suspects any more. */
void verdict_lock_is_free(struct verdict *v, const char *id, int64_t now_ms);
void verdict_end(struct verdict *v);

/* After a check: is suspect `i` dead? */
bool verdict_is_dead(const struct verdict *v, size_t i, int64_t now_ms);

#endif
