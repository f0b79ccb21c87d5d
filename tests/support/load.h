/* A load that goes on while faults happen, and the verdict afterwards.
 *
 * Two producers, processes of their own, commit a task of kind "a" (a pool handler's sleep of 20 to
 * 50 ms) together with a row of their own table public.placed; every tenth transaction is rolled
 * back. One uses plain SQL, the other libtenon. So placed says what must run, the journal what ran,
 * and tenon is not asked. */
#ifndef TENON_TESTS_SUPPORT_LOAD_H
#define TENON_TESTS_SUPPORT_LOAD_H

#include "tests/support/fixture.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { LOAD_PRODUCERS = 2 };

struct load_shared {
    atomic_bool stop;
    atomic_int_fast64_t commits, failures; /* transactions; a commit whose answer was lost fails */
    atomic_int_fast64_t slowest_us[LOAD_PRODUCERS]; /* the longest transaction since it was reset */
};

struct load {
    struct load_shared *shared;
    pid_t pids[LOAD_PRODUCERS];
};

/* Start the producers, each with so many transactions a second.
 *   amqp_url   of the producer with libtenon */
void load_start(struct load *l, struct fixture *fx, const char *amqp_url, int per_s);

/* Wait for their ends. */
void load_stop(struct load *l);

/* What the table and the journal say about the tasks up to an id. */
struct load_counts {
    int64_t placed, lost, phantom, doubled;
};

/* Wait until every task that is there now has ended; then count: nothing lost, nothing run that was
 * rolled back, and at most so many run twice. */
void load_check(struct fixture *fx, int64_t limit_ms, int64_t doubled_max, struct load_counts *ret);

/* Wait until so many handlers run at once: a fault that meets nothing proves nothing. */
void load_await_running(struct fixture *fx, int64_t n);

/* Wait for the first run that starts after `since_ns` (load_now_ns()); ret: how long after, ms. */
int64_t load_await_start(struct fixture *fx, int64_t since_ns, int64_t limit_ms);
int64_t load_now_ns(void);

/* TEST_LONG is set: the nightly variants. */
bool load_is_long(void);

#endif
