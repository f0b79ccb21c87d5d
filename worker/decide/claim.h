/* One claimed task, from its claim to the commit that ends it. */
#ifndef TENON_WORKER_DECIDE_CLAIM_H
#define TENON_WORKER_DECIDE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1 /* else uthash ends the process */
#include <uthash.h>

/* IN_ROUND -> WAITING -> GIVEN -> ENDED -> IN_ROUND -> (gone); DOUBTFUL when a round's outcome is
 * not known; WRITING before ENDED while steps or progress are to be written. */
enum claim_state {
    CLAIM_IN_ROUND, /* the round in flight claims it, or carries its outcome */
    CLAIM_WAITING,  /* no child has it yet */
    CLAIM_GIVEN,    /* a child runs it */
    CLAIM_WRITING,  /* it has an outcome, which waits until what its handler said is written */
    CLAIM_ENDED,    /* it has an outcome, which the database does not know yet */
    CLAIM_DOUBTFUL, /* ask the database what became of it */
};

enum claim_outcome {
    OUTCOME_NONE,
    OUTCOME_DONE,
    OUTCOME_FAILED,      /* charged, waits */
    OUTCOME_TIMED_OUT,   /* charged, waits; or its kind says that it is dead */
    OUTCOME_SNOOZE,      /* not charged, waits delay_ms */
    OUTCOME_DEAD,        /* can never work */
    OUTCOME_WAIT_SIGNAL, /* not charged, blocked until its signal comes, or delay_ms are over */
    OUTCOME_RELEASED,    /* could not be run here, or not to its end: not charged, ready at once */
    OUTCOME_CRASHED,     /* its child died, and it may be why: counted, ready at once */
};

enum { ERROR_BYTES_MAX = 8192, ERROR_CLASS_BYTES = 101, STEP_NAME_BYTES = 101 };

/* At its deadline the database is asked: its handler may have extended it by SQL. */
enum claim_asked { ASKED_NOT, ASKED_SOON, ASKED };

struct write;

/* The strings live behind the struct, in one allocation, but for those that are owned. */
struct claim {
    int64_t id;
    int64_t key; /* 64 random bits of this claim; with the id its fence */
    int64_t timeout_ms;
    int64_t waited_us; /* how long it was ready before it was claimed */
    int32_t claims;    /* of this task so far, with this one */
    int32_t attempt;   /* 1 + failures + crashes, which a release does not count */
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

    int handler; /* index; -1 = none, it is only to be released */
    int slot;    /* while GIVEN */
    enum claim_state state;
    enum claim_outcome outcome;
    bool out_of_time;    /* while GIVEN: it ran past its deadline; see slot.n_spent */
    bool lost;           /* while GIVEN: it is not ours any more; the same */
    bool hashed;         /* false: an older claim of the same task stands in the hash */
    int64_t claimed_ms;  /* when the round began that claimed it, */
    int64_t begun_ms;    /* or that last found it to be ours: it is known to be until then */
    int64_t since_ms;    /* when it came into WAITING or GIVEN */
    int64_t ran_ms;      /* how long it was GIVEN; -1 = it was not */
    int64_t deadline_ms; /* while GIVEN; once spent: when its child is stopped, whoever else runs */
    int64_t verify_ms;   /* while GIVEN: when to ask next whether it is still ours */
    enum claim_asked asked;
    struct write *said; /* its progress, until a round has that; NULL = none */
    int n_writes;       /* steps and progress that are not written yet */
    int64_t write_ms;   /* its row was locked: nothing of it is written before then */
    bool refused;       /* the database took its outcome for bad; the texts are our own now */
    int slow;           /* how many rounds with this outcome alone were too slow */
    char *reply;        /* JSON object whose key "result" is kept; NULL = no result; owned */
    size_t reply_bytes; /* as they were counted, whatever became of the reply */
    char *error;        /* owned; NULL = none */
    char *signal;       /* of OUTCOME_WAIT_SIGNAL; owned */
    char error_class[ERROR_CLASS_BYTES]; /* "" = the database tells by the error */
    int64_t delay_ms;                    /* -1 = the usual */

    struct claim *prev,
        *next; /* in one list of its owner: waiting, a slot's, or of those with an outcome */
    UT_hash_handle hh; /* by id, among all that are held */
};

/* The texts are copied; `trace` and `payload` may be NULL. NULL when there is no memory. */
struct claim *claim_new(int64_t id, const char *queue, const char *kind, const char *trace,
                        const char *payload, size_t payload_bytes);
void claim_free(struct claim *c);

/* The word that tenon.requeue knows for an outcome; of those that are not done. */
const char *claim_reason(enum claim_outcome outcome);

#endif
