/* What may happen to a task, act by act, with tenon's own statements; and a model with one state
 * that says what each act may do. */
#ifndef TENON_TESTS_SUPPORT_ACTS_H
#define TENON_TESTS_SUPPORT_ACTS_H

#include "tests/support/polls.h"

/* HELD: by the claim that the acts know; TAKEN: by a new one. */
enum state { READY, WAITS, HELD, TAKEN, DONE, CANCELLED, DEAD };
extern const char *const state_words[]; /* as tenon.tasks has them */

struct model {
    enum state state;
    int claims, failures, crashes;
    bool new_task; /* another task holds the unique key */
};

enum effect { CLAIMS, FINISHES, CANCELS, FAILS, RELEASES, KILLS, CRASHES, ENQUEUES, NONE };

bool state_is_over(enum state state);
bool model_allows(const struct model *m, enum effect effect, bool stale);
void model_apply(struct model *m, enum effect effect);

enum { ACTS = 19, ACT_PARAMS_MAX = POLL_PARAMS };

struct act {
    const char *name;
    const struct statement *st;
    enum effect effect;
    bool stale;                         /* with the fence of an older claim */
    bool skips_locked;                  /* leaves rows out that somebody else has locked */
    const char *params[ACT_PARAMS_MAX]; /* a word with a $ is one of struct cast */
};

extern const struct act acts[ACTS];

/* A claim as its fence. */
struct fence {
    char worker[UUID_BYTES], keys[32], text[HELD_TEXT_BYTES];
};

/* The task and the workers that the acts are about. */
struct cast {
    char id[24], ids[32];
    char claimer[UUID_BYTES]; /* alive; the holder is dead by its row */
    struct fence held, lost;  /* the last claim, and an older one */
};

void fence_set(struct fence *f, const char *id, int claims, long long key);

/* Fill in the parameters of an act; returns how many. */
int act_params(const struct act *a, const struct cast *c, const char *params[ACT_PARAMS_MAX]);

/* tenon.finish() and tenon.finish_many() raise where the others change nothing, and
 * tenon.drop_history() when it waited for 100 ms. */
bool act_may_raise(const struct act *a, const char *sqlstate);

/* Leaves out rows that bear another transaction's mark, though it may be over. */
bool act_skips_marked(const struct act *a);

bool act_is_of_partitions(const struct act *a);
bool act_is_fenced(const struct act *a); /* writes only what its claim holds */
bool act_writes_history(const struct act *a);

#endif
