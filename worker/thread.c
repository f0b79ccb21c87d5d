#include "worker/thread.h"

#include "core/base/now.h"

bool thread_join(pthread_t id, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms);
    return pthread_clockjoin_np(id, NULL, CLOCK_MONOTONIC, &until) == 0;
}
