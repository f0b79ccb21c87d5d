/* How long tasks waited, how their runs ended, and how long they took, by queue and kind. */
#ifndef TENON_WORKER_DECIDE_TALLY_H
#define TENON_WORKER_DECIDE_TALLY_H

struct decider;
struct claim;

/* Each run that ended is one of these. */
enum tally {
    TALLY_DONE,
    TALLY_FAILED,
    TALLY_TIMED_OUT,
    TALLY_SNOOZE,
    TALLY_WAIT_SIGNAL,
    TALLY_DEAD, /* for any reason */
    TALLY_RELEASED,
    TALLY_CRASHED,
    TALLY_LOST, /* the claim was not ours any more, or the task was cancelled */
    TALLIES
};

extern const char *const tally_words[TALLIES];

/* The histograms of the series. */
enum tally_times { TALLY_WAITS, TALLY_RUNS };

/* The task was claimed. */
void tally_started(const struct decider *d, const struct claim *c);

/* The database knows how its run ended. */
void tally_ended(const struct decider *d, const struct claim *c, enum tally how);

#endif
