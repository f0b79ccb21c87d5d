/* A cleaner's chore: one call of tenon.settle(), a statement with a transaction of its own. It
 * takes a while, others commit meanwhile, and the backend may go on with it when its client is
 * gone: then two are at it for a moment. */
#include "tests/sim/sim.h"

enum { SETTLE_SOON_MS = 10 };

void settler_hurry(struct sim *s, struct cleaner *c, int64_t soon_ms)
{
    bool looks = s->server.settling.used && s->mutant != MUTANT_ONLY_NOTIFIED;
    int64_t due_ms = looks ? settle_due_ms(s) : INT64_MAX;
    if (due_ms != INT64_MAX) {
        cleaner_hurry(s, c, CHORE_SETTLE, due_ms < soon_ms ? soon_ms : due_ms);
    }
}

void settler_tell(struct sim *s, struct cleaner *c)
{
    if (c->n_settled > 0) {
        c->notified = true;
        cleaner_hurry(s, c, CHORE_SETTLE, 0);
        cleaner_hurry(s, c, CHORE_FRESH, 0);
        cleaner_hurry(s, c, CHORE_DUE, 0);
    } else {
        settler_hurry(s, c, SETTLE_SOON_MS);
    }
}

static void commits(struct sim *s, int cleaner, int64_t session)
{
    struct cleaner *c = &s->cleaners[cleaner];
    struct session *x = session_find(s, session);
    int n = x ? x->settled : 0;
    if (x) {
        session_commit(s, session);
        session_end(s, session);
    }
    if (c->up && c->settle_session == session) {
        c->settle_session = 0;
        cleaner_settled(s, c, x != NULL, n);
    }
}

/* It was slow, or the machine is. */
static int64_t pause_us(struct sim *s)
{
    int64_t stall_us = s->server.stalled_until_us - s->now_us;
    bool slow = !s->healed && random_chance(&s->random, s->plan.rate_slow);
    int64_t us = slow ? random_log(&s->random, 1000, 5000000) : random_below(&s->random, 1000);
    if (slow) {
        sim_faulted(s, us);
    }
    return us + (stall_us > 0 ? stall_us : 0);
}

static void lets_go(struct sim *s, int cleaner, int64_t session)
{
    struct session *x = session_find(s, session);
    if (x) {
        x->settled += settle_limit_admit(s, session, x->keys);
        TRACE(s, "cleaner %d: settles %d", cleaner, x->settled);
    }
    sim_after(s, pause_us(s), commits, cleaner, session);
}

static void sees_ends(struct sim *s, int cleaner, int64_t session)
{
    struct session *x = session_find(s, session);
    if (x && settle_limits_begin(s, session)) {
        x->settled += settle_limit_ends(s, session, &x->keys);
    }
    sim_after(s, pause_us(s), lets_go, cleaner, session);
}

void settler_begin(struct sim *s, struct cleaner *c)
{
    c->settle_session = session_open(s);
    struct session *x = session_find(s, c->settle_session);
    x->settled = settle_expired(s, c->settle_session);
    x->settled += settle_flows(s, c->settle_session);
    if (s->mutant == MUTANT_NOTES_FIRST && x->settled) { /* what was read goes at once */
        struct settling *t = &s->server.settling;
        for (int i = 0; i < t->n_notes; i++) {
            t->notes[i].mark.there = t->notes[i].mark.there && t->notes[i].mark.taker == 0;
        }
    }
    sim_after(s, pause_us(s), sees_ends, c->index, c->settle_session);
}

void settler_struck(struct sim *s, struct cleaner *c)
{
    if (c->settle_session && random_chance(&s->random, 5000)) {
        session_end(s, c->settle_session);
    }
}
