/* Loaded into the program tenon with LD_PRELOAD: the machine's clock is TEST_CLOCK_MS ahead. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int clock_gettime(clockid_t clock, struct timespec *ret)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *ahead_ms = getenv("TEST_CLOCK_MS");
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int code = real(clock, ret);
    if (code == 0 && clock == CLOCK_REALTIME && ahead_ms) {
        ret->tv_sec += strtol(ahead_ms, NULL, 10) / 1000;
    }
    return code;
}
