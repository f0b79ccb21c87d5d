/* The state of the worker's head, which its parts share. A part (slots.c, round.c, held.c ...) has
 * the functions for one subject; decider.c calls the parts, and no part calls it. */
#ifndef TENON_WORKER_DECIDE_STATE_H
#define TENON_WORKER_DECIDE_STATE_H

#include "worker/decide/action.h"
#include "worker/decide/alone.h"
#include "worker/decide/polling.h"
#include "worker/decide/round.h"
#include "worker/decide/slots.h"
#include "worker/decide/wakeups.h"
#include "worker/decide/writes.h"

struct decider_handler {
    /* set once */
    bool pool;               /* its children take one task after the other; else one child a task */
    const char *kinds;       /* "mail" or "mail,sms"; borrowed */
    const char *name;        /* the same or "*", for notes; borrowed */
    int first_kind, n_kinds; /* its kinds among those of the worker */
    int chunk_size;          /* tasks that a child gets together; 0 = one by one */
    int64_t chunk_wait_ms;   /* how long the oldest waits for the others */
    int64_t start_limit_ms;  /* how long a child may take to say hello */

    /* its children: start.h */
    int room;                 /* tasks that one takes at once, as the last hello said */
    int to_warm;              /* children that are still to be started with the worker */
    int n_starting;           /* at the last count: children that have not said hello, */
    int n_started;            /* and all others */
    int64_t used_ms;          /* when one of them last got or answered a task */
    bool starts_well;         /* the last start that ended was one with a hello */
    int strikes;              /* starts that failed in a row */
    int64_t backoff_until_ms; /* no child is started before then */
    char why[256];            /* the last start failed; while it has strikes */

    /* its claims */
    struct claim *waiting; /* list: for a child */
    int n_waiting;
    size_t payload_bytes, reply_bytes, said_bytes; /* in memory, of all its claims */
    bool paused;                                   /* all of its kinds are */
    bool left_out; /* the last poll or claim did not ask for its kinds */
};

struct decider {
    /* set once, by decider_new() and the owner */
    int n_slots, n_handlers;
    size_t n_kinds;         /* of all handlers */
    bool until_empty;       /* end when no task is left */
    int64_t drain_limit_ms; /* how long running tasks may take after the first stop */
    bool notes_done;        /* a note for each task that is done, too */
    int starts_max;         /* children that may start at the same time, 1..SLOTS_MAX */
    struct series *tally;   /* counts tasks by queue and kind; NULL = nobody does; borrowed */

    int64_t now_ms;         /* of the last call */
    struct actions actions; /* the output */
    uint64_t random;        /* state of the generator */

    /* claims, by what they wait for: held.h */
    struct claim *held;       /* hash by id, of all of them */
    struct claim *writing;    /* list: until steps and progress are written */
    struct claim *to_finish;  /* list: to tell the database, outcome "done" */
    struct claim *to_requeue; /* list: the same, other outcomes */
    struct claim *doubtful;   /* list: to ask the database whether they are ours still */
    struct write *writes;     /* list: steps and progress for the next rounds, in order */
    int n_held;               /* all of them; */
    int n_waiting;            /* for a child; */
    int n_given;              /* to children */

    /* children: slots.h, start.h */
    struct slot slots[SLOTS_MAX];
    struct decider_handler handlers[HANDLERS_MAX];
    int n_busy;           /* slots that run something */
    int64_t attention_ms; /* the first deadline or verification of a running task */
    bool warm;            /* it was planned which children start with the worker */
    int n_starting;       /* children that start, except those that seem to hang; */
    int n_first;          /* of those, of handlers that have no other child */

    /* the database: round.h, polling.h, alone.h */
    struct round round; /* lent to the round's thread while it is in flight */
    struct rounds rounds;
    struct polling polling;
    struct alone alone;
    bool present;            /* the presence lock is held, so that our claims are safe */
    int64_t absent_since_ms; /* else */
    bool *paused;            /* by kind; a round in flight reads it */
    bool *told_paused;       /* what the next round goes by, if `pauses_told` */
    bool pauses_told;

    /* RabbitMQ: wakeups.h */
    struct wakeups wakeups;
    int64_t epoch;         /* of the channel: tags of others are void */
    int prefetch;          /* as last told */
    int64_t full_since_ms; /* there is no free slot; -1 = there is */

    int stop_level;  /* how often it was told to stop */
    bool drain_told; /* it drains because an operator said so: the first signal adds nothing */
    int64_t stop_ms; /* when what still runs is given back */

    /* how fast tasks are */
    int64_t ewma_us;                  /* how long one takes, on average */
    int64_t rate_from_ms, rate_count; /* tasks that ended since then */
    double rate_per_ms;               /* of the time before that */

    /* ends that the database knows, for the last log line */
    int64_t count_done, count_failed, count_dead, count_released, count_lost;
};

static inline int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
