#include "tests/support/nth.h"

#include "tests/support/allocations.h"
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdio.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

enum { RUNS_MAX = 10000, UNSTRUCK_RUNS = 3 };

static atomic_long left; /* allocations until one fails; 0 = none */
static atomic_bool struck;

bool allocation_fails(void)
{
    if (atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1) {
        atomic_store(&struck, true);
        return true;
    }
    return false;
}

bool nth_struck(void)
{
    return atomic_load(&struck);
}

void nth_stop(void)
{
    atomic_store(&left, 0);
}

static bool any_leak(void)
{
#ifdef __SANITIZE_ADDRESS__
    return __lsan_do_recoverable_leak_check() != 0;
#else
    return false;
#endif
}

long nth_each(void (*run)(void *arg), void *arg)
{
    allocations_begin();
    long struck_runs = 0;
    /* threads do not always come equally far: only several runs without it are the end */
    for (long n = 1, unstruck = 0; n < RUNS_MAX && unstruck < UNSTRUCK_RUNS; n++) {
        atomic_store(&struck, false);
        atomic_store(&left, n);
        run(arg);
        nth_stop();
        if (any_leak()) {
            fail_msg("a leak after allocation %ld failed", n);
        }
        struck_runs += nth_struck();
        unstruck = nth_struck() ? 0 : unstruck + 1;
    }
    assert_in_range(struck_runs, 0, RUNS_MAX - 1 - UNSTRUCK_RUNS);
    return struck_runs;
}
