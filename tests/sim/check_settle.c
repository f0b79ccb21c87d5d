/* What must hold of tasks that wait for others and of limits, by the tasks' rows and the journal:
 * no word of the side tables is taken for it, but for what is cancelled and may still run. */
#include "tests/sim/sim.h"

enum { LATE_US = 15000000, LATE_AFTER_FAULTS_US = 180000000 };

static bool is_free(const struct version *v)
{
    return v->state == ROW_TASK && !v->wanted_at; /* ready or running, or soon */
}

/* --- what is let go --- */

static bool parent_lets_go(const struct row *child, const struct row *parent)
{
    return parent->now.state == ROW_DONE || (child->on_dead == ON_DEAD_RUN && parent->ended_badly);
}

static void check_parents(struct sim *s, const struct row *r)
{
    for (int i = 0; i < r->n_parents; i++) {
        const struct row *parent = row_find(s, r->parents[i]);
        check_that(s, parent_lets_go(r, parent),
                   "task %lld is unblocked, and its parent %lld is in state %d", (long long)r->id,
                   (long long)parent->id, (int)parent->now.state);
    }
}

static void check_number(struct sim *s, const struct row *r, int key)
{
    int n = 1;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *o = &s->server.rows[i];
        n += o != r && (o->keys >> key & 1) && is_free(row_see(o, r->locker));
    }
    check_that(s, n <= s->server.settling.rules[key].running,
               "task %lld is let go, and %d of key %d are ready or running", (long long)r->id, n,
               key);
}

/* Whoever was there before this one was let go, and is not over, comes first. */
static void check_order(struct sim *s, const struct row *r, int key)
{
    const struct rule *rule = &s->server.settling.rules[key];
    for (int i = 0; rule->strict && i < r->id - 1; i++) {
        const struct row *o = &s->server.rows[i];
        bool first = o->now.state == ROW_TASK ||
                     (o->now.state == ROW_DEAD && !rule->skips_dead && !o->changed);
        bool known = o->changed_us < r->unblocked_us && o->n_parents == 0;
        check_that(s, !((o->keys >> key & 1) && first && known && !o->changed),
                   "task %lld is let go before %lld, which is in state %d, of the strict key %d",
                   (long long)r->id, (long long)o->id, (int)o->now.state, key);
    }
}

void check_unblock(struct sim *s, const struct row *r)
{
    check_that(s, r->now.state == ROW_TASK && r->now.wanted_at && !r->now.start_us,
               "task %lld is unblocked, and was not blocked", (long long)r->id);
    check_parents(s, r);
    for (int k = 0; k < KEYS; k++) {
        if (r->keys >> k & 1) {
            check_number(s, r, k);
            check_order(s, r, k);
        }
    }
}

/* --- what handlers see --- */

/* With faults a handler may go on for a moment when its claim is lost. */
static bool run_counts(const struct sim *s, const struct row *r, const struct run_entry *e)
{
    bool valid = r->now.state == ROW_TASK && r->now.key == e->fence.key;
    return e->end == RUN_GOES_ON && (valid || !s->plan.faults);
}

static int runs_of(const struct sim *s, int key)
{
    int n = 0;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        for (int j = r->keys >> key & 1 ? r->last_run : -1; j >= 0;
             j = s->journal.entries[j].before) {
            n += run_counts(s, r, &s->journal.entries[j]);
        }
    }
    return n;
}

void check_run_limits(struct sim *s, const struct row *r)
{
    for (int k = 0; k < KEYS; k++) {
        int n = r->keys >> k & 1 ? runs_of(s, k) : 0;
        check_that(s, n <= s->server.settling.rules[k].running, "%d tasks of key %d run at once", n,
                   k);
    }
}

/* --- nothing leaks --- */

static bool key_is_in_way(struct sim *s, const struct row *r, int key)
{
    const struct settling *t = &s->server.settling;
    const struct rule *rule = &t->rules[key];
    int n = 0;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *o = &s->server.rows[i];
        bool here = o != r && (o->keys >> key & 1);
        n += here && is_free(&o->now);
        if (here && (o->locker || (rule->strict && o->id < r->id &&
                                   (o->now.state == ROW_TASK || o->now.state == ROW_DEAD)))) {
            return true;
        }
    }
    for (int i = 0; i < t->n_places; i++) {
        n += t->places[i].key == key && mark_is_seen(&t->places[i].mark, 0) &&
             t->places[i].now.line == LINE_ENDING;
    }
    return n >= rule->running;
}

static bool is_in_way(struct sim *s, const struct row *r)
{
    bool any = r->locker || r->now.wanted_at > server_now(s);
    for (int i = 0; i < r->n_parents && !any; i++) {
        const struct row *parent = row_find(s, r->parents[i]);
        any = parent->locker ||
              !(parent_lets_go(r, parent) || (r->on_dead == ON_DEAD_CANCEL && parent->ended_badly));
    }
    for (int k = 0; k < KEYS && !any; k++) {
        any = (r->keys >> k & 1) && key_is_in_way(s, r, k);
    }
    return any;
}

/* A task is not blocked for long when nothing is in its way. */
void check_blocked(struct sim *s, struct row *r)
{
    if (!r->now.wanted_at || (s->plan.faults && !s->healed) || is_in_way(s, r)) {
        r->clear_us = 0;
        return;
    }
    r->clear_us = r->clear_us && r->changed_us <= r->clear_us ? r->clear_us : s->now_us;
    int64_t limit_us = s->plan.faults ? LATE_AFTER_FAULTS_US : LATE_US;
    check_that(s, s->now_us - r->clear_us < limit_us,
               "task %lld is blocked, and nothing has been in its way for %lld s", (long long)r->id,
               (long long)((s->now_us - r->clear_us) / 1000000));
}

/* Of a dead task that would block others a place may stay. */
static bool is_left(const struct sim *s, const struct place *p)
{
    const struct row *r = &s->server.rows[p->task - 1];
    return p->mark.there && !(p->now.line == LINE_DEAD && r->now.state == ROW_DEAD);
}

void check_left(struct sim *s)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_waits; i++) {
        check_that(s, !t->waits[i].mark.there, "task %lld waits for task %lld for ever",
                   (long long)t->waits[i].task, (long long)t->waits[i].parent);
    }
    for (int i = 0; i < t->n_notes; i++) {
        check_that(s, !t->notes[i].mark.there, "nobody looks at the note of task %lld",
                   (long long)t->notes[i].task);
    }
    for (int i = 0; i < t->n_events; i++) {
        check_that(s, !t->events[i].mark.there, "nobody looks at an event of task %lld",
                   (long long)t->events[i].task);
    }
    for (int i = 0; i < t->n_places; i++) {
        check_that(s, !is_left(s, &t->places[i]), "task %lld keeps its place at key %d, line %d",
                   (long long)t->places[i].task, t->places[i].key, (int)t->places[i].now.line);
    }
}

bool check_settled(struct sim *s)
{
    const struct settling *t = &s->server.settling;
    bool left = false;
    for (int i = 0; i < t->n_waits; i++) {
        left = left || t->waits[i].mark.there;
    }
    for (int i = 0; i < t->n_notes; i++) {
        left = left || t->notes[i].mark.there;
    }
    for (int i = 0; i < t->n_events; i++) {
        left = left || t->events[i].mark.there;
    }
    for (int i = 0; i < t->n_places; i++) {
        left = left || is_left(s, &t->places[i]);
    }
    return !left;
}
