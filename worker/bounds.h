/* From which run_at on an ordered claim looks, per queue and priority.
 *
 * Rows that were claimed leave dead entries at the front of the index, and while any transaction
 * of the database is older, nobody can clear them away. So a look begins where the last one
 * ended; and so that rows which were committed late, with an older run_at, are found as well,
 * one look begins at the very front: once a second, or less often where it takes long, so that
 * it takes no more than a twentieth of the time; but every ten seconds in any case, as one look
 * that was slow by chance must not keep a late commit waiting.
 *
 * Where one full look follows another, as in a backlog, looks are partial: what was just asked in
 * vain is left out for a fifth of a second, or for 5 ms for each queue where that is more, so that
 * to ask it takes no more than a fiftieth of the time; and a look by priority leaves out those
 * below the last task that was claimed. A partial look that was not full says nothing yet; the next
 * one asks them all.
 *
 * Looks pass over rows that another transaction in progress seems to hold, but for a look over
 * everything: from the front after a look that found nothing, and every five minutes in any case.
 *
 * In a backlog the workers share how far they have got (docs/decisions/0023), so that they walk
 * over little of what the others claimed. A worker that finds tasks before what others have passed,
 * because they were committed late, goes on alone until it is there as well. */
#ifndef TENON_WORKER_BOUNDS_H
#define TENON_WORKER_BOUNDS_H

#include "core/buf.h"

enum {
    BOUNDS_PRIORITIES = 10,
    BOUNDS_FRONT_EVERY_MS = 1000,
    BOUNDS_FRONT_SHARE = 20, /* so many times as long as a look from the front took, none follows */
    BOUNDS_FRONT_REST_MAX_MS = 10000,
    BOUNDS_EVERYTHING_EVERY_MS = 300000,
    BOUNDS_VAIN_MS = 200,     /* for so long at least what was asked in vain is left out */
    BOUNDS_VAIN_QUEUE_MS = 5, /* and at least for so long for each queue */
};

/* A queue and a priority; run_at in microseconds since 1970. */
struct bound {
    int64_t from_us;   /* 0 = the front */
    int64_t seen_us;   /* the newest that the look in progress claimed, 0 = nothing */
    int64_t others_us; /* where any worker had got to when it began, 0 = not known */
    int64_t alone_us;  /* up to there it goes on alone */
    bool shared;       /* the next look may begin where any worker has got to */
    bool vain;         /* the latest full look by priority found nothing here */
};

struct bounds {
    size_t n_queues;
    struct bound *all;   /* [queue][priority] */
    unsigned turn;       /* which queue the look in progress asks first */
    bool front;          /* it begins at the front */
    bool by_age;         /* it goes by age */
    bool partial;        /* it leaves out what it would ask in vain */
    bool everything_due; /* it is the one over everything that was due */
    bool other_kinds;    /* since the last look from the front */
    size_t lowest;       /* the lowest priority in which the latest full look by priority claimed */
    bool found_nothing;  /* the one before the look in progress did */
    int64_t next_front_ms, next_everything_ms, started_ms;
    int64_t next_all_ms; /* until then looks may be partial */
};

MUST_CHECK bool bounds_init(struct bounds *b, size_t n_queues, struct fault *f);
void bounds_clear(struct bounds *b);

/* A look starts, by age or by priority: write the bounds as poll.sql takes them, the queues from
 * number `turn` on, each with its priorities 0 to 9, negative where they are not shared, 0 = from
 * the front, NULL = left out; an empty array = over everything, which the caller may ask for. When
 * that is due of itself, the look goes by age. */
void bounds_start(struct bounds *b, unsigned turn, bool by_age, bool everything, int64_t now_ms,
                  struct buf *array);

/* It claimed a task of these; the two last columns of poll.sql. */
void bounds_saw(struct bounds *b, size_t queue, int32_t priority, int64_t run_at_us,
                int64_t others_us);

/* It has ended, and `full` says whether it claimed as many as it asked for. */
void bounds_end(struct bounds *b, bool full, int64_t now_ms);

/* It failed. What it told the others it had claimed may be free again: the next one finds it. */
void bounds_fail(struct bounds *b);

/* Other kinds are looked for from now on: the bounds say nothing to those who always look for them,
 * until a look from the front. */
void bounds_other_kinds(struct bounds *b);

#endif
