/* The worker's head: events in, actions out. No I/O, no clock; the time is given.
 *
 * The owner feeds events one by one and then asks for actions:
 *
 *   decider_event(d, &event, now_ms);          as many as have happened
 *   due_ms = decider_decide(d, now_ms);        d->actions.items[0 .. n) are to be done, in order
 *   ... wait for an event, but no longer than until due_ms ...
 *
 * One round with the database is in flight at a time: all that is due goes into it, and while it
 * runs, more gathers. So batches size themselves: one task when idle, hundreds when busy. */
#ifndef TENON_WORKER_DECIDE_DECIDER_H
#define TENON_WORKER_DECIDE_DECIDER_H

#include "worker/decide/action.h"
#include "worker/decide/alone.h"
#include "worker/decide/event.h"
#include "worker/decide/give.h"
#include "worker/decide/round.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/slots.h"
#include "worker/decide/start.h"
#include "worker/decide/tally.h"
#include "worker/decide/wakeups.h"
#include "worker/decide/writes.h"

enum {
    FULL_FOR_MS = 1000,        /* no free slot for so long: give the wake-ups back */
    PRESENCE_GRACE_MS = 20000, /* without PostgreSQL for so long: stop our own children */
    PREFETCH_FAST = 256,       /* ids held unacked when tasks take less than FAST_US */
    FAST_US = 10000,
    ERROR_BYTES_MAX = 8192,
};

struct decider_handler {
    bool pool;
    const char *kinds;      /* "mail" or "mail,sms", for notes; borrowed */
    int room;               /* as its children said in their hello */
    int64_t used_ms;        /* a child of it got or answered a task last */
    int64_t start_limit_ms; /* how long a child may take to say hello; START_LIMIT_MS unless the
                               owner sets it */
    bool starts_well;       /* the last start that ended was one with a hello */
    int to_warm;            /* children that are still to be started with the worker */
    int n_starting;         /* children that have not said hello, at the last count, */
    int n_started;          /* and all others */
    int strikes;
    int64_t backoff_until_ms;
    int first_kind, n_kinds;                       /* its kinds among those of the worker */
    bool paused;                                   /* all of them are */
    bool left_out;                                 /* of the last round's poll or claim */
    char why[256];                                 /* it backed off last; while it has strikes */
    size_t payload_bytes, reply_bytes, said_bytes; /* of its claims */
    struct claim *waiting;
    int n_waiting;
    int chunk_size;        /* tasks that a child gets together; 0 = one by one */
    int64_t chunk_wait_ms; /* how long the oldest waits for the others */
};

struct decider {
    /* set once */
    int n_slots, n_handlers;
    int64_t drain_limit_ms;
    bool until_empty;
    int starts_max; /* children that may start at the same time, 1..SLOTS_MAX; 1 unless the owner
                       sets it */
    struct series *tally; /* NULL = nobody counts; borrowed */

    int64_t now_ms; /* of the last call */
    struct slot slots[SLOTS_MAX];
    struct decider_handler handlers[HANDLERS_MAX];
    struct claim *held;                   /* hash by id */
    struct claim *writing;                /* list: to requeue, once their writes are done */
    struct claim *to_finish, *to_requeue; /* lists: outcomes to tell the database */
    struct claim *doubtful;               /* list: outcomes to ask the database for */
    struct write *writes;                 /* list: to be written, in order */
    int n_held, n_waiting, n_given;
    int n_busy; /* slots that run something */
    struct wakeups wakeups;

    size_t n_kinds;
    bool *paused;      /* by kind; a round in flight reads it */
    bool *told_paused; /* what the next round goes by, if `pauses_told` */
    bool pauses_told;

    struct round round;
    struct rounds rounds;
    struct polling polling;
    struct alone alone;

    bool present;
    int64_t absent_since_ms;
    int64_t epoch;
    int prefetch; /* as last told */
    int64_t full_since_ms;
    int64_t attention_ms; /* the first deadline or verification of a running task */

    int stop_level;
    int64_t stop_ms; /* when what still runs is given back */

    bool warm;       /* what pool children start with the worker was planned */
    int n_starting;  /* children that start, except those that seem to hang; */
    int n_first;     /* of those, of handlers that have no other child */
    int64_t ewma_us; /* how long a task takes */
    int64_t rate_from_ms, rate_count;
    double rate_per_ms; /* tasks ended */
    uint64_t random;

    int64_t count_done, count_failed, count_dead, count_released, count_lost;

    struct actions actions;
};

/* `kinds[i]` names the kinds of handler i, separated by commas; borrowed for the decider's life. */
struct decider *decider_new(int n_slots, int n_handlers, const char *const *kinds, const bool *pool,
                            int64_t drain_limit_ms, bool until_empty, uint64_t seed,
                            int64_t now_ms);
void decider_free(struct decider *d);

/* The children of this handler get up to `chunk_size` tasks together, 1..CHUNK_MAX, 0 = one by
 * one; and their next ones once all of those have ended. For the others the oldest waits so long,
 * 0..CHUNK_WAIT_MAX_MS. */
void decider_chunks(struct decider *d, int handler, int chunk_size, int64_t chunk_wait_ms);

void decider_event(struct decider *d, const struct event *event, int64_t now_ms);
int64_t decider_decide(struct decider *d, int64_t now_ms);

/* --- between the deciding files --- */

static inline int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t decider_jitter(struct decider *d, int64_t n); /* 0..n-1 */

/* The claim has this outcome now; it leaves its slot or waiting list and waits for the next
 * round. */
void decider_end_claim(struct decider *d, struct claim *c, enum claim_outcome outcome, char *error);
void decider_list_ended(struct decider *d, struct claim *c, bool first); /* by its outcome */
void decider_doubt(struct decider *d, struct claim *c); /* ask whether it is ours still */
void decider_drop_claim(struct decider *d, struct claim *c);
void decider_wait_claim(struct decider *d, struct claim *c, int64_t now_ms);
struct claim *decider_find(const struct decider *d, int64_t id); /* NULL = it is not held */

/* One handler's share of HELD_BYTES_MAX, so that none starves the others. */
size_t decider_bytes_share(const struct decider *d);

#endif
