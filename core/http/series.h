/* What is counted by queue and kind: a few counters and two histograms of times for each pair.
 *
 * However many names there are, only the first SERIES_MAX pairs have their own; all others are
 * counted together, as "(other)". One thread counts, without a lock; any may read. */
#ifndef TENON_CORE_SERIES_H
#define TENON_CORE_SERIES_H

#include "core/base/buf.h"

enum {
    SERIES_MAX = 200,     /* pairs of queue and kind */
    SERIES_COUNTERS = 10, /* of a pair, at most */
    SERIES_TIMES = 2,     /* histograms of a pair */
    SERIES_BUCKETS = 19,  /* of a histogram, except the last one, which has no bound */
};
#define SERIES_OTHER "(other)"

/* The last time that a bucket counts; and in seconds. */
extern const struct series_bound {
    int64_t us;
    const char *text;
} series_bounds[SERIES_BUCKETS];

struct series;
struct pair; /* the series of one queue and kind */

struct series *series_new(void); /* NULL when there is no memory */
void series_free(struct series *s);

/* Never NULL. Lives as long as the series. Its counters are shown from then on, from 0. */
struct pair *series_of(struct series *s, const char *queue, const char *kind);

void series_count(struct pair *p, int counter);
void series_time(struct pair *p, int histogram, int64_t us);

/* The sums of a pair. */
struct series_sums {
    const char *queue, *kind; /* live as long as the series */
    int64_t counters[SERIES_COUNTERS];
    int64_t times[SERIES_TIMES], times_us[SERIES_TIMES]; /* how many, and all together */
    int64_t buckets[SERIES_TIMES][SERIES_BUCKETS + 1];   /* each for itself */
};

/* Pair `i` in the order in which they came; SERIES_MAX is that of all others.
 *   false   there is no pair `i` yet */
MUST_CHECK bool series_read(struct series *s, size_t i, struct series_sums *ret);

/* Write a family: counters, whose `label` says which (words[i] for counter i); a histogram. */
void series_write_counters(struct series *s, struct buf *b, const char *name, const char *help,
                           const char *label, const char *const *words, int n);
void series_write_times(struct series *s, struct buf *b, int histogram, const char *name,
                        const char *help);

#endif
