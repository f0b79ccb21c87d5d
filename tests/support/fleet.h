/* Two workers, a cleaner and two producers, which go on while a server fails. */
#ifndef TENON_TESTS_SUPPORT_FLEET_H
#define TENON_TESTS_SUPPORT_FLEET_H

#include "tests/support/load.h"
#include "tests/support/working.h"

enum {
    FLEET_WORKERS = 2,
    FLEET_PER_S = 25,         /* transactions a second of each producer */
    FLEET_PRODUCER_MS = 1000, /* the longest that a transaction may take, whatever RabbitMQ does */
    FLEET_JUDGE_MS = 18000,   /* VERDICT_PATIENCE_MS, and time for two checks */
    FLEET_UP_MS = 15000,      /* until everything is connected again: pauses go up to 10 s */
    FLEET_WOKEN_MS = 60, /* the median from commit to start when messages wake; else about 500 */
    FLEET_WITHOUT_MS = 1000, /* the median that polls keep */
};

struct fleet {
    struct fixture *fx;
    struct process *workers[FLEET_WORKERS], *cleaner;
    struct load load;
};

/* Start all, and await their connections to RabbitMQ, where the queue `default` is. */
void fleet_start(struct fleet *all, struct fixture *fx);

/* When the producers have stopped: see that no task is left, end the others with SIGTERM. */
void fleet_end(struct fleet *all);

/* The teardown of a group whose state is its fleet, or NULL where none was started: the fixture and
 * the program's own servers. */
int fleet_close(void **state);

/* Lines of all workers' logs; and until there are so many. */
size_t fleet_lines(const struct fleet *all, const char *text);
void fleet_await_lines(const struct fleet *all, const char *text, size_t n);

void fleet_signal_workers(const struct fleet *all, int signal);
void fleet_signal_all(const struct fleet *all, int signal); /* producers too */

/* After a fault of RabbitMQ: wait until what was placed has run; nothing is lost, phantom or
 * doubled, no producer waited for it, and nobody is declared dead or has ended. */
void fleet_check(struct fleet *all, const char *fault);

/* Wait until the cleaner's session is so old that it judges workers, and has checked twice. */
void fleet_await_judge(const struct fleet *all);

/* For at least so long, whatever is placed is found by polls, half of it within
 * FLEET_WITHOUT_MS. */
void fleet_do_without(struct fleet *all, int64_t ms);

/* Wait until tasks start as fast as only messages make them; prints how long that took. */
void fleet_await_woken(struct fleet *all, const char *fault);

#endif
