/* A short flow of tasks for one round of tests/faults/crash_points_test.c: two producers, processes
 * of their own, one with libtenon and one with plain SQL.
 *
 * Each transaction enqueues a task and notes it in the application's own table public.placed; every
 * eighth is rolled back. Tasks last 20 ms; every fifth does its effect and tenon.finish() in one
 * transaction, every fifth asks once for a later run.
 *
 * After FLOW_BURST tasks a producer goes on slowly until it is told to stop: whoever starts late,
 * on a busy machine, still meets tasks, and no backlog grows. */
#ifndef TENON_TESTS_SUPPORT_FLOW_H
#define TENON_TESTS_SUPPORT_FLOW_H

#include "tests/support/fixture.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { FLOW_BURST = 40, FLOW_PRODUCERS = 2, FLOW_LIBTENON = 0 };

struct flow_settings {
    const char *kind; /* "a" with the tasks above; any other kind with tasks without payload */
    int timeout_ms;   /* of each task; 0 = the default */
    int again_ms;     /* how much longer a task lasts after its first claim */
    const char *const *env; /* of the producer with libtenon, "NAME=value", ends with NULL */
};

struct flow {
    atomic_bool *stop; /* shared with the producers */
    pid_t pids[FLOW_PRODUCERS];
    bool gone[FLOW_PRODUCERS];
    int status[FLOW_PRODUCERS]; /* exit code, or 128 + signal; when gone */
};

/* Make public.placed (task, finish, later) and public.effect (task). */
void flow_tables(struct fixture *fx);

/* Start the producers. */
void flow_start(struct flow *f, struct fixture *fx, const struct flow_settings *settings);

/* Ask them to end after the transaction they are in. */
void flow_stop(struct flow *f);

/* Wait for the end of one. */
void flow_await_end(struct flow *f, int producer, int64_t limit_ms);

/* The end of both, by force if need be. */
void flow_clear(struct flow *f);

#endif
