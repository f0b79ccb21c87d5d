/* The worker's head: events in, actions out. No I/O, no clock; the time is given.
 *
 * The owner feeds events one by one and then asks for actions:
 *
 *   decider_event(d, &event, now_ms);          as many as have happened
 *   due_ms = decider_decide(d, now_ms);        d->actions[0 .. n_actions) are to be done, in order
 *   ... wait for an event, but no longer than until due_ms ...
 *
 * One round with the database is in flight at a time: all that is due goes into it, and while it
 * runs, more gathers. So batches size themselves: one task when idle, hundreds when busy. */
#ifndef TENON_WORKER_DECIDE_DECIDER_H
#define TENON_WORKER_DECIDE_DECIDER_H

#include "worker/decide/claim.h"
#include "worker/decide/polling.h"
#include "worker/decide/slots.h"
#include "worker/decide/wakeups.h"

enum {
    HANDLERS_MAX = 256,
    ROUND_OUTCOMES_MAX = 2048,
    ROUND_CLAIMS_MAX = 2048,
    ROUND_VERIFY_MAX = 1024,
    HELD_BYTES_MAX = 64 << 20,  /* payloads, and again results, of all handlers together */
    CLAIM_BYTES_MAX = 16 << 20, /* payloads of one claim */
    AHEAD_MS = 50,              /* claim what will start within so long, where tasks are fast */
    AHEAD_FAST_US = 20000,      /* which is, when one takes less than this */
    AHEAD_MAX = 2048,           /* tasks claimed ahead at most */
    CHORES_EVERY_MS = 60000,
    CHORES_RETRY_MS = 1000,
    UNLOCKED_FOR_MS = 10000,   /* after a lock was met: wait for none of the next */
    PACE_PER_MS = 1,           /* tasks ended per ms from which on rounds keep a pace */
    PACE_MS = 2,               /* then one begins no sooner after the last one ended */
    FULL_FOR_MS = 1000,        /* no free slot for so long: give the wake-ups back */
    PRESENCE_GRACE_MS = 20000, /* without PostgreSQL for so long: stop our own children */
    PREFETCH_FAST = 256,       /* ids held unacked when tasks take less than FAST_US */
    FAST_US = 10000,
    OWN_AGAIN_MS = 30000, /* a session we lost may still commit: its statement_timeout is 15 s */
    RETRY_MIN_MS = 50,    /* after a round that failed, twice as long each time, with jitter */
    RETRY_MAX_MS = 5000,
    ERROR_BYTES_MAX = 8192,
};

/* What one round asks, and, when it comes back, what it was told. Lent to the database's thread
 * while it is in flight. */
enum requeue_state { REQUEUE_MISSED, REQUEUE_READY, REQUEUE_WAITS, REQUEUE_DEAD };
enum verdict { VERDICT_LOST, VERDICT_MINE, VERDICT_ENDED };

struct round {
    bool own;      /* first ask what is ours: the outcome of the last round is not known */
    bool unlocked; /* use the form of finish that leaves locked rows out */
    bool chores;   /* make partitions, read the settings */
    size_t n_finish, n_requeue, n_verify, n_ids;
    int n_poll; /* 0 = no poll; where there is one, there are no ids */
    enum poll_way way;
    unsigned turn; /* rotates the queues, so that each comes first in its turn */
    struct claim *finish[ROUND_OUTCOMES_MAX];
    struct claim *requeue[ROUND_OUTCOMES_MAX];
    struct {
        int64_t id;
        int32_t claims;
    } verify[ROUND_VERIFY_MAX]; /* not the claims: a running one may end meanwhile */
    int64_t ids[ROUND_CLAIMS_MAX];
    bool again[ROUND_CLAIMS_MAX]; /* of an id: it was asked for before */
    bool rests[HANDLERS_MAX];     /* handlers whose kinds must not be claimed */

    /* the answer */
    bool finished[ROUND_OUTCOMES_MAX];
    enum requeue_state requeue_state[ROUND_OUTCOMES_MAX];
    enum verdict verdicts[ROUND_VERIFY_MAX];
    enum poll_end end;
    size_t n_claimed, n_owned;
    struct claim *claimed[ROUND_CLAIMS_MAX]; /* by id or by the poll; the decider takes them */
    struct claim **owned;                    /* after `own`; the decider takes them and the array */
};

enum event_type {
    EVENT_WAKEUPS,           /* epoch, ids, n, last_tag */
    EVENT_BROKER,            /* up, epoch */
    EVENT_PRESENCE,          /* up, renewed: under a new worker id, so that all claims are lost;
                              down: since_ms */
    EVENT_ROUND_DONE,        /* the round in flight has committed */
    EVENT_ROUND_FAILED,      /* failure, text */
    EVENT_CHILD_READY,       /* slot, room */
    EVENT_REPLY,             /* slot, id, outcome, reply, error (taken over), delay_ms */
    EVENT_CHILD_PIPE_CLOSED, /* slot: a pool child closed its stdin or stdout */
    EVENT_CHILD_RETIRES,     /* slot: it said bye */
    EVENT_CHILD_GONE,        /* slot, text: how it ended and its last words; failed_start,
                                exited_well */
    EVENT_POLL,              /* a task of ours may be ready, and no wake-up says so: poll */
    EVENT_STOP,              /* SIGTERM; the second stops at once */
};

