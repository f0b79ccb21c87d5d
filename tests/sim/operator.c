/* Somebody who looks now and then at what holds others up for ever: a dead task that blocks those
 * behind it, a parent that will never be done. Each is retried, deleted or cancelled. */
#include "tests/sim/sim.h"

/* Somebody waits until this task, which has ended, is done. */
static bool is_waited_for(const struct sim *s, int64_t task)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_waits; i++) {
        if (mark_is_seen(&t->waits[i].mark, 0) && t->waits[i].parent == task) {
            return true;
        }
    }
    return false;
}

static bool blocks_others(const struct sim *s, int64_t task)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_places; i++) {
        const struct place *p = &t->places[i];
        if (mark_is_seen(&p->mark, 0) && p->task == task && p->now.line == LINE_DEAD) {
            return true;
        }
    }
    return false;
}

/* It ran to its end, or still does: to run it again would be a double. */
static bool may_have_run(const struct sim *s, const struct row *r)
{
    const struct run_entry *e = r->last_run < 0 ? NULL : &s->journal.entries[r->last_run];
    return e && (e->end == RUN_GOES_ON || e->end == RUN_DONE);
}

static void see_to_dead(struct sim *s, struct row *r, int64_t session)
{
    if (random_chance(&s->random, 5000) && !may_have_run(s, r)) {
        TRACE(s, "operator: retries %lld", (long long)r->id);
        task_retry(s, session, r);
    } else {
        TRACE(s, "operator: deletes %lld", (long long)r->id);
        task_delete(s, session, r);
    }
}

/* A parent is cancelled, expired or gone, and the child wants it done. */
static bool waits_for_good(struct sim *s, const struct row *r)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_waits && r->on_dead == ON_DEAD_WAIT; i++) {
        const struct flow_wait *w = &t->waits[i];
        enum row_state state = mark_is_seen(&w->mark, 0) && w->task == r->id
                                   ? row_find(s, w->parent)->now.state
                                   : ROW_TASK;
        if (state == ROW_CANCELLED || state == ROW_EXPIRED || state == ROW_DELETED) {
            return true;
        }
    }
    return false;
}

static void see_to(struct sim *s, struct row *r)
{
    bool dead = r->now.state == ROW_DEAD && (is_waited_for(s, r->id) || blocks_others(s, r->id));
    bool stuck = r->now.state == ROW_TASK && r->now.wanted_at && waits_for_good(s, r);
    if (!dead && !stuck) {
        return;
    }
    int64_t session = session_open(s);
    if (dead) {
        see_to_dead(s, r, session);
    } else {
        TRACE(s, "operator: cancels %lld", (long long)r->id);
        (void)task_cancel(s, session, r->id);
    }
    session_commit(s, session);
    session_end(s, session);
}

static void comes_by(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    for (int i = 0; s->server.up && i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        if (r->locker == 0 && (s->healed || random_chance(&s->random, 3000))) {
            see_to(s, r);
        }
    }
    sim_after(s, random_log(&s->random, 1, 10000) * 1000, comes_by, 0, 0);
}

void operator_start(struct sim *s)
{
    if (s->server.settling.used) {
        sim_after(s, random_log(&s->random, 1, 10000) * 1000, comes_by, 0, 0);
    }
}
