/* Steps that handlers record of running tasks. Each is written at once, in the order in which they
 * were said, and its child is told when it is committed (worker/step.sql). */
#ifndef TENON_WORKER_DECIDE_STEP_H
#define TENON_WORKER_DECIDE_STEP_H

#include "worker/decide/event.h"

struct decider;
struct round;

enum {
    STEPS_BYTES_MAX = 1 << 20,       /* of all steps of a task, as PostgreSQL prints them */
    ROUND_STEPS_MAX = 1024,          /* that one round writes */
    ROUND_STEPS_BYTES_MAX = 8 << 20, /* but for the last one's */
};

enum step_state { STEP_MISSED, STEP_REFUSED, STEP_RECORDED };

/* The claim may end meanwhile, so it holds the fence, and its own texts. */
struct step {
    int64_t id, key;
    int handler;
    char name[STEP_NAME_BYTES];
    char *line; /* JSON object whose key "step" is kept; owned */
    size_t bytes;
    enum step_state state; /* the answer */
    int slow;              /* as of a claim */
    struct step *prev, *next;
};

/* A line about a running task: EVENT_STEP. */
void step_take(struct decider *d, const struct event *event);

/* The claim ended well, or is not ours any more. */
void step_forget(struct decider *d, const struct claim *c);

/* Into the next round. The outcomes of the tasks that said them go in one after it, when they are
 * written: else a lock on the row, which both statements pass over, might be gone in between. */
void step_plan(struct decider *d, struct round *x, int64_t now_ms);
int64_t step_due(const struct decider *d);

void step_done(struct decider *d, struct round *x, int64_t now_ms);
void step_failed(struct decider *d, struct round *x);
void step_free_all(struct decider *d); /* those of the round in flight as well */

#endif
