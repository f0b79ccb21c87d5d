/* Slots: each may hold one child process. What its child says, and when it must go. give.h says
 * which task goes to which child. */
#ifndef TENON_WORKER_DECIDE_SLOTS_H
#define TENON_WORKER_DECIDE_SLOTS_H

#include "worker/decide/claim.h"

struct decider;
struct event;

enum {
    SLOTS_MAX = 1000,
    IN_FLIGHT_MAX = 1024, /* tasks one child may have at once */
    RATE_MS = 100,        /* over how long the rate is counted at which tasks end */
    RATE_STALE_MS = 1000, /* no task ended for so long: there is no such rate */
    YIELD_AFTER_MS = 500, /* a task waits so long: a busy child of another handler must go; a
                                child is idle for so long: it goes for one that has children */
    KEEP_MS = 100, /* a slot is kept so long for a handler that had a task and has no child */
    WAITING_MAX_MS = 1000,   /* claimed, and no slot for so long: release the task */
    CHECK_AFTER_MS = 60,     /* last confirmed longer ago: ask whether the claim still holds, */
    START_CHECKED_MS = 80,   /* and do not start it; both count from the begin of the round that
                                confirmed it, plus the time that rounds usually take */
    START_MAX_MS = 25000,    /* claimed so long ago: release the task, do not start it */
    VERIFY_EVERY_MS = 5000,  /* how often a running task's claim is checked */
    TERM_GRACE_MS = 5000,    /* between TERM and KILL */
    PIPE_GRACE_MS = 1000,    /* between the end of a child's pipes and TERM */
    ASK_LIMIT_MS = 2000,     /* for the database to say whether a deadline was extended */
    STOP_GRACE_MS = 5000,    /* between the line that says stop and TERM */
    SIBLINGS_MAX_MS = 30000, /* for what else runs in a child that must go; the cleaner ends tasks
                                 60 s after their deadline */
    RETURNS_MAX = 10,        /* of a task, uncharged: then it is charged if its child retires */
};

/* Of what a child is given together. The first task waits, though it is claimed; the cleaner, which
 * ends tasks 60 s after their deadline, counts from the claim. */
enum { CHUNK_MAX = 1000, CHUNK_WAIT_MAX_MS = 10000, CHUNK_BYTES_MAX = 16 << 20 /* of payloads */ };

enum { TIMEOUT_MAX_MS = 30 * 24 * 3600 * 1000LL }; /* as a check of tenon.task has it */

enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_READY, SLOT_STOPPING };

/* Why the worker stops a child. */
enum stop_reason {
    STOP_NONE,
    STOP_RELEASE, /* its tasks are not to blame: they are released */
    STOP_NO_HELLO,
    STOP_PIPE_CLOSED
};

struct slot {
    enum slot_state state;
    enum stop_reason reason;
    int handler;
    int room;         /* tasks it takes at once */
    int n_given;      /* tasks it has */
    int n_spent;      /* of those: timed out or lost, and still running; it gets no more tasks, and
                         is stopped once the others have ended */
    bool closing;     /* it gets no more tasks, and its stdin is closed once it has none */
    bool pipe_closed; /* it closed its stdin or stdout */
    bool retiring;    /* it said bye */
    bool answered;    /* at least once */
    bool hears_stop;  /* it understands the line */
    int64_t used_ms;  /* it was started, or got a task or answered one, last */
    int64_t patience_ms; /* not before then is it stopped because of tasks that it was told of */
    int64_t slow_ms;     /* STARTING: when the log says that it is slow; INT64_MAX = it has */
    int64_t limit_ms;    /* STARTING: for its hello; READY: when it gets TERM; STOPPING: KILL */
    struct claim *given; /* oldest first */
};

void slots_child_ready(struct decider *d, int slot, int room, bool hears_stop);
void slots_child_pipe_closed(struct decider *d, int slot, int64_t now_ms);
void slots_child_retires(struct decider *d, int slot);
void slots_reply(struct decider *d, const struct event *event, int64_t now_ms);
void slots_child_gone(struct decider *d, const struct event *event, int64_t now_ms);

/* Stop a child at once, with what it has; to stop it again is only to kill it. */
void slots_stop(struct decider *d, int slot, enum stop_reason reason, int signal, int64_t now_ms);
void slots_stop_all(struct decider *d, enum stop_reason reason, int signal, int64_t now_ms);

/* Let a child finish what it has, and then go. */
void slots_close(struct decider *d, int slot, int64_t now_ms);

void slots_close_idle(struct decider *d, int64_t now_ms); /* all that have nothing */

/* A GIVEN claim is not ours any more, or all are. Its child is told why, if it understands. */
void slots_lose(struct decider *d, struct claim *c, const char *why, int64_t now_ms);
void slots_lose_all(struct decider *d, int64_t now_ms);

/* A GIVEN claim is still ours, with this timeout; it may be longer now; when it may be lost. */
void slots_confirm(struct decider *d, struct claim *c, int64_t timeout_ms, int64_t now_ms);
bool slots_extend(struct decider *d, struct claim *c, int64_t timeout_ms); /* false: it is not */
void slots_verify_soon(struct decider *d, struct claim *c, int64_t now_ms);

void slots_tell_drain(struct decider *d);
bool slots_hears(const struct decider *d, int slot); /* a pool child that reads what it is told */

void slots_add(struct decider *d, int slot, struct claim *c); /* the child is given this claim */
void slots_remove(struct decider *d, struct claim *c);

void slots_decide(struct decider *d, int64_t now_ms); /* timeouts, and give_decide() */
int64_t slots_due(const struct decider *d, int64_t now_ms);
bool slots_takes_more(const struct slot *s); /* a pool child that may be given tasks, */
int slots_free(const struct decider *d, const struct slot *s); /* and how many more now */
int slots_room(const struct decider *d); /* tasks that could be given to children now */
bool slots_all_empty(const struct decider *d);
struct claim *slots_find(const struct decider *d, int slot,
                         int64_t id); /* NULL = it is not there */
struct claim *slots_next_given(const struct decider *d,
                               const struct claim *c); /* of all slots; NULL: the first */
bool slots_is_full(const struct decider *d, int slot); /* read no more answers from it for now */

#endif
