/* The journal: what handlers themselves say about their runs. Verdicts come from it.
 *
 * Handlers append with O_APPEND to the file TEST_JOURNAL, one line per write(2):
 *   <task id> <number of the claim> <pid> start|end <CLOCK_REALTIME, nanoseconds> */
#ifndef TENON_TESTS_SUPPORT_JOURNAL_H
#define TENON_TESTS_SUPPORT_JOURNAL_H

#include "tests/support/fixture.h"

struct journal_run {
    int64_t id;
    int claims;
    int pid;
    int64_t start_ns;
    int64_t end_ns; /* 0 = it did not end */
};

struct journal {
    size_t n;
    struct journal_run *runs; /* in the order in which they started */
};

/* Read the whole journal. A line that is none, or an end without its start, fails the test. */
void journal_read(const struct fixture *fx, struct journal *ret);
void journal_clear(struct journal *j);

size_t journal_runs(const struct journal *j, int64_t id);  /* started */
size_t journal_ended(const struct journal *j, int64_t id); /* started and ended */
size_t journal_tasks(const struct journal *j);             /* different ids that started */

/* Pairs of runs of one task that overlap. A run that did not end counts as ended at its start: its
 * process was killed, and nobody knows when. */
size_t journal_overlaps(const struct journal *j);

/* The most runs that went on at one moment; of one process when pid > 0. */
size_t journal_most_at_once(const struct journal *j, int pid);

/* The runs as a table: run (id, claims, start_us, end_us), end_us NULL = it did not end. */
void journal_store(const struct fixture *fx, const struct journal *j);

/* Wait until the journal holds this many ended (or started) runs. */
void journal_await_ended(const struct fixture *fx, size_t n, int64_t limit_ms);
void journal_await_started(const struct fixture *fx, size_t n, int64_t limit_ms);

#endif
