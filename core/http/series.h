/* What is counted by queue and kind: a few counters and a histogram of times for each pair.
 *
 * However many names there are, only the first SERIES_MAX pairs have their own; all others are
 * counted together, as "(other)". One thread counts, without a lock; any may write it out. */
#ifndef TENON_CORE_SERIES_H
#define TENON_CORE_SERIES_H

#include "core/base/buf.h"

enum {
    SERIES_MAX = 200,     /* pairs of queue and kind */
    SERIES_COUNTERS = 10, /* of a pair, at most */
    SERIES_BUCKETS = 15,  /* of the histogram, but for the last, which has no bound */
};
#define SERIES_OTHER "(other)"

struct series;
struct pair; /* the series of one queue and kind */

struct series *series_new(void); /* NULL when there is no memory */
void series_free(struct series *s);

/* Never NULL. Lives as long as the series. */
struct pair *series_of(struct series *s, const char *queue, const char *kind);

void series_count(struct pair *p, int counter);
void series_time(struct pair *p, int64_t us);

/* `n` times that were added up elsewhere.
 *   bucket   0..SERIES_BUCKETS, see series_bounds() */
void series_times(struct pair *p, int bucket, int64_t n, int64_t sum_us);

/* "{0.005,0.01,...}": the upper bounds of the buckets in seconds, as an array of PostgreSQL. */
void series_bounds(struct buf *b);

/* Write a family: counters, whose `label` says which (words[i] for counter i); the histograms. */
void series_write_counters(struct series *s, struct buf *b, const char *name, const char *help,
                           const char *label, const char *const *words, int n);
void series_write_times(struct series *s, struct buf *b, const char *name, const char *help);

#endif
