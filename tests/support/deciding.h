/* The worker's head fed by hand, for its unit tests: events in, the actions of each call kept. */
#ifndef TENON_TESTS_SUPPORT_DECIDING_H
#define TENON_TESTS_SUPPORT_DECIDING_H

#include "tests/support/test.h"
#include "worker/decide/decider.h"
#include "worker/decide/held.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/start.h"

extern const bool exec_mode[];
extern const bool pool_mode[];
extern enum verdict verdict; /* what the database says of every claim it is asked for; MINE */

/* Kinds "a", and with two handlers "b" and "c" too. */
struct decider *decider_make(int slots, int handlers, const bool *pool);

/* A claim as the round thread makes it; its texts are constants. */
struct claim *claimed(int64_t id, const char *kind);

void feed(struct decider *d, int64_t now, struct event e);

/* Ask for actions. Those since the last call, from events too, stay in d->actions. */
int64_t decide(struct decider *d, int64_t now);

const struct action *action_find(const struct decider *d, enum action_type type);

size_t action_count(const struct decider *d, enum action_type type);

const struct action *note_find(const struct decider *d, enum note note);

void present(struct decider *d, int64_t now);

/* The round in flight commits: all outcomes are taken, and these tasks are claimed. */
void commit(struct decider *d, int64_t now, struct claim *const *found, size_t n);

/* A worker that holds one running task. */
struct decider *running(const bool *pool, struct claim *c);

void reply(struct decider *d, int64_t now, int64_t id, enum claim_outcome outcome);

void gone(struct decider *d, int64_t now, int slot, const char *text);

/* A round that was in flight commits without finding anything new, until none is asked for. */
void settle(struct decider *d, int64_t now);

#endif
