/* How far the polls have read: a cursor for each queue and priority, each worker its own.
 *
 * A poll continues behind its cursors. Tasks that are committed late, or given back, lie before
 * them; so a sweep comes from the head of the index, with cursors of its own, in as many polls as
 * it takes: each reads a bounded number of rows. Both read on past what they could not claim, so
 * that a million rows of a kind without a handler are read once by polls, and sometimes by sweeps.
 * Rows that were deleted since do not count, and a held snapshot keeps them in the index: after a
 * poll that was slow and found an end, the next leave to sweeps what was due before it.
 *
 * A range costs a descent into the index, found or not, and a worker of 100 queues has 1,000. So
 * what was just found empty is left out for a moment, unless the poll then does not fill up.
 * When which of them is due: worker/decide/polling.h; why: docs/decisions/0025-the-poll.md */
#ifndef TENON_WORKER_POLL_H
#define TENON_WORKER_POLL_H

#include "core/base/fault.h"
#include "worker/decide/polling.h"

enum {
    POLL_PRIORITIES = 10,
    POLL_EMPTY_MS = 5, /* an empty range is left out this long, times the number of queues */
    POLL_SLOW_MS = 10,
    POLL_LATE_MS = 1000, /* after a slow poll, commits that come later than this wait for a sweep */
};

/* A place in the index (queue, priority, run_at, id). */
struct poll_place {
    int64_t run_at_us, id; /* microseconds since 1970; INT64_MIN = the head of the index */
};

struct poll_cursor {
    struct poll_place next;  /* where polls continue */
    struct poll_place sweep; /* where the sweep does, */
    bool swept;              /* unless it has come to `next` */
    int64_t empty_until_ms;
};

/* What the poll in flight reads, in this order. */
struct poll_range {
    size_t queue;
    int priority;
    struct poll_place from, to; /* `to` is as early as `from` until the poll has read there */
};

struct poll {
    size_t n_queues;
    struct poll_cursor *cursors; /* [queue][priority] */
    struct poll_range *ranges;   /* as many, of which the poll in flight reads `n_ranges` */
    size_t n_ranges;
    enum poll_way way;
    bool ask_all;              /* the next one leaves nothing out */
    int64_t reach_ms;          /* a sweep only reads what was due this long ago; -1 = all */
    bool sweep_was_short;      /* the last one that began */
    int64_t begun_ms, slow_ms; /* the poll in flight, and the last slow one; INT64_MIN = none */
};

MUST_CHECK bool poll_init(struct poll *p, size_t n_queues, struct fault *f);
void poll_clear(struct poll *p);

/* Which ranges to read: by priority, the highest first, and in each from the queue number `turn`
 * on. One that fails needs no word: the cursors stay where they were. */
void poll_begin(struct poll *p, enum poll_way way, int64_t reach_ms, unsigned turn, int64_t now_ms);

/* From how many milliseconds ago on it reads, or -1: from ever. */
int64_t poll_reach_ms(const struct poll *p);

/* The last row that was read of the range number `i`. */
void poll_read_to(struct poll *p, size_t i, struct poll_place place);

/* It has ended: it has read all, or is full, or bounded. ret: how, all in all: where something was
 * left out there may be more, and a full one may not have come to where polls continue */
enum poll_end poll_end(struct poll *p, enum poll_end end, int64_t now_ms);

#endif
