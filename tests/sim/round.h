/* The model of a worker's round thread (worker/round_thread.c) and of the backend that serves it:
 * one transaction, statement by statement, which goes on in the server when its client is gone. */
#ifndef TENON_TESTS_SIM_ROUND_H
#define TENON_TESTS_SIM_ROUND_H

#include "tests/sim/statements.h"
#include "worker/poll.h"

struct node;

enum { NODE_QUEUES = 2, FENCES_MAX = 256, IDS_MAX = 2048 };

enum stage {
    STEP_BEGIN,
    STEP_OWN,
    STEP_VERIFY,
    STEP_PROGRESS,
    STEP_STEPS,
    STEP_FINISH,
    STEP_BACK,
    STEP_CLAIM,
    STEP_POLL,
    STEP_COMMIT
};

/* What becomes of one round. */
enum fate {
    FATE_NONE,
    FATE_LOST,     /* the session broke before the server got it */
    FATE_KILLED,   /* the backend dies in the middle of it */
    FATE_ORPHANED, /* the client's side breaks, and the backend goes on, and commits */
    FATE_UNHEARD,  /* committed, and the answer is lost */
    FATE_REFUSED,  /* an error that rolls it back: a deadlock, a time limit */
};

struct outcome {
    struct fence fence;
    const char *reason;
    int64_t delay_ms;
    bool bad; /* its result cannot be stored */
    bool finished;
    enum requeue_state state;
};

struct said {
    struct fence fence;
    int said;
    int64_t timeout_ms;
    enum write_state state;
};

struct recorded {
    struct fence fence;
    int number;
    enum write_state state;
};

struct request {
    struct request *prev, *next; /* all that the client awaits or the server works on */
    int64_t id;
    int node, worker;
    int64_t incarnation, session, sent_us, lock_limit_us;
    bool alone;   /* the client has given up */
    bool served;  /* the server has done with it */
    bool blocked; /* it waits for a lock */
    bool slowed;  /* one of its statements was slow */
    bool held;    /* the network kept it for a while */
    enum fate fate;
    enum stage step, fatal_step;
    bool own, unlocked, has_turn;
    enum alone_ask ask_alone;
    int n_poll;
    unsigned kinds;
    size_t n_ranges;
    int64_t reach_ms; /* it reads what was due so long ago; -1 = ever */
    enum poll_end end;
    size_t n_progress, n_steps, n_finish, n_requeue, n_verify, n_ids, n_claimed, n_owned;
    struct said progress[FENCES_MAX];
    struct recorded steps[FENCES_MAX];
    struct outcome finish[FENCES_MAX], requeue[FENCES_MAX];
    struct fence verify[FENCES_MAX];
    enum verdict verdicts[FENCES_MAX];
    int64_t timeouts_ms[FENCES_MAX];
    int64_t ids[IDS_MAX];
    struct poll_range ranges[NODE_QUEUES * POLL_PRIORITIES];
    struct version claimed[ROWS_MAX + 1];
    int64_t claimed_ids[ROWS_MAX + 1];
    struct fence owned[ROWS_MAX];
};

struct round_thread {
    struct poll poll;
    int64_t session;
    int64_t waiting; /* the request whose answer is awaited */
};

void round_start(struct node *n);                               /* its process begins */
void round_begin(struct sim *s, struct node *n);                /* ACTION_ROUND */
void round_cut(struct sim *s, struct node *n, int64_t told_us); /* its session broke */
void round_abandon(struct sim *s, struct node *n);              /* the worker is dead */
bool round_carries(const struct sim *s, int node, int64_t id, int claims);
void round_free_all(struct sim *s);

/* answer.c: the answer of a request, into the round that asked. */
void answer_fill(const struct node *n, struct round *x, const struct request *r);

#endif
