/* The model of a worker's child processes (worker/children.c) and of the handlers in them, good
 * and bad. */
#ifndef TENON_TESTS_SIM_CHILDREN_H
#define TENON_TESTS_SIM_CHILDREN_H

#include "tests/sim/statements.h"

struct node;

enum { SLOTS = 4, RUNS_MAX = 8, CHUNK_RUNS_MAX = 6 };

enum mood {
    MOOD_ANSWER,
    MOOD_CRASH, /* ends without an answer */
    MOOD_HANG,  /* never ends */
    MOOD_TWICE, /* answers twice */
};

/* A task that a child has. */
struct run {
    struct fence fence;
    int worker;
    int entry; /* in the journal, -1 = not begun */
    enum mood mood;
    enum claim_outcome outcome;
    int64_t session; /* of its own transaction that finishes it, 0 = none */
    int said;        /* its progress */
    int steps;       /* that it has said */
    int64_t ends_us; /* with such a transaction: when it commits */
};

struct child {
    int64_t id; /* 0 = there is none */
    bool pool, ready, hears, closing, deaf, dying, pipe_closed;
    int handler, width, n_runs;
    struct run runs[RUNS_MAX];
};

void child_spawn(struct sim *s, struct node *n, int slot, int handler, const struct claim *c);
/* The first of `count` in its list. */
void child_give(struct sim *s, struct node *n, int slot, const struct claim *c, int count);
void child_close(struct sim *s, struct node *n, int slot);
void child_tell_stop(struct sim *s, struct node *n, int slot, int64_t id);
void child_tell_step(struct sim *s, struct node *n, int64_t id, int number);
void child_signal(struct sim *s, struct node *n, int slot, int signal);
void children_abandon(struct sim *s, struct node *n); /* they die with their worker */

#endif
