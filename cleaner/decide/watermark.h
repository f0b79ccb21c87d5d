/* Which committed rows are news: a watermark on task ids that keeps its gaps.
 *
 * Ids are handed out before the commit, so a lower id can become visible after a higher one. An
 * id below the watermark that was not there yet is a gap. It can only appear when one of the
 * transactions ends that were in progress when it was found: when one has, it is asked for by id,
 * after pauses that grow up to a second, until it is seen, or was not there after the end of all (a
 * rollback, or the task has ended already), or WATERMARK_GAP_MS have passed (a very long
 * transaction: its rows are found by polls). */
#ifndef TENON_CLEANER_DECIDE_WATERMARK_H
#define TENON_CLEANER_DECIDE_WATERMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATERMARK_GAPS_MAX = 16384, /* more gaps than that: the lowest are forgotten */
    WATERMARK_GAP_MS = 3600000,
    WATERMARK_ASK_MS = 20,        /* the first pause between two questions for a gap; it doubles, */
    WATERMARK_ASK_MAX_MS = 1000,  /* up to this */
    WATERMARK_RUNNING_MAX = 1024, /* transactions told apart; those above count as running */
};

struct watermark_gap {
    int64_t id;
    int64_t since_ms;
    int64_t ask_ms;   /* when the pause is over */
    int64_t fence;    /* a transaction that holds it is below this */
    int64_t running;  /* how many of those ran when it was missing last */
    int64_t ended_ms; /* when one of them was last seen to have ended */
    bool asked;       /* in the read under way */
    bool late;        /* it was missing WATERMARK_ASK_MS after that, or later */
    bool seen, over;  /* was there; cannot come any more: it goes with the next question */
};

/* Which transactions were in progress as a statement began. */
struct snapshot {
    size_t n;
    int64_t running[WATERMARK_RUNNING_MAX]; /* ascending */
    int64_t xmax;                           /* from this one on all were */
    int64_t next;                           /* the next to begin */
};

struct watermark {
    int64_t id;               /* the highest id seen */
    int64_t asked_ms;         /* the last question */
    struct snapshot snapshot; /* of the last read */
    size_t n;
    struct watermark_gap gaps[WATERMARK_GAPS_MAX]; /* by id */
};

/* `running`: those below xmax, numbers with blanks between them, ascending. */
void snapshot_read(struct snapshot *s, const char *running, int64_t xmax, int64_t next);

/* Start over: rows up to `id` are old, and nothing is missing below it. */
void watermark_start(struct watermark *w, int64_t id);

/* The gaps to ask for now, ascending; forgets those that are too old.
 *   all   whether their pauses are over or not
 *   ids   room for WATERMARK_GAPS_MAX
 *   ret   how many */
size_t watermark_ask(struct watermark *w, int64_t now_ms, bool all, int64_t *ids);

/* Has a transaction ended, by the last read, that may have held a gap? */
bool watermark_has_ended(const struct watermark *w, int64_t now_ms);

/* The read of which the rows follow saw this. */
void watermark_snapshot(struct watermark *w, const struct snapshot *s);

/* The row `id` was read. Ids above the watermark must come in ascending order.
 *   ret   true: it is news; false: it was seen before */
bool watermark_see(struct watermark *w, int64_t id, int64_t now_ms);

#endif
