/* A worker process: a real decider in a model of the main loop (worker/loop.c). */
#ifndef TENON_TESTS_SIM_NODE_H
#define TENON_TESTS_SIM_NODE_H

#include "tests/sim/children.h"
#include "tests/sim/consumer.h"
#include "tests/sim/presence.h"
#include "tests/sim/round.h"

enum { INBOX_MAX = 4096, HANDLERS = 2 };

/* What came for the main loop. */
struct mail_item {
    struct event event;
    int worker; /* PRESENCE: the id it brings */
};

/* A wake-up that found nothing: it is to be asked for again by then. */
struct promise {
    int64_t id, by_us;
};

enum { PROMISES_MAX = 256 };

struct node {
    int index;
    bool up, frozen, stopping;
    int64_t incarnation;
    int64_t clock_ms; /* what its clock is ahead */
    int64_t cut_until_us;
    struct decider *decider;
    int worker; /* as the loop knows it */
    int n_slots, n_handlers;
    unsigned handler_kinds[HANDLERS];
    bool pool[HANDLERS];
    bool starts_well[HANDLERS]; /* as the decider knew it when it last decided */
    int chunk_size[HANDLERS];   /* 0 = its children get tasks one by one */
    int64_t chunk_wait_ms[HANDLERS];

    struct mail_item inbox[INBOX_MAX];
    int n_inbox;
    bool planned;
    int64_t due_us; /* the timer that counts */
    struct round_thread round_thread;
    struct presence presence;
    struct consumer consumer;
    struct child children[SLOTS];

    /* for the checks */
    int64_t calm_since_us; /* nothing went wrong around it since */
    int64_t unknown_us;    /* when a round's outcome was not known */
    int64_t thawed_us;
    int64_t stopped_us; /* when it was told to stop */
    int64_t second_us;  /* turns and rounds are counted from here, for a second */
    bool acts;          /* in this turn */
    int idle_turns, rounds;
    int progress;
    int64_t child_fault_us;
    int64_t told_epoch, acked_epoch; /* the last wake-ups it was told of, and acked */
    uint64_t told_tag, acked_tag;
    int n_promises;
    struct promise promises[PROMISES_MAX];
};

void node_start(struct sim *s, struct node *n);
void node_kill(struct sim *s, struct node *n, bool unplugged);
void node_freeze(struct sim *s, struct node *n, int64_t us);
void node_stop(struct sim *s, struct node *n); /* SIGTERM */

int64_t node_ms(const struct sim *s, const struct node *n);
void node_hear(struct sim *s, struct node *n,
               const struct event *e); /* the decider does, at once */
void node_mail(struct sim *s, struct node *n, const struct event *e);
void node_mail_presence(struct sim *s, struct node *n, bool up, bool renewed);
void node_round_done(struct sim *s, struct node *n, const struct request *r);

/* Something goes wrong around it, for so long. */
void node_faulted(struct sim *s, struct node *n, int64_t us);
void node_child_faulted(struct sim *s, struct node *n);
/* Nothing went wrong for so long, and it is not stopping. */
bool node_is_well(const struct sim *s, const struct node *n, int64_t us);

#endif
