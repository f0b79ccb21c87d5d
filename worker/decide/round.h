/* A round: one transaction with the database, and what its answer means. round_plan.h: what goes
 * into the next one. */
#ifndef TENON_WORKER_DECIDE_ROUND_H
#define TENON_WORKER_DECIDE_ROUND_H

#include "worker/decide/alone.h"
#include "worker/decide/event.h"
#include "worker/decide/polling.h"
#include "worker/decide/writes.h"

struct decider;

enum {
    HANDLERS_MAX = 256,
    ROUND_OUTCOMES_MAX = 2048,
    ROUND_REPLY_BYTES_MAX = 64 << 20, /* results of one round, without the last one's */
    ROUND_CLAIMS_MAX = 2048,
    ROUND_VERIFY_MAX = 1024,
    CLAIM_BYTES_MAX = 16 << 20, /* payloads of one claim or poll, without the last one's */
    HELD_BYTES_MAX = 64 << 20,  /* payloads, and as much again of results, of all handlers */
    CHORES_RETRY_MS = 1000,
    UNLOCKED_FOR_MS = 10000, /* for this long after a lock, outcomes wait for no other lock */
    OWN_AGAIN_MS = 30000,    /* a lost session may still commit: its statement_timeout is 15 s */
    RETRY_MIN_MS = 50,       /* pause after a failure; doubled each time, with jitter */
    RETRY_MAX_MS = 5000,
};

/* The answer for an outcome that is not done, and for a claim that is verified. */
enum requeue_state { REQUEUE_MISSED, REQUEUE_READY, REQUEUE_WAITS, REQUEUE_BLOCKED, REQUEUE_DEAD };
enum verdict { VERDICT_LOST, VERDICT_MINE, VERDICT_ENDED, VERDICT_CANCELLED };

/* The parts of a round, in the order in which it does them. */
enum round_part {
    PART_ASK,     /* which claims are still ours */
    PART_WRITE,   /* steps and progress */
    PART_FINISH,  /* outcomes of tasks that are done */
    PART_REQUEUE, /* all other outcomes */
    PART_CLAIM,   /* tasks by id, by a poll, or a suspect; and the chores */
    ROUND_PARTS
};

/* What one round asks, and the answer. Lent to the round's thread while it is in flight. */
struct round {
    bool has[ROUND_PARTS];
    bool own;        /* ask for all our claims: the outcome of the last round is not known */
    bool unlocked;   /* use the form of finish that passes over locked rows */
    bool chores;     /* make partitions, read the settings */
    bool leaves_out; /* some kinds, see `left_out` */
    size_t n_progress, n_steps, n_finish, n_requeue, n_verify, n_ids;
    size_t writes_bytes; /* of the lines of its steps and progress */
    int n_poll;          /* tasks that a poll may claim; 0 = no poll; with one there are no ids */
    int64_t limit_ms;    /* for the claim or the poll; 0 = the session's own */
    enum poll_way way;
    int64_t reach_ms;     /* a sweep reads only what became due in that time; -1 = all */
    unsigned turn;        /* rotates the queues, so that each is first in turn */
    enum alone_ask alone; /* with ALONE_ASK_CLAIM there are no ids, and no poll */
    bool has_turn;        /* the answer to ALONE_ASK_TURN */

    /* the answer's first part: how the poll ended, and how much came back */
    enum poll_end end;
    size_t n_claimed, n_owned;
    struct claim **owned; /* after `own`; the decider takes over the array, too */

    struct claim *finish[ROUND_OUTCOMES_MAX];
    struct claim *requeue[ROUND_OUTCOMES_MAX];
    struct write *progress[ROUND_WRITES_MAX]; /* one of a task; with its part of the answer */
    struct write *steps[ROUND_WRITES_MAX];    /* the same, but in the order of each task */
    struct {
        int64_t id, key;
        int32_t claims;
    } verify[ROUND_VERIFY_MAX]; /* copies: a running task may end meanwhile */
    int64_t ids[ROUND_CLAIMS_MAX];
    bool again[ROUND_CLAIMS_MAX]; /* the id was asked for before */
    bool left_out[HANDLERS_MAX];  /* by handler: claim none of its kinds */
    const bool *paused;           /* by kind: claim none of it */

    /* the answer */
    bool finished[ROUND_OUTCOMES_MAX];
    enum requeue_state requeue_state[ROUND_OUTCOMES_MAX];
    enum verdict verdicts[ROUND_VERIFY_MAX];
    int64_t timeouts_ms[ROUND_VERIFY_MAX];   /* of those that are ours */
    struct claim *claimed[ROUND_CLAIMS_MAX]; /* by id or by the poll; the decider takes them over */
};

/* How a part fares. */
struct part {
    bool failed;      /* the last round that had it; until one commits, rounds go apart */
    int64_t retry_ms; /* it goes into no round before then */
    int64_t pause_ms; /* about how long it waits after its next failure */
};

/* The rounds of a worker: what is in flight, and when the next one may begin. */
struct rounds {
    bool in_flight;
    bool stale;                 /* the one in flight has a worker id that is given up */
    int64_t begun_ms, ended_ms; /* the last one */
    int64_t took_ms[2];         /* the last two that committed */

    /* after failures */
    struct part parts[ROUND_PARTS];
    enum round_part last;      /* while rounds go apart: the part that was looked at last */
    bool failing;              /* a failure was logged, and not yet that rounds work again */
    bool stood;                /* no round has committed since one was too slow */
    bool need_own;             /* the outcome of the last one is not known */
    int64_t own_again_ms;      /* when to ask once more what is ours, see round_failed() */
    int64_t unlocked_until_ms; /* an application holds locks: pass over such rows */
    size_t outcomes_max;       /* of a round; halved while one value is bad */
    size_t writes_max;         /* of a round; fewer after one that was too slow */

    /* when to put these into a round */
    int64_t doubtful_ms; /* questions about doubtful claims */
    int64_t next_chores_ms;
    bool unwritten;      /* a running task has said progress: */
    int64_t progress_ms; /* this is when to write it */
};

#define RESULT_NOT_KEPT "tenon: the result was not kept"
enum { RESULT_NOTE_BYTES_MAX = 8192 };

/* How many parts a round has. */
int round_parts(const struct round *x);

/* A random number, 0 to n - 1. */
int64_t round_jitter(struct decider *d, int64_t n);

/* Replace the result or error that the database cannot store, or not in time, by a note. */
void round_refuse(struct claim *c, const char *text);

/* A reply whose result is this note; NULL when there is no memory. */
char *round_result_note(const char *note);

/* How long rounds take at the moment: the shorter of the last two, in case this process was frozen
 * during one. */
int64_t round_usual_ms(const struct decider *d);

void round_done(struct decider *d, int64_t now_ms);
void round_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms);
void round_free_answer(struct round *x); /* tasks that the decider has not taken */
void round_free(struct decider *d); /* the claims that are nowhere but in the round in flight */

#endif
