/* What is to be done: the decider's output. */
#ifndef TENON_WORKER_DECIDE_ACTION_H
#define TENON_WORKER_DECIDE_ACTION_H

#include "worker/decide/claim.h"

enum action_type {
    ACTION_ROUND,    /* run d->round; then feed EVENT_ROUND_DONE or EVENT_ROUND_FAILED */
    ACTION_ACK,      /* epoch, tag */
    ACTION_PREFETCH, /* n; 0 = stop consuming */
    ACTION_SPAWN, /* slot, handler; claim = run this one task (exec), NULL = start a pool child */
    ACTION_GIVE,  /* slot, n, claim: the first of n in the slot's list, together */
    ACTION_CLOSE, /* slot: close the pool child's input, so that it ends */
    ACTION_TELL_STOP, /* slot, task (0 = all that it has), text = why: to a pool child */
    ACTION_TELL_STEP, /* slot, task, text = name, n = it is recorded: to a pool child */
    ACTION_SIGNAL,    /* slot, n = signal, to the whole process group */
    ACTION_NOTE,      /* something worth a log line */
    ACTION_EXIT,
};

enum note {
    NOTE_TASK_DONE, /* if d->notes_done */
    NOTE_TASK_FAILED,
    NOTE_TASK_SNOOZED,
    NOTE_TASK_RELEASED,
    NOTE_TASK_WAITS_SIGNAL,
    NOTE_TASK_DEAD,
    NOTE_TASK_TIMED_OUT,
    NOTE_TASK_CRASHED,
    NOTE_CLAIM_LOST,
    NOTE_PROGRESS_REFUSED,
    NOTE_STEP_REFUSED,
    NOTE_HANDLER_BACKS_OFF,
    NOTE_HANDLER_STARTING, /* slot: of the child */
    NOTE_ROUND_FAILED,
    NOTE_ROUND_WORKS,
    NOTE_DRAINING,
    NOTE_STOPPING_CHILDREN,
};

struct action {
    enum action_type type;
    int slot, handler, n;
    struct claim *claim;
    int64_t epoch;
    uint64_t tag;
    enum note note;
    int64_t task; /* NOTE: 0 = none */
    char text[256];
};

struct actions {
    struct action *items;
    size_t n, cap;
    struct action spare; /* written to, and lost, when there is no memory for one more */
    bool no_memory;      /* the worker must end: it would wait for ever for a lost action */
};

/* Adds an action with empty fields; never NULL. */
struct action *actions_add(struct actions *l, enum action_type type);

void actions_note(struct actions *l, enum note note, int64_t task, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
