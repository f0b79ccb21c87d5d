/* How long a test waits, and how long a thing may take. Limits are written for a quiet machine,
 * about ten times what it needs there; on a busy one they are longer, and this is the only place
 * that says by how much. */
#ifndef TENON_TESTS_SUPPORT_PATIENCE_H
#define TENON_TESTS_SUPPORT_PATIENCE_H

#include <stdint.h>

/* A wait for an event ends after this many times its limit: it costs nothing where the event comes.
 * CMake multiplies the time limits of the test programs by the same number. */
enum { PATIENCE = TEST_PATIENCE };

/* When a wait that begins now gives up, on the clock of now_ms(). */
int64_t patience_end_ms(int64_t limit_ms);

/* The limit, multiplied by how many processes for each processor want to run, now or over the last
 * minute. On a quiet machine the limit itself. */
int64_t patience_loaded_ms(int64_t limit_ms);

/* Fail unless it has taken from `least_ms` to `most_ms` since `since_ms`, the latter on a quiet
 * machine. */
void assert_took_between(int64_t since_ms, int64_t least_ms, int64_t most_ms);
void assert_took(int64_t since_ms, int64_t most_ms);

#endif
