#include "worker/thread.h"

#include <time.h>

bool thread_join(pthread_t id, int64_t limit_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    until.tv_nsec += limit_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_clockjoin_np(id, NULL, CLOCK_MONOTONIC, &until) == 0;
}
