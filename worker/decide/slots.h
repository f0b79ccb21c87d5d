/* Slots: each has room for one child process. What the children say, and when they are stopped.
 * give.h: which task goes to which child. */
#ifndef TENON_WORKER_DECIDE_SLOTS_H
#define TENON_WORKER_DECIDE_SLOTS_H

#include "worker/decide/claim.h"

struct decider;
struct event;

enum {
    SLOTS_MAX = 1000,
    IN_FLIGHT_MAX = 1024, /* tasks one child may have at once */
    RATE_MS = 100,        /* for how long tasks that end are counted, for their rate */
    RATE_STALE_MS = 1000, /* when no task ended for this long, the rate is zero */
    YIELD_AFTER_MS = 500, /* a task waits this long: a busy child of another handler must go; a
                                child is idle for so long: it goes for one that has children */
    KEEP_MS = 100, /* a slot is kept this long for a handler that had a task and has no child */
    WAITING_MAX_MS = 1000, /* a claimed task that found no slot for this long is released */
    CHECK_AFTER_MS = 60,   /* a waiting claim is verified when its last round began this long ago */
    START_CHECKED_MS = 80, /* and not started until then; to both the usual time of a round is
                                added */
    START_MAX_MS = 25000,  /* a task that was claimed this long ago is released, not started */
    VERIFY_EVERY_MS = 5000,  /* how often a running task's claim is checked */
    TERM_GRACE_MS = 5000,    /* between TERM and KILL */
    PIPE_GRACE_MS = 1000,    /* between the end of a child's pipes and TERM */
    ASK_LIMIT_MS = 2000,     /* for the database to say whether a deadline was extended */
    STOP_GRACE_MS = 5000,    /* between the line that says stop and TERM */
    SIBLINGS_MAX_MS = 30000, /* for other tasks of a child that must be stopped; the cleaner ends
                                tasks 60 s after their deadline */
    RETURNS_MAX = 10,        /* how often a task is released without being counted as failed */
};

/* Tasks that a child is given together. The first of them is claimed while it waits for the others,
 * and the cleaner, which ends tasks 60 s after their deadline, counts from the claim. */
enum { CHUNK_MAX = 1000, CHUNK_WAIT_MAX_MS = 10000, CHUNK_BYTES_MAX = 16 << 20 /* of payloads */ };

enum { TIMEOUT_MAX_MS = 30 * 24 * 3600 * 1000LL }; /* as a check of tenon.task has it */

enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_READY, SLOT_STOPPING };

/* Why the worker stops a child. */
enum stop_reason {
    STOP_NONE,
    STOP_RELEASE, /* not because of its tasks: they are released */
    STOP_NO_HELLO,
    STOP_PIPE_CLOSED
};

struct slot {
    enum slot_state state;
    enum stop_reason reason;
    int handler;
    int room;         /* tasks it takes at once */
    int n_given;      /* tasks it has */
    int n_spent;      /* of those: timed out or lost, and still running ("spent"); the child gets no
                         more tasks, and is stopped once the others have ended */
    bool closing;     /* it gets no more tasks, and its stdin is closed once it has none */
    bool pipe_closed; /* it closed its stdin or stdout */
    bool retiring;    /* it said bye */
    bool answered;    /* at least once */
    bool hears_stop;  /* it understands the line that says stop */
    int64_t used_ms;  /* when it last was started, got a task or answered one */
    int64_t patience_ms; /* it was told to stop spent tasks, and has time for that until then */
    int64_t slow_ms;     /* STARTING: when the log says that it is slow; INT64_MAX = it has */
    int64_t limit_ms;    /* STARTING: for its hello; READY: when it gets TERM; STOPPING: KILL */
    struct claim *given; /* oldest first */
};

void slots_child_ready(struct decider *d, int slot, int room, bool hears_stop);
void slots_child_pipe_closed(struct decider *d, int slot, int64_t now_ms);
void slots_child_retires(struct decider *d, int slot);
void slots_reply(struct decider *d, const struct event *event, int64_t now_ms);
void slots_child_gone(struct decider *d, const struct event *event, int64_t now_ms);

/* Stop a child with all its tasks, by this signal. The second time only SIGKILL has an effect. */
void slots_stop(struct decider *d, int slot, enum stop_reason reason, int signal, int64_t now_ms);
void slots_stop_all(struct decider *d, enum stop_reason reason, int signal, int64_t now_ms);

/* Let a child finish its tasks and then end. */
void slots_close(struct decider *d, int slot, int64_t now_ms);

void slots_close_idle(struct decider *d, int64_t now_ms); /* all that have no tasks */

/* A GIVEN claim is not ours any more, or all are. Its child is told why, if it understands. */
void slots_lose(struct decider *d, struct claim *c, const char *why, int64_t now_ms);
void slots_lose_all(struct decider *d, int64_t now_ms);

/* A GIVEN claim is still ours, with this timeout; gets more time; may be lost: ask then. */
void slots_confirm(struct decider *d, struct claim *c, int64_t timeout_ms, int64_t now_ms);
bool slots_extend(struct decider *d, struct claim *c, int64_t timeout_ms); /* false: no more */
void slots_verify_soon(struct decider *d, struct claim *c, int64_t now_ms);

void slots_tell_drain(struct decider *d);
bool slots_hears(const struct decider *d, int slot); /* a pool child that reads what it is told */

/* The child is given this claim; it has it no longer. */
void slots_add(struct decider *d, int slot, struct claim *c);
void slots_remove(struct decider *d, struct claim *c);

void slots_decide(struct decider *d, int64_t now_ms); /* timeouts, and give_decide() */
int64_t slots_due(const struct decider *d, int64_t now_ms);

/* May this child be given tasks, and how many more now? How many could all children take now? */
bool slots_takes_more(const struct slot *s);
int slots_free(const struct decider *d, const struct slot *s);
int slots_room(const struct decider *d);

bool slots_all_empty(const struct decider *d);
bool slots_is_full(const struct decider *d, int slot); /* read no more answers from it for now */

/* The claim whose attempt fails or has timed out by this answer, or by the end of its child if that
 * had no other task; NULL: none. To be asked before the event is handled. */
struct claim *slots_failing(const struct decider *d, const struct event *event);

/* The claim of this task in the slot; the next claim of all slots after `c`, which is NULL for the
 * first. NULL = there is none. */
struct claim *slots_find(const struct decider *d, int slot, int64_t id);
struct claim *slots_next_given(const struct decider *d, const struct claim *c);

#endif
