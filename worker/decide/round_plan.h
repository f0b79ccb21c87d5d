/* What goes into the next round, and when it is due.
 *
 * Rounds go together: all that is due, in one transaction. After a failure they go apart: each has
 * one part only, in turn, until every part that failed has committed by itself or has nothing left
 * to do. So what is wrong with one part, a lock or a bad value, keeps no other part waiting. */
#ifndef TENON_WORKER_DECIDE_ROUND_PLAN_H
#define TENON_WORKER_DECIDE_ROUND_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct round;

enum {
    AHEAD_MS = 50,         /* fast tasks that will start within this time are claimed ahead */
    AHEAD_FAST_US = 20000, /* fast is a task that takes less than this */
    AHEAD_MAX = 2048,      /* tasks claimed ahead at most */
    UNTOLD_MAX = 1000,     /* while outcomes fail, this many stop the claims */
    CHORES_EVERY_MS = 60000,
    PACE_PER_MS = 1,        /* when at least this many tasks end per ms, */
    PACE_MS = 2,            /* a round begins this long after the last one ended */
    ASK_LIMIT_MIN_MS = 500, /* time limit of a claim or poll after one that failed, while tasks run;
                               longer with each failure, up to RETRY_MAX_MS */
};

void round_plan(struct decider *d, int64_t now_ms);
int64_t round_due(const struct decider *d);

bool round_goes_apart(const struct decider *d);

/* Put into the round which handlers' kinds must not be claimed now; false: none may. */
bool round_plan_handlers(struct decider *d, struct round *x, int64_t now_ms);

bool round_may_claim(const struct decider *d);
int round_capacity(const struct decider *d); /* tasks that may be claimed now */

#endif
