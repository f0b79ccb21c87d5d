/* The invariants. Those of a commit, a run, a round, an event and a worker's turn are checked
 * in that step; check_world(), whose limits are seconds, every 500 ms of virtual time; and
 * check_end() when all has ended. */
#ifndef TENON_TESTS_SIM_CHECK_H
#define TENON_TESTS_SIM_CHECK_H

#include "tests/sim/journal.h"
#include "tests/sim/node.h"

struct cleaner;

#define check_that(s, holds, ...) ((holds) ? (void)0 : sim_broken((s), __VA_ARGS__))

/* PostgreSQL's side */
void check_commit(struct sim *s, struct row *r); /* r->next is about to become r->now */
void check_fence(struct sim *s, const struct row *r, int64_t session, struct fence f);
void check_outcome(struct sim *s, int node, struct fence f); /* a round tells an outcome */
void check_kept(struct sim *s, const struct request *r, struct fence f); /* it is requeued */
void check_charge(struct sim *s, struct fence f, const char *reason);
void check_declare_dead(struct sim *s, const struct cleaner *c, int worker);
void check_fresh_later(struct sim *s, const struct row *r); /* it was committed just now */

/* a worker's side */
void check_run(struct sim *s, const struct run_entry *e);
void check_term(struct sim *s, const struct node *n, int slot); /* its child is to end */
void check_give(struct sim *s, const struct node *n, const struct claim *c);
void check_call(struct sim *s, const struct node *n, const struct child *c,
                const struct claim *first, int count); /* given together */
void check_round(struct sim *s, struct node *n);       /* it is asked */
void check_answer(struct sim *s, struct node *n, const struct request *r);
void check_event(struct sim *s, struct node *n, const struct event *e); /* before the decider */
void check_taken(struct sim *s, struct node *n, const struct event *e); /* and after it */
void check_ack(struct sim *s, struct node *n, int64_t epoch, uint64_t tag);
void check_wakeups(struct sim *s, const struct node *n);
void check_decider(struct sim *s, const struct node *n);
void check_turn(struct sim *s, struct node *n);            /* begins */
void check_idle(struct sim *s, struct node *n, bool idle); /* has ended; idle: without effect */
void check_exit(struct sim *s, const struct node *n);

/* the whole */
void check_world(struct sim *s);
bool check_is_quiet(struct sim *s);
bool check_all_left(struct sim *s);
void check_end(struct sim *s);
void check_stuck(struct sim *s); /* it did not become quiet: why? */

/* A suspect is to run with nothing beside it. */
void check_alone(struct sim *s, const struct node *n);

#endif
