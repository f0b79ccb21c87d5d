/* What handlers say of running tasks: how far they are (progress), and the steps that they record.
 *
 *   progress   the last one said replaces older ones; at most one a second is written for each task
 *   a step     each one is written, at once and in order; its child is told when it is committed
 *
 * An outcome other than "done" waits until both are written, so that the next attempt has them. */
#ifndef TENON_WORKER_DECIDE_WRITES_H
#define TENON_WORKER_DECIDE_WRITES_H

#include "worker/decide/event.h"

struct decider;
struct round;

enum {
    PROGRESS_BYTES_MAX = 64 << 10,    /* of one, as PostgreSQL prints it */
    PROGRESS_EVERY_MS = 1000,         /* how often that of running tasks is written */
    STEPS_BYTES_MAX = 1 << 20,        /* of all steps of a task, as PostgreSQL prints them */
    ROUND_WRITES_MAX = 1024,          /* steps and progress that one round writes */
    ROUND_WRITES_BYTES_MAX = 8 << 20, /* their lines together, without the last one's */
};

/* MISSED: the row is locked, or it is another claim's by now. */
enum write_state { WRITE_MISSED, WRITE_REFUSED, WRITE_WRITTEN };

/* One step or the progress of one task. It outlives its claim while a round has it. */
struct write {
    int64_t id, key; /* of the claim */
    int handler;
    bool is_step;
    bool queued; /* it is in d->writes */
    char name[STEP_NAME_BYTES];
    char *line; /* JSON object whose key "step" or "progress" is kept; NULL = none; owned */
    size_t bytes;
    int64_t timeout_ms;     /* with progress: the deadline was extended to that; 0 = it was not */
    enum write_state state; /* the answer */
    int slow;               /* as of a claim */
    struct write *prev, *next;
};

/* A line about a running task: EVENT_PROGRESS, EVENT_STEP. */
void writes_progress(struct decider *d, const struct event *event, int64_t now_ms);
void writes_step(struct decider *d, const struct event *event);

/* The claim has an outcome: must that wait for something to be written? */
bool writes_go_first(struct decider *d, struct claim *c);

/* The claim is done, or not ours any more: what no round has is dropped. */
void writes_forget(struct decider *d, struct claim *c);

bool writes_plan(struct decider *d, struct round *x, int64_t now_ms); /* false: there are none */
int64_t writes_due(const struct decider *d);

void writes_done(struct decider *d, struct round *x, int64_t now_ms);
void writes_failed(struct decider *d, struct round *x);
void writes_free(struct decider *d, struct round *x); /* those of the round in flight */

#endif
