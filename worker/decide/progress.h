/* What handlers say of running tasks: how far they are, and how much time they need. The last word
 * of each task is kept, and written now and then, many in one statement (worker/progress.sql). */
#ifndef TENON_WORKER_DECIDE_PROGRESS_H
#define TENON_WORKER_DECIDE_PROGRESS_H

#include "worker/decide/event.h"

struct decider;
struct round;

enum {
    PROGRESS_BYTES_MAX = 64 << 10,      /* of one, as PostgreSQL prints it */
    PROGRESS_EVERY_MS = 1000,           /* that of a running task is written no more often */
    ROUND_PROGRESS_MAX = 1024,          /* tasks whose progress one round writes */
    ROUND_PROGRESS_BYTES_MAX = 8 << 20, /* but for the last one's */
};

enum progress_state { PROGRESS_MISSED, PROGRESS_REFUSED, PROGRESS_WRITTEN };

/* One task's in a round. The claim may end meanwhile, so it holds its own text. */
struct progress {
    int64_t id, key;
    char *line;                /* JSON object whose key "progress" is kept; NULL = none */
    int64_t timeout_ms;        /* it has been extended to that; 0 = it has not */
    enum progress_state state; /* the answer */
};

/* A line about a running task: EVENT_PROGRESS. */
void progress_take(struct decider *d, const struct event *event, int64_t now_ms);

/* The claim has an outcome: must steps or progress be written before that is told? */
bool progress_goes_first(const struct claim *c);

void progress_forget(struct decider *d, struct claim *c);

/* Into the next round: what `saying` tasks said, and running ones, when it is time; of `c`. */
void progress_plan(struct decider *d, struct round *x, int64_t now_ms);
bool progress_add(struct decider *d, struct round *x, struct claim *c); /* false: it is full */
int64_t progress_due(const struct decider *d);

void progress_done(struct decider *d, struct round *x, int64_t now_ms);
void progress_failed(struct decider *d, struct round *x);
void progress_free(struct round *x); /* of the round in flight */

#endif
