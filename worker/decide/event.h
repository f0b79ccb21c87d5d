/* What has happened: the decider's input. */
#ifndef TENON_WORKER_DECIDE_EVENT_H
#define TENON_WORKER_DECIDE_EVENT_H

#include "worker/decide/claim.h"

enum event_type {
    EVENT_WAKEUPS,      /* epoch, ids, n, last_tag: RabbitMQ delivered these ids */
    EVENT_BROKER,       /* up, epoch: the channel has opened or closed */
    EVENT_PRESENCE,     /* up, renewed: with a new worker id, so that all claims are lost; or down,
                           since_ms: the lock is not known to be held since then */
    EVENT_ROUND_DONE,   /* the round in flight has committed */
    EVENT_ROUND_FAILED, /* failure, text */
    EVENT_CHILD_READY,  /* slot, room, hears_stop: its hello; again when its room changes. text: the
                           kinds that it names, for learn.c */
    EVENT_REPLY, /* slot, id, outcome, reply, error, signal (taken over), error_class, delay_ms */
    EVENT_PROGRESS, /* slot, id, progress (taken over; "" = refused), extend_ms (-1 = refused) */
    EVENT_STEP,     /* slot, id, name, step (taken over; "" = for PostgreSQL to refuse) */
    EVENT_LOG, /* slot, id, log_level, message, fields: for handler_log.c, not for the decider */
    EVENT_PRINTED,           /* slot, text: a line on stderr; the same */
    EVENT_CHILD_PIPE_CLOSED, /* slot: a pool child closed its stdin or stdout */
    EVENT_CHILD_RETIRES,     /* slot: it said bye */
    EVENT_CHILD_GONE,        /* slot, text: how it ended, and the end of its stderr; failed_start,
                                exited_well */
    EVENT_PAUSED,            /* ids, n: the numbers of the kinds that are paused from now on */
    EVENT_POLL,              /* n tasks may be ready without a wake-up (0 = unknown): poll */
    EVENT_PEERS,             /* n: how many workers serve the same, including this one */
    EVENT_FROZEN,            /* the main loop did not move for such a time that its guard may have
                                killed its children */
    EVENT_DRAIN,             /* an operator has told it to drain */
    EVENT_STOP,              /* SIGTERM; the second stops at once */
};

enum round_failure {
    FAILURE_UNKNOWN, /* the session broke: it may have committed or not */
    FAILURE_UNSENT,  /* nothing was sent: there is no session */
    FAILURE_AGAIN,   /* rolled back: a lock, a deadlock, a time limit */
    FAILURE_ROW,     /* rolled back: one value is bad */
};

struct event {
    enum event_type type;
    bool up, renewed, failed_start, exited_well, hears_stop;
    enum round_failure failure;
    int64_t epoch;
    uint64_t last_tag;
    size_t n;
    const int64_t *ids; /* borrowed for the call */
    int slot, room;
    int64_t id;
    enum claim_outcome outcome;
    char *reply, *error, *progress, *step, *signal; /* owned: taken over by the decider */
    char *message, *fields; /* of a log line; fields: NULL = none; borrowed for the call */
    int log_level;          /* enum log_level */
    char error_class[ERROR_CLASS_BYTES];
    char name[STEP_NAME_BYTES];
    int64_t delay_ms, extend_ms;
    int64_t since_ms; /* when presence was last known to be held */
    const char *text; /* borrowed for the call */
};

#endif
