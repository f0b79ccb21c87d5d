/* Which committed rows are news: a watermark on task ids that keeps its gaps.
 *
 * Ids are handed out before the commit, so a lower id can become visible after a higher one. An
 * id below the watermark that was not there yet is a gap, and is asked for by id, ever less
 * often, until it is seen, or was not there when all transactions that could have held it were
 * over (a rollback, or the task has ended already), or WATERMARK_GAP_MS have passed (a very long
 * transaction: its rows are found by polls). */
#ifndef TENON_CLEANER_DECIDE_WATERMARK_H
#define TENON_CLEANER_DECIDE_WATERMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATERMARK_GAPS_MAX = 4096, /* more gaps than that: the lowest are forgotten */
    WATERMARK_GAP_MS = 5000,
    WATERMARK_ASK_MS = 20, /* the first pause between two questions for a gap; it doubles */
};

struct watermark_gap {
    int64_t id;
    int64_t since_ms;
    int64_t ask_ms;
    int64_t fence;   /* a transaction that holds it is below this */
    bool seen, over; /* was there; cannot come any more: it goes with the next question */
};

struct watermark {
    int64_t id;         /* the highest id seen */
    int64_t xmin, next; /* of the last read; 0 = none yet */
    size_t n;
    struct watermark_gap gaps[WATERMARK_GAPS_MAX]; /* by id */
};

/* Start over: rows up to `id` are old, and nothing is missing below it. */
void watermark_start(struct watermark *w, int64_t id);

/* The gaps to ask for now, ascending; forgets those that are too old.
 *   all   every gap, not only those whose pause is over
 *   ids   room for WATERMARK_GAPS_MAX
 *   ret   how many */
size_t watermark_ask(struct watermark *w, int64_t now_ms, bool all, int64_t *ids);

/* Of the rows that follow: all transactions below `xmin` are over, and `next` is the next
 * transaction to begin to write. */
void watermark_snapshot(struct watermark *w, int64_t xmin, int64_t next);

/* The row `id` was read. Ids above the watermark must come in ascending order.
 *   ret   true: it is news; false: it was seen before */
bool watermark_see(struct watermark *w, int64_t id, int64_t now_ms);

#endif
