#include "core/base/now.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

int64_t now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t now_ms(void)
{
    return now_us() / 1000;
}

int64_t now_unix_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void now_text(char text[NOW_TEXT_BYTES])
{
    struct timespec ts;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(text, NOW_TEXT_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text + n, NOW_TEXT_BYTES - n, ".%03dZ", (int)(ts.tv_nsec / 1000000));
}

struct timespec now_after(int64_t ms)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += ms / 1000;
    ts.tv_nsec += ms % 1000 * 1000000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    return ts;
}

uint64_t now_jitter(uint64_t n)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        random = (uint64_t)now_us();
    }
    return random % n;
}

int64_t now_pause_ms(int failures, int64_t min_ms, int64_t max_ms)
{
    int64_t pause_ms = min_ms;
    for (int i = 1; i < failures && pause_ms < max_ms; i++) {
        pause_ms *= 2;
    }
    pause_ms = pause_ms > max_ms ? max_ms : pause_ms;
    return pause_ms / 2 + (int64_t)now_jitter((uint64_t)pause_ms / 2 + 1);
}
