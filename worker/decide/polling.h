/* When to poll, and how: from where the last poll ended, or from the head of the index, which is a
 * sweep (worker/poll.h has the cursors, docs/decisions/0025-the-poll.md the reasons). */
#ifndef TENON_WORKER_DECIDE_POLLING_H
#define TENON_WORKER_DECIDE_POLLING_H

#include "core/base/throttle.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    POLL_ROWS_MAX = 10000, /* that one poll reads */
    POLL_EVERY_MS = 1000,  /* when nothing else calls for a poll */
    POLL_JITTER_MS = 250,
    POLL_PAUSE_MS = 50, /* after a poll that read so many rows and did not fill up */
    SWEEP_EVERY_MS = 1000,
    SWEEP_SHARE = 20, /* after a sweep, none begins for so many times as long as it took, */
    SWEEP_REST_MAX_MS = 10000, /* but for no longer than this */
    SWEEP_FULL_SHARE = 300,    /* likewise after one from the head; until then sweeps read */
    SWEEP_FULL_REST_MAX_MS = 60000,
    SWEEP_REACH_MS = 2000, /* only what was due so long ago, every second one twice that, */
    SWEEP_REACHES = 32,    /* every fourth four times that, and so on up to so many times (64 s) */
    POLL_LOWEST_EVERY_MS = 5000, /* in a backlog: one task from the lowest priority up */
};

/* On from where the last poll ended; anew from the head of the index; on from where that has got
 * to, from the highest priority down, or from the lowest up. */
enum poll_way { POLL_ON, POLL_SWEEP, POLL_SWEEP_ON, POLL_LOWEST };

/* It has read all that is ready now; or there may be more: it has claimed as much as it may, or
 * left something out, before or behind where polls go on; or it has read POLL_ROWS_MAX rows. */
enum poll_end { POLL_ALL, POLL_FULL_BEFORE, POLL_FULL, POLL_BOUNDED };

enum sweep {
    SWEEP_OVER,
    SWEEP_GOES_ON,
    SWEEP_HELD_UP, /* by a backlog of higher priority; goes on when that is over */
};

struct polling {
    int64_t next_ms, next_sweep_ms, next_full_ms, next_lowest_ms;
    bool at_once; /* told to, also while a poll is in flight: that may have begun too early */
    struct throttle told; /* polls because of that which found nothing */
    bool is_told;         /* the last one of POLL_ON was because of that */
    bool backlog;         /* the last poll came back full */
    enum sweep sweep;
    int64_t reach_ms; /* it reads what was due so long before it began; -1 = all, from the head */
    int64_t sweep_begun_ms;
    unsigned short_sweep;  /* which one of SWEEP_REACHES that do not come from the head */
    int64_t sweep_took_ms; /* its polls, together */
    bool sweep_found;      /* something is left, or may be */
    bool sweep_again;      /* one that began before now is not enough */
    unsigned turn;         /* rotates the queues */
};

/* Which poll is due? It goes into the next round; one of POLL_LOWEST is for one task. In a backlog
 * the polls decide what comes next, not the order of messages. */
bool polling_begin(struct polling *p, enum poll_way *ret, int64_t now_ms);

/* A sweep from the head is due. */
void polling_sweep_now(struct polling *p, int64_t now_ms);

/* Polls passed over what may be claimed from now on: sweep at once, from the head. */
void polling_sweep(struct polling *p, int64_t now_ms);

/* A task is ready again, and lies before where the polls go on: the next sweep from the head does
 * not wait longer than short ones do. */
void polling_given_back(struct polling *p, int64_t now_ms);

/* Its round has ended. `found`: a task, or not all kinds were asked for. */
void polling_end(struct polling *p, enum poll_way way, enum poll_end end, bool found,
                 int64_t took_ms, int64_t jitter_ms, int64_t now_ms);

/* What a poll of a sweep reads that begins now: what was due so long ago; -1 = all. */
int64_t polling_reach_ms(const struct polling *p, int64_t now_ms);

/* When the next one is due, when there is room. */
int64_t polling_due(const struct polling *p);

#endif
