/* The clocks. Only the edge reads them; deciding files are given the time. */
#ifndef TENON_CORE_NOW_H
#define TENON_CORE_NOW_H

#include <stdint.h>
#include <time.h>

/* Milliseconds on a clock that never jumps and continues while the machine is suspended. */
int64_t now_ms(void);

/* The same clock in microseconds. */
int64_t now_us(void);

/* Nanoseconds since 1970 by the wall clock, which may jump. For spans only. */
int64_t now_unix_ns(void);

/* "2026-01-31T12:34:56.789Z", into a buffer of NOW_TEXT_BYTES. For log lines only. */
enum { NOW_TEXT_BYTES = 32 };
void now_text(char text[NOW_TEXT_BYTES]);

/* So many milliseconds from now on CLOCK_MONOTONIC, for pthread's timed waits. */
struct timespec now_after(int64_t ms);

/* A random number below `n` (n > 0), for jitter. Not for secrets. */
uint64_t now_jitter(uint64_t n);

/* A pause before the next try to connect: min_ms, doubled by each failure up to max_ms. Its second
 * half is left to chance: who lost a server together does not come back in step.
 *   failures   how many tries failed in a row, 1.. */
int64_t now_pause_ms(int failures, int64_t min_ms, int64_t max_ms);

#endif
