/* Slots: each may hold one child process. Which task goes to which child, and when a child must
 * go. */
#ifndef TENON_WORKER_DECIDE_SLOTS_H
#define TENON_WORKER_DECIDE_SLOTS_H

#include "worker/decide/claim.h"

struct decider;
struct event;

enum {
    SLOTS_MAX = 1000,
    IN_FLIGHT_MAX = 1024,   /* tasks one child may have at once */
    RATE_MS = 100,          /* over how long the rate is counted at which tasks end */
    RATE_STALE_MS = 1000,   /* no task ended for so long: there is no such rate */
    WAY_AFTER_MS = 500,     /* no child for a task for so long: another kind's must make way */
    WAITING_MAX_MS = 1000,  /* claimed, and no slot for so long: give the task back */
    START_MAX_MS = 25000,   /* claimed so long ago: give the task back, do not start it */
    VERIFY_EVERY_MS = 5000, /* how often a running task's claim is looked at */
    HELLO_LIMIT_MS = 10000, /* how long a pool child may take to say hello */
    TERM_GRACE_MS = 5000,   /* between TERM and KILL */
    PIPE_GRACE_MS = 1000,   /* between the end of a child's pipes and TERM */
    BACKOFF_MIN_MS = 100,   /* a handler that cannot start rests, twice as long each time */
    BACKOFF_MAX_MS = 30000,
};

enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_READY, SLOT_STOPPING };
enum stop_reason {
    STOP_NONE,
    STOP_TIMEOUT,
    STOP_LOST,
    STOP_RELEASE,
    STOP_NO_HELLO,
    STOP_PIPE_CLOSED
};

struct slot {
    enum slot_state state;
    enum stop_reason reason;
    int handler;
    int room;            /* tasks it takes at once */
    int n_given;         /* tasks it has */
    bool closing;        /* it is given nothing more */
    bool mute;           /* it closed its stdin or stdout */
    bool answered;       /* at least once */
    int64_t limit_ms;    /* STARTING: when hello is overdue; closing: TERM; STOPPING: KILL */
    struct claim *given; /* oldest first */
};

void slots_child_ready(struct decider *d, int slot, int room);
void slots_child_pipe_closed(struct decider *d, int slot, int64_t now_ms);
void slots_reply(struct decider *d, const struct event *event, int64_t now_ms);
void slots_child_gone(struct decider *d, const struct event *event, int64_t now_ms);
void slots_stop(struct decider *d, int slot, enum stop_reason reason, int signal, int64_t now_ms);
void slots_stop_all(struct decider *d, enum stop_reason reason, int signal, int64_t now_ms);
void slots_lose(struct decider *d, struct claim *c, int64_t now_ms); /* GIVEN, and not ours */
void slots_lose_all(struct decider *d, int64_t now_ms);
void slots_decide(struct decider *d, int64_t now_ms); /* timeouts, giving, spawning */
int64_t slots_due(const struct decider *d, int64_t now_ms);
int slots_room(const struct decider *d); /* tasks that could be given to children now */
bool slots_all_empty(const struct decider *d);
bool slots_has_task(const struct decider *d, int slot, int64_t id);
bool slots_is_full(const struct decider *d, int slot); /* read no more answers from it for now */

#endif
