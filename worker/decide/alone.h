/* Suspects: tasks that have crashed, and might have been what ended their workers. A worker that
 * has the turn runs them one at a time, each in a child of its own and with nothing beside it:
 *
 *   NOT --a turn is given--> EMPTIES --nothing runs, one is claimed--> RUNS --it is told--> EMPTIES
 *                              |--no suspect is left; patience or the turn is over--> OVER --> NOT
 *
 * While it is not NOT, it claims nothing else. */
#ifndef TENON_WORKER_DECIDE_ALONE_H
#define TENON_WORKER_DECIDE_ALONE_H

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct round;

enum {
    ALONE_ASK_MS = 1000,   /* how often it asks for a turn */
    ALONE_FIRST_MS = 3000, /* a new worker does ordinary work first */
    ALONE_TURN_MS = 2000,  /* then it claims no further suspect; as much ordinary work follows */
    ALONE_PATIENCE_MS = 30000, /* for running tasks to end; doubled each time it was not enough */
    ALONE_PATIENCE_MAX_MS = 30 * 24 * 3600 * 1000LL,
};

enum alone_state { ALONE_NOT, ALONE_EMPTIES, ALONE_RUNS, ALONE_OVER };

/* What a round asks for. */
enum alone_ask { ALONE_ASK_NOTHING, ALONE_ASK_TURN, ALONE_ASK_CLAIM, ALONE_ASK_OVER };

struct alone {
    enum alone_state state;
    int64_t ask_ms;      /* NOT: not before then is a turn asked for */
    int64_t since_ms;    /* it has the turn */
    int64_t patience_ms; /* from then on */
};

void alone_reset(struct decider *d, int64_t now_ms); /* the turn, if it has it, is no longer its */

/* Its children go; is the turn over? */
void alone_decide(struct decider *d, int64_t now_ms);

/* What goes into the next round, and when it must be asked; its answer. */
void alone_plan(struct decider *d, struct round *x, int64_t now_ms);
int64_t alone_due(const struct decider *d);
void alone_done(struct decider *d, const struct round *x, int64_t now_ms);

#endif