enum round_failure {
    FAILURE_UNKNOWN, /* the session broke: it may have committed or not */
    FAILURE_AGAIN,   /* rolled back: a lock, a deadlock, a time limit */
    FAILURE_ROW,     /* rolled back: one value is bad */
};

struct event {
    enum event_type type;
    bool up, renewed, failed_start, exited_well;
    enum round_failure failure;
    int64_t epoch;
    uint64_t last_tag;
    size_t n;
    const int64_t *ids; /* borrowed for the call */
    int slot, room;
    int64_t id;
    enum claim_outcome outcome;
    char *reply, *error; /* owned: taken over by the decider */
    int64_t delay_ms;
    int64_t since_ms; /* when presence was last known to be held */
    const char *text; /* borrowed for the call */
};

enum action_type {
    ACTION_ROUND,    /* run d->round; answer with ROUND_DONE or ROUND_FAILED */
    ACTION_ACK,      /* epoch, tag */
    ACTION_PREFETCH, /* n; 0 = stop consuming */
    ACTION_SPAWN,  /* slot, handler; claim = run this one task (exec), NULL = start a pool child */
    ACTION_GIVE,   /* slot, claim */
    ACTION_CLOSE,  /* slot: close the pool child's input, so that it ends */
    ACTION_SIGNAL, /* slot, n = signal, to the whole process group */
    ACTION_NOTE,   /* something worth a log line */
    ACTION_EXIT,
};

enum note {
    NOTE_TASK_FAILED,
    NOTE_TASK_LATER,
    NOTE_TASK_RELEASED,
    NOTE_TASK_DEAD,
    NOTE_TASK_TIMED_OUT,
    NOTE_CLAIM_LOST,
    NOTE_HANDLER_BACKS_OFF,
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

struct decider_handler {
    bool pool;
    const char *kinds; /* "mail" or "mail,sms"; borrowed */
    int room;          /* as its children said in their hello */
    int strikes;
    int64_t backoff_until_ms;
    char why[128];                     /* it backed off last; while it has strikes */
    size_t payload_bytes, reply_bytes; /* of its claims */
    struct claim *waiting;
    int n_waiting;
};

struct decider {
    /* set once */
    int n_slots, n_handlers;
    int64_t drain_limit_ms;
    bool until_empty;

    struct slot slots[SLOTS_MAX];
    struct decider_handler handlers[HANDLERS_MAX];
    struct claim *held;     /* hash by id */
    struct claim *ended;    /* list: outcomes to tell the database */
    struct claim *doubtful; /* list: outcomes to ask the database for */
    int n_held, n_waiting, n_given;
    struct wakeups wakeups;

    struct round round;
    bool in_flight, need_own, failing;
    bool stale;                /* the one in flight runs under a worker id that is given up */
    int64_t unlocked_until_ms; /* an application holds locks: leave such rows out */
    int64_t own_again_ms;      /* when to ask once more what is ours: see round_failed() */
    size_t outcomes_max;       /* halved while one value is bad */
    int64_t retry_ms, retry_pause_ms;
    int64_t doubtful_ms; /* not before then are the doubtful asked for */
    int64_t next_chores_ms;
    struct polling polling;

    bool present;
    int64_t absent_since_ms;
    int64_t epoch;
    int prefetch; /* as last told */
    int64_t full_since_ms;
    int64_t attention_ms; /* the first deadline or verification of a running task */

    int stop_level;
    int64_t stop_ms; /* when what still runs is given back */
    bool told_exit;

    int64_t begun_ms, ended_ms; /* the last round */
    bool warm;                  /* the pool children were started */
    int64_t ewma_us;            /* how long a task takes */
    int64_t rate_from_ms, rate_count;
    double rate_per_ms; /* tasks ended */
    uint64_t random;

    int64_t count_done, count_failed, count_dead, count_released, count_lost;

    struct action *actions;
    size_t n_actions, cap_actions;
    bool no_memory;
};

/* `kinds[i]` names the kinds of handler i, separated by commas; borrowed for the decider's life. */
struct decider *decider_new(int n_slots, int n_handlers, const char *const *kinds, const bool *pool,
                            int64_t drain_limit_ms, bool until_empty, uint64_t seed,
                            int64_t now_ms);
void decider_free(struct decider *d);

void decider_event(struct decider *d, const struct event *event, int64_t now_ms);
int64_t decider_decide(struct decider *d, int64_t now_ms);

/* --- between the deciding files --- */

struct action *decider_act(struct decider *d, enum action_type type); /* never NULL */
void decider_note(struct decider *d, enum note note, int64_t task, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int64_t decider_jitter(struct decider *d, int64_t n); /* 0..n-1 */

/* The claim has this outcome now; it leaves its slot or waiting list and waits for the next
 * round. */
void decider_end_claim(struct decider *d, struct claim *c, enum claim_outcome outcome, char *error);
void decider_drop_claim(struct decider *d, struct claim *c);
void decider_wait_claim(struct decider *d, struct claim *c, int64_t now_ms);

/* One handler's share of HELD_BYTES_MAX, so that none starves the others. */
size_t decider_bytes_share(const struct decider *d);

/* plan.c: what goes into the next round, and what its answer means */
void round_plan(struct decider *d, int64_t now_ms);
void round_done(struct decider *d, int64_t now_ms);
void round_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms);
int64_t plan_due(const struct decider *d, int64_t now_ms);
int plan_capacity(const struct decider *d); /* tasks that may be claimed now */
bool plan_may_claim(const struct decider *d);

#endif
