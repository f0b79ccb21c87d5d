/* The way through one queue's overlooked rows: by (run_at, id), each row once per sweep, so that
 * a row that nobody can run is not published every second. A sweep that published something is
 * followed by a pause that doubles up to SWEEP_PAUSE_MAX_MS, one that found nothing by
 * SWEEP_IDLE_MS. */
#ifndef TENON_CLEANER_DECIDE_SWEEP_H
#define TENON_CLEANER_DECIDE_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SWEEP_IDS_MAX = 500, /* rows of one queue at a time */
    SWEEP_PAUSE_MIN_MS = 2000,
    SWEEP_PAUSE_MAX_MS = 60000,
    SWEEP_IDLE_MS = 5000,
};

struct sweep {
    int64_t after_us; /* run_at of the last row, microseconds since 1970; 0 = at the beginning */
    int64_t after_id;
    int64_t due_ms;
    int64_t pause_ms;
    bool published; /* in this sweep */
};

/* What the next statement takes for this queue. */
struct sweep_plan {
    size_t limit; /* 0 = nothing now */
    size_t skip;  /* oldest rows that are left out: their wake-ups wait in the broker */
};

/*   room     how many ids the broker takes for the queue; < 0 = not known
 *   window   how many it may hold */
struct sweep_plan sweep_plan(const struct sweep *s, int64_t room, int64_t window, int64_t now_ms);

/* The statement returned `n` rows of at most plan.limit, the last of them (after_us, after_id). */
void sweep_done(struct sweep *s, struct sweep_plan plan, size_t n, int64_t after_us,
                int64_t after_id, int64_t now_ms);

#endif
