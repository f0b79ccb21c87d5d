#include "tests/support/acts.h"

#include "cleaner/statements.h"
#include "tests/support/polls.h"
#include "worker/statements.h"

#include <stdio.h>

const char *const state_words[] = {"ready", "retrying",  "running", "running",
                                   "done",  "cancelled", "dead"};

bool state_is_over(enum state state)
{
    return state == DONE || state == CANCELLED || state == DEAD;
}

bool model_allows(const struct model *m, enum effect effect, bool stale)
{
    switch (effect) {
    case CLAIMS:
        return m->state == READY;
    case CANCELS:
        return !state_is_over(m->state);
    case ENQUEUES:
        return state_is_over(m->state) && !m->new_task;
    case FINISHES:
    case FAILS:
    case RELEASES:
    case KILLS:
    case CRASHES:
        return m->state == HELD && !stale;
    case NONE:
        return true;
    }
    return false;
}

void model_apply(struct model *m, enum effect effect)
{
    static const enum state next[] = {
        [CLAIMS] = TAKEN,   [FINISHES] = DONE, [CANCELS] = CANCELLED, [FAILS] = WAITS,
        [RELEASES] = READY, [KILLS] = DEAD,    [CRASHES] = READY};
    if (effect == ENQUEUES) {
        m->new_task = true;
    } else if (effect != NONE) {
        m->state = next[effect];
    }
    m->claims += effect == CLAIMS;
    m->failures += effect == FAILS;
    m->crashes += effect == CRASHES;
}

/* What an application calls. */
static const struct statement cancel = {"test_cancel", "SELECT 1 WHERE tenon.cancel($1)"};
static const struct statement inside = {"test_finish", "SELECT tenon.finish($1)"};
static const struct statement many = {
    "test_finish_many", "SELECT 1 FROM unnest(tenon.finish_many(ARRAY[$1])) f WHERE f"};
static const struct statement enqueue = {"test_enqueue",
                                         "SELECT tenon.enqueue('a', unique_key => 'k')"};
static const struct statement partitions = {"test_partitions", "SELECT tenon.make_partitions()"};

#define FENCE "$ids", "$keys"

const struct act acts[ACTS] = {
    {"claim",
     &sql_claim,
     CLAIMS,
     false,
     true,
     {"$claimer", "$ids", "{default}", "{a}", "16777216", "{7}"}},
    {"poll", &sql_poll, CLAIMS, false, true, {"$claimer", "{a}", "10", POLL_HEAD}},
    {"poll from a cursor",
     &sql_poll,
     CLAIMS,
     false,
     true,
     {"$claimer", "{a}", "10", POLL_FROM_1970}},
    {"finish", &sql_finish, FINISHES, false, false, {FENCE, "{NULL}"}},
    {"finish_unlocked", &sql_finish_unlocked, FINISHES, false, true, {FENCE, "{NULL}"}},
    {"tenon.finish", &inside, FINISHES, false, false, {"$claim"}},
    {"tenon.finish_many", &many, FINISHES, false, false, {"$claim"}},
    {"requeue failed",
     &sql_requeue,
     FAILS,
     false,
     true,
     {FENCE, "{failed}", "{x}", "{NULL}", "{NULL}", "{NULL}"}},
    {"requeue released",
     &sql_requeue,
     RELEASES,
     false,
     true,
     {FENCE, "{released}", "{x}", "{0}", "{NULL}", "{NULL}"}},
    {"requeue dead",
     &sql_requeue,
     KILLS,
     false,
     true,
     {FENCE, "{dead}", "{x}", "{NULL}", "{NULL}", "{NULL}"}},
    {"recover", &sql_recover, CRASHES, false, true, {"(0,0)", "(1000000,0)", "1 min", "500"}},
    {"cancel", &cancel, CANCELS, false, false, {"$id"}},
    {"enqueue", &enqueue, ENQUEUES, false, false, {NULL}},
    {"make_partitions", &partitions, NONE, false, false, {NULL}},
    {"drop_history", &sql_history, NONE, false, false, {NULL}},
    {"stale finish", &sql_finish, FINISHES, true, false, {FENCE, "{NULL}"}},
    {"stale finish_unlocked", &sql_finish_unlocked, FINISHES, true, true, {FENCE, "{NULL}"}},
    {"stale tenon.finish", &inside, FINISHES, true, false, {"$claim"}},
    {"stale requeue",
     &sql_requeue,
     FAILS,
     true,
     true,
     {FENCE, "{failed}", "{x}", "{NULL}", "{NULL}", "{NULL}"}},
};

void fence_set(struct fence *f, const char *id, int claims, long long key)
{
    (void)snprintf(f->keys, sizeof f->keys, "{%lld}", key);
    (void)snprintf(f->text, sizeof f->text, "%s/%d/%016llx", id, claims, (unsigned long long)key);
}

int act_params(const struct act *a, const struct cast *c, const char *params[ACT_PARAMS_MAX])
{
    const struct fence *f = a->stale ? &c->lost : &c->held;
    const char *const words[][2] = {{"$claimer", c->claimer},
                                    {"$id", c->id},
                                    {"$ids", c->ids},
                                    {"$keys", f->keys},
                                    {"$claim", f->text}};
    int n = 0;
    for (; n < ACT_PARAMS_MAX && a->params[n]; n++) {
        params[n] = a->params[n];
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (strcmp(a->params[n], words[i][0]) == 0) {
                params[n] = words[i][1];
            }
        }
    }
    return n;
}

bool act_may_raise(const struct act *a, const char *sqlstate)
{
    return ((a->st == &inside || a->st == &many) && strcmp(sqlstate, "55000") == 0) ||
           (a->st == &sql_history && strcmp(sqlstate, "55P03") == 0);
}

bool act_skips_marked(const struct act *a)
{
    return a->st == &sql_poll && strcmp(a->params[PARAM_MARKED], "false") == 0;
}

bool act_is_of_partitions(const struct act *a)
{
    return a->st == &sql_history || a->st == &partitions;
}

bool act_is_fenced(const struct act *a)
{
    return a->effect != CLAIMS && a->effect != CANCELS && a->effect != ENQUEUES &&
           a->effect != NONE;
}

bool act_writes_history(const struct act *a)
{
    return act_is_of_partitions(a) || a->effect == FINISHES || a->effect == CANCELS;
}
