/* Workers of a test: started, woken up, ended. */
#ifndef TENON_TESTS_SUPPORT_WORKING_H
#define TENON_TESTS_SUPPORT_WORKING_H

#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/journal.h"
#include "tests/support/process.h"

enum { LIMIT_MS = 30000 };

/* "a=COMMAND" with the path of a handler of tests/support/handlers. */
const char *handler(char text[256], const char *format, const char *name);

/* A worker for kind "a" with tests/support/handlers/pool.c as a pool. */
struct process *pool_worker(struct fixture *fx, const char *slots, const char *in_flight);

/* A wake-up as any application may send it. */
void publish(struct fixture *fx, int64_t id);

/* The exchange, and the queue of kind "a" in `default` as a worker declares it. */
void declare(struct fixture *fx);

/* Wait until so many tasks are done. */
void await_done(struct fixture *fx, int64_t n);

/* Requeue what killed workers ran, as a leading cleaner does it, without the 15 s that it waits
 * first; `cleaner --once` leaves that to the leader. No worker may be alive. */
void recover_at_once(struct fixture *fx);

/* SIGTERM; the worker must exit with 0. */
void end_well(struct process *p);

/* By the journal: so many tasks, each started exactly once. */
void assert_each_ran_once(struct fixture *fx, size_t tasks);

#endif
