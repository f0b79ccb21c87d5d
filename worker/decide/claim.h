/* One claimed task, from its claim to the commit that ends it. */
#ifndef TENON_WORKER_DECIDE_CLAIM_H
#define TENON_WORKER_DECIDE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1 /* else uthash ends the process */
#include <uthash.h>

/* IN_ROUND -> WAITING -> GIVEN -> ENDED -> IN_ROUND -> (gone). WRITING comes before ENDED while
 * steps or progress are to be written; DOUBTFUL follows a round whose outcome is not known. */
enum claim_state {
    CLAIM_IN_ROUND, /* the round in flight claims it, or carries its outcome */
    CLAIM_WAITING,  /* no child has it yet */
    CLAIM_GIVEN,    /* a child runs it */
    CLAIM_WRITING,  /* it has an outcome, which waits until what its handler said is written */
    CLAIM_ENDED,    /* it has an outcome, which the database does not know yet */
    CLAIM_DOUBTFUL, /* it has an outcome; the next round asks whether the claim is ours still */
};

enum claim_outcome {
    OUTCOME_NONE,
    OUTCOME_DONE,
    OUTCOME_FAILED,      /* counts as a failure, is retried later */
    OUTCOME_TIMED_OUT,   /* the same; or dead, if its kind says so */
    OUTCOME_SNOOZE,      /* not counted, ready after delay_ms */
    OUTCOME_DEAD,        /* can never work */
    OUTCOME_WAIT_SIGNAL, /* not counted, blocked until its signal comes or delay_ms are over */
    OUTCOME_RELEASED,    /* could not run here, or not to its end: not counted, ready at once */
    OUTCOME_CRASHED,     /* its child died, and it may be why: counts as a crash, ready at once */
};

enum { ERROR_BYTES_MAX = 8192, ERROR_CLASS_BYTES = 101, STEP_NAME_BYTES = 101 };

/* At its deadline the database is asked, because the handler may have extended it by SQL: NOT yet;
 * in the next round (SOON); or a round has the question. */
enum claim_asked { ASKED_NOT, ASKED_SOON, ASKED };

struct write;

/* Strings that are not "owned" lie behind the struct, in the same allocation. */
struct claim {
    /* as the database gave it */
    int64_t id;
    int64_t key; /* 64 random bits of this claim; with the id its fence */
    int64_t timeout_ms;
    int64_t waited_us; /* how long it was ready before it was claimed */
    int32_t claims;    /* of this task so far, including this one */
    int32_t attempt;   /* 1 + failures + crashes; a release does not count */
    int32_t failures;
    int32_t max_attempts;
    int32_t priority;
    const char *queue;
    const char *kind;
    const char *trace;   /* NULL = none */
    const char *payload; /* JSON text on one line, as PostgreSQL printed it */
    size_t payload_bytes;
    char *progress; /* JSON text, what an earlier attempt said last; NULL = nothing; owned */
    char *steps;    /* JSON text, what earlier attempts recorded; NULL = nothing; owned */
    size_t steps_bytes;

    /* where it is: held.h */
    enum claim_state state;
    int handler; /* index; -1 = this worker has none for its kind, and only releases it */
    bool hashed; /* false: the hash has an older claim of the same task */
    struct claim *prev, *next; /* in the list that its state names, or its slot's */
    UT_hash_handle hh;         /* by id, among all that are held */

    /* when it was known to be ours */
    int64_t claimed_ms; /* when the round began that claimed it */
    int64_t begun_ms;   /* when the last round began that found it to be ours */
    int64_t since_ms;   /* when it became WAITING or GIVEN */
    int64_t ran_ms;     /* how long it was GIVEN; -1 = it was not */

    /* while it is GIVEN */
    int slot;
    bool out_of_time;    /* it ran past its deadline; see slot.n_spent */
    bool lost;           /* it is not ours any more; the same */
    int64_t deadline_ms; /* if it is spent: when its child is stopped, even if other tasks run */
    int64_t verify_ms;   /* when to ask next whether it is still ours */
    enum claim_asked asked;

    /* what its handler said while it ran: writes.h */
    struct write *said; /* its progress, until a round has that; NULL = none */
    int n_writes;       /* steps and progress that are not written yet */
    int log_lines;      /* what its handler has logged, */
    size_t log_bytes;   /* with fields */
    bool log_full;      /* it has logged as much as it may */
    int64_t write_ms;   /* its row was locked: nothing of it is written before then */

    /* how it ended */
    enum claim_outcome outcome;
    bool refused;       /* the database could not store its texts, and has a note instead */
    int slow;           /* rounds with nothing but this outcome that were too slow */
    char *reply;        /* JSON object whose key "result" is kept; NULL = no result; owned */
    size_t reply_bytes; /* as counted for its handler, even if a note replaced the reply */
    char *error;        /* owned; NULL = none */
    char *signal;       /* of OUTCOME_WAIT_SIGNAL; owned */
    char error_class[ERROR_CLASS_BYTES]; /* "" = the database takes it from the error */
    int64_t delay_ms;                    /* until the next attempt; -1 = by the retry policy */
};

/* Copies the texts; `trace` and `payload` may be NULL. Returns NULL when there is no memory. */
struct claim *claim_new(int64_t id, const char *queue, const char *kind, const char *trace,
                        const char *payload, size_t payload_bytes);
void claim_free(struct claim *c);

/* The word that tenon.requeue has for an outcome, which is not DONE or NONE. */
const char *claim_reason(enum claim_outcome outcome);

#endif
