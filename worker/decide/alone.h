/* Suspects: tasks that have crashed, and may be why their workers died. A worker that has a turn
 * runs them one after the other, each in a new child, while nothing else runs here:
 *
 *   NOT --has a turn--> EMPTIES --nothing runs, claims a suspect--> RUNS --it has ended--> EMPTIES
 *                            |--no suspect is left; out of patience or time--> OVER --> NOT
 *
 * In all states except NOT the worker claims no other tasks. */
#ifndef TENON_WORKER_DECIDE_ALONE_H
#define TENON_WORKER_DECIDE_ALONE_H

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct round;

enum {
    ALONE_ASK_MS = 1000,       /* how often a worker asks for the turn */
    ALONE_FIRST_MS = 3000,     /* a new worker does ordinary work first */
    ALONE_TURN_MS = 2000,      /* how long a turn is; ordinary work for as long follows */
    ALONE_PATIENCE_MS = 30000, /* for running tasks to end; doubled each time it was too short */
    ALONE_PATIENCE_MAX_MS = 30 * 24 * 3600 * 1000LL,
};

enum alone_state { ALONE_NOT, ALONE_EMPTIES, ALONE_RUNS, ALONE_OVER };

/* What a round asks for: the turn, a suspect, the end of the turn. */
enum alone_ask { ALONE_ASK_NOTHING, ALONE_ASK_TURN, ALONE_ASK_CLAIM, ALONE_ASK_OVER };

struct alone {
    enum alone_state state;
    int64_t ask_ms;      /* NOT: when to ask for the turn */
    int64_t since_ms;    /* when the turn began */
    int64_t patience_ms; /* how long EMPTIES may last in this turn */
};

void alone_reset(struct decider *d, int64_t now_ms); /* the worker does not have the turn */

/* Close idle children before and after a suspect, and end the turn in time. */
void alone_decide(struct decider *d, int64_t now_ms);

/* What goes into the next round, when that is due, and its answer. */
void alone_plan(struct decider *d, struct round *x, int64_t now_ms);
int64_t alone_due(const struct decider *d);
void alone_done(struct decider *d, const struct round *x, int64_t now_ms);

#endif
