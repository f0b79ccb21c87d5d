/* What must hold at each step. check_end.c has what must hold over time. */
#include "tests/sim/check.h"

#include "tests/sim/sim.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/start.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    DEAD_AFTER_US = 450000, /* a lock was free on two checks about half a second apart */
    SERVER_PATIENCE_US = 14900000,
    IDLE_TURNS_MAX = 150, /* in a second */
    ROUNDS_MAX = 150,     /* in a second in which nothing was claimed or told */
    PROMISE_SLACK_US = 400000,
    FORGOTTEN_US = (OWN_AGAIN_MS + 3000) * 1000,
};

/* --- PostgreSQL's side --- */

void check_commit(struct sim *s, struct row *r)
{
    const struct version *a = &r->now, *b = &r->next;
    long long id = (long long)r->id;
    check_that(s, a->state == ROW_NONE || a->state == ROW_TASK, "task %lld changed after its end",
               id);
    check_that(s, b->said >= a->said || r->late, "the progress of task %lld went back", id);
    check_that(s, b->steps >= a->steps, "task %lld has lost steps", id);
    check_that(s, b->claims >= a->claims, "the claims of task %lld went down", id);
    check_that(s, r->change != CHANGE_CLAIM || b->claims > a->claims,
               "a claim of task %lld counts for nothing", id);
    r->taken += r->by_cleaner || r->change == CHANGE_CANCEL;
}

void check_fence(struct sim *s, const struct row *r, int64_t session, struct fence f)
{
    const struct version *v = row_see(r, session);
    check_that(s, v->claims == fence_claims(f) && v->key == f.key,
               "lost claim %d changed task %lld, at claim %d now", fence_claims(f),
               (long long)r->id, v->claims);
}

void check_outcome(struct sim *s, int node, struct fence f)
{
    const struct run_entry *e = journal_find(s, f.id, fence_claims(f));
    check_that(s, !e || e->node != node || e->end != RUN_GOES_ON || !s->nodes[node].up,
               "the outcome of task %lld, claim %d, is told while it runs", (long long)f.id,
               fence_claims(f));
}

/* The next attempt begins with what its worker heard last of this one. */
void check_kept(struct sim *s, const struct request *r, struct fence f)
{
    const struct run_entry *e = journal_find(s, f.id, fence_claims(f));
    const struct row *row = row_find(s, f.id);
    const struct version *v = row_see(row, r->session);
    check_that(s, !e || e->node != r->node || v->said >= e->heard || row->late,
               "task %lld, claim %d, goes back with progress %d, and its worker has heard %d",
               (long long)f.id, fence_claims(f), v->said, e->heard);
}

void check_alone(struct sim *s, const struct node *n)
{
    const struct decider *d = n->decider;
    bool alone = false;
    for (struct claim *c = NULL; (c = slots_next_given(d, c));) {
        const struct row *r = row_find(s, c->id);
        alone = alone || (r->now.alone_claims == c->claims && r->now.worker == n->worker);
    }
    check_that(s, !alone || d->n_given == 1, "worker %d runs a suspect, and %d tasks beside it",
               n->index, d->n_given - 1);
}

/* A child that retires takes no task along. */
void check_charge(struct sim *s, struct fence f, const char *reason)
{
    const struct run_entry *e = journal_find(s, f.id, fence_claims(f));
    const struct row *r = row_find(s, f.id);
    check_that(s,
               !e || e->end != RUN_RETIRED || strcmp(reason, "failed") != 0 ||
                   fence_claims(f) - 1 - r->now.failures - r->now.crashes >= RETURNS_MAX,
               "task %lld is charged because its child retired", (long long)f.id);
}

void check_declare_dead(struct sim *s, const struct cleaner *c, int worker)
{
    const struct worker_row *w = &s->server.workers[worker];
    /* between two checks it may have been held again, the more so when the cleaner was frozen */
    bool steady = s->now_us - c->leads_since_us > 3000000 &&
                  s->now_us - s->calm_since_us > 3000000 && s->now_us - w->locked_us > 3000000;
    check_that(s, !steady || s->now_us - w->unlocked_us >= DEAD_AFTER_US,
               "cleaner %d declared worker row %d dead %lld ms after its lock was free", c->index,
               worker, (long long)((s->now_us - w->unlocked_us) / 1000));
    check_that(s, s->now_us - s->server.up_since_us >= SERVER_PATIENCE_US,
               "cleaner %d declared worker row %d dead %lld ms after the server came up", c->index,
               worker, (long long)((s->now_us - s->server.up_since_us) / 1000));
}

/* By now the leader has seen it, if nothing happened meanwhile that excuses it. */
static void check_fresh(struct sim *s, int cleaner, int64_t id)
{
    const struct cleaner *c = &s->cleaners[cleaner];
    const struct row *r = row_find(s, id);
    bool excused = !c->up || c->frozen || !c->leader || !session_is_open(s, c->session) ||
                   c->leads_since_us >= r->inserted_us || s->calm_since_us >= r->inserted_us ||
                   r->changed_us != r->committed_us;
    check_that(s, excused || c->seen[id],
               "the leader has not seen task %lld %lld ms after its commit", (long long)id,
               (long long)((s->now_us - r->committed_us) / 1000));
}

void check_fresh_later(struct sim *s, const struct row *r)
{
    int64_t open_us = s->now_us - r->inserted_us;
    if (!r->now.announced &&
        open_us < 2300000) { /* of a gap that is older, the leader asks too seldom */
        for (int i = 0; i < s->plan.n_cleaners; i++) {
            sim_after(s, open_us + 200000 + 10 * s->plan.hop_us, check_fresh, i, r->id);
        }
    }
}

/* --- a run --- */

static bool is_faulted_since(const struct sim *s, int node, int64_t us)
{
    return s->nodes[node].calm_since_us >= us || s->calm_since_us >= us;
}

void check_run(struct sim *s, const struct run_entry *e)
{
    const struct row *r = row_find(s, e->fence.id);
    long long id = (long long)e->fence.id;
    if (!r || r->committed_us == 0) {
        sim_broken(s, "task %lld runs, and was never committed", id);
        return;
    }
    check_that(s, !journal_find(s, e->fence.id, fence_claims(e->fence)),
               "claim %d of task %lld runs twice", fence_claims(e->fence), id);
    const struct run_entry *p = e->before >= 0 ? &s->journal.entries[e->before] : NULL;
    if (!p || (p->end != RUN_GOES_ON && p->end != RUN_DONE)) {
        return;
    }
    s->journal.doubled++;
    /* the older claim may be the one that starts now: its worker was frozen with it */
    int64_t since_us = e->claimed_us < p->claimed_us ? e->claimed_us : p->claimed_us;
    check_that(s, is_faulted_since(s, p->node, since_us) || is_faulted_since(s, e->node, since_us),
               "task %lld runs again, claim %d after %d, and no fault explains it", id,
               fence_claims(e->fence), fence_claims(p->fence));
}

/* When it is because of one task, its others may answer first, for so long. What was lost to
 * another worker may have changed again since, and says nothing about when. */
void check_term(struct sim *s, const struct node *n, int slot)
{
    const struct slot *child = &n->decider->slots[slot];
    const struct claim *c;
    int64_t longest_ms = 0;
    bool others = false, known = true;
    DL_FOREACH(child->given, c)
    {
        const struct row *r = row_find(s, c->id);
        int64_t ms = c->lost ? (s->now_us - r->changed_us) / 1000
                             : node_ms(s, n) - c->since_ms - c->timeout_ms;
        others = others || !(c->lost || c->out_of_time);
        known = known && (!c->lost || r->now.state == ROW_CANCELLED);
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    bool by_worker = n->decider->stop_level > 0 || !n->decider->present || child->pipe_closed;
    check_that(s, by_worker || !others || !known || longest_ms >= SIBLINGS_MAX_MS,
               "worker %d stops a child that could still answer", n->index);
}

void check_give(struct sim *s, const struct node *n, const struct claim *c)
{
    const struct row *r = row_find(s, c->id);
    bool same = r && r->now.claims == c->claims && r->now.worker > 0;
    check_that(s, !same || r->now.worker == n->worker,
               "worker %d starts task %lld, which it claimed under another id", n->index,
               (long long)c->id);
    /* lost for longer than since the begin of the round that said that it was ours */
    bool lost = r && (r->now.state != ROW_TASK || r->now.key != c->key);
    int64_t lost_ms = lost ? (s->now_us - r->changed_us) / 1000 : 0;
    int64_t limit_ms = START_CHECKED_MS + round_usual_ms(n->decider);
    check_that(s, lost_ms <= limit_ms + 1, "worker %d starts task %lld, which it lost %lld ms ago",
               n->index, (long long)c->id, (long long)lost_ms);
    int64_t held_ms = r ? (s->now_us - r->claimed_us[c->claims % CLAIMS_KEPT]) / 1000 : 0;
    check_that(s, held_ms <= START_MAX_MS, "worker %d starts task %lld %lld ms after its claim",
               n->index, (long long)c->id, (long long)held_ms);
}

/* As many as its handler takes, or the first one has waited long enough; and its child has answered
 * all others. */
void check_call(struct sim *s, const struct node *n, const struct child *c,
                const struct claim *first, int count)
{
    int size = n->chunk_size[c->handler];
    int64_t held_ms = node_ms(s, n) - first->claimed_ms;
    check_that(s, size > 0 ? count <= size && c->n_runs == 0 : count == 1,
               "worker %d gives %d tasks to a child that takes %d and has %d", n->index, count,
               size, c->n_runs);
    check_that(s, size == 0 || count == size || held_ms >= n->chunk_wait_ms[c->handler],
               "worker %d gives %d tasks to a child that takes %d, after %lld ms", n->index, count,
               size, (long long)held_ms);
}

/* --- rounds --- */

static bool serves(const struct node *n, int kind, int64_t now_ms)
{
    for (int i = 0; i < n->n_handlers; i++) {
        if ((n->handler_kinds[i] >> kind & 1) &&
            n->decider->handlers[i].backoff_until_ms <= now_ms &&
            !start_is_awaited(n->decider, i)) {
            return true;
        }
    }
    return false;
}

void check_round(struct sim *s, struct node *n)
{
    const struct round *x = &n->decider->round;
    int kept = 0;
    for (int i = 0; i < n->n_promises; i++) {
        bool asked = false;
        for (size_t j = 0; j < x->n_ids && !asked; j++) {
            asked = x->ids[j] == n->promises[i].id;
        }
        if (!asked) {
            n->promises[kept++] = n->promises[i];
        }
    }
    n->n_promises = kept;
    n->rounds++;
    n->progress += (int)x->n_ids; /* nobody asks for an id more than twice */
    check_that(s, n->rounds - n->progress < ROUNDS_MAX,
               "worker %d made %d rounds within a second, and had nothing to do", n->index,
               n->rounds);
}

static bool was_claimed(const struct request *r, int64_t id)
{
    for (size_t i = 0; i < r->n_claimed; i++) {
        if (r->claimed_ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* What was asked for and missed must be asked for once more. */
void check_answer(struct sim *s, struct node *n, const struct request *r)
{
    const struct round *x = &n->decider->round;
    n->progress += (int)r->n_claimed;
    for (size_t i = 0; i < r->n_ids; i++) {
        if (!was_claimed(r, r->ids[i]) && !x->again[i] && n->n_promises < PROMISES_MAX) {
            n->promises[n->n_promises++] =
                (struct promise){r->ids[i], s->now_us + WAKEUPS_AGAIN_MS * 1000 + PROMISE_SLACK_US +
                                                10 * s->plan.hop_us};
        }
    }
    for (size_t i = 0; i < r->n_finish; i++) {
        n->progress += r->finish[i].finished;
    }
    for (size_t i = 0; i < r->n_steps; i++) {
        n->progress += r->steps[i].state == WRITE_WRITTEN;
    }
    for (size_t i = 0; i < r->n_requeue; i++) {
        n->progress += r->requeue[i].state != REQUEUE_MISSED;
    }
}

static void check_promises(struct sim *s, struct node *n)
{
    int64_t now_ms = node_ms(s, n);
    const struct decider *d = n->decider;
    bool may_wait = d->rounds.in_flight || d->polling.backlog || !node_is_well(s, n, 4000000) ||
                    round_capacity(d) == 0;
    for (int i = 0; i < n->n_promises; i++) {
        struct promise *p = &n->promises[i];
        if (may_wait) {
            int64_t by_us = s->now_us + PROMISE_SLACK_US;
            p->by_us = by_us > p->by_us ? by_us : p->by_us;
        } else if (s->now_us > p->by_us) {
            const struct row *r = row_find(s, p->id);
            bool wanted = r && row_is_ready(s, r) && row_is_free(r, 0) &&
                          serves(n, r->now.kind, now_ms);
            check_that(s, !wanted, "worker %d has not asked again for task %lld", n->index,
                       (long long)p->id);
            n->promises[i--] = n->promises[--n->n_promises];
        }
    }
}

/* --- wake-ups --- */

void check_ack(struct sim *s, struct node *n, int64_t epoch, uint64_t tag)
{
    n->acked_epoch = epoch;
    n->acked_tag = tag;
    const struct channel *c = &s->broker.channels[n->index];
    for (int i = 0; epoch == n->consumer.epoch && i < c->n_unacked; i++) {
        const struct message *m = &c->unacked[i];
        check_that(s, m->arrived || m->tag > tag,
                   "worker %d acks the wake-up of task %lld, which it has not got", n->index,
                   (long long)m->id);
    }
}

/* While its channel lives, nothing that it was told of is forgotten: else it would stay unacked. */
void check_wakeups(struct sim *s, const struct node *n)
{
    const struct decider *d = n->decider;
    bool idle = d->wakeups.delivered.n == 0 && !d->wakeups.unacked;
    if (idle && d->stop_level == 0 && d->epoch > 0 && n->told_epoch == d->epoch) {
        check_that(s, n->acked_epoch == d->epoch && n->acked_tag >= n->told_tag,
                   "worker %d has forgotten wake-ups up to %lld", n->index, (long long)n->told_tag);
    }
}

void check_event(struct sim *s, struct node *n, const struct event *e)
{
    if (e->type == EVENT_WAKEUPS && e->epoch >= n->decider->epoch) {
        n->told_epoch = e->epoch;
        n->told_tag = e->last_tag;
    }
    const struct claim *c = e->type == EVENT_PROGRESS ? slots_find(n->decider, e->slot, e->id)
                                                      : NULL;
    if (c && e->progress) {
        journal_hear(s, c->id, c->claims, (int)strtol(e->progress, NULL, 10));
    }
    if (e->type == EVENT_ROUND_FAILED || e->type == EVENT_PRESENCE || e->type == EVENT_STOP) {
        n->n_promises = 0;
    }
}

void check_taken(struct sim *s, struct node *n, const struct event *e)
{
    const struct decider *d = n->decider;
    if (e->type != EVENT_PRESENCE || !e->up || !e->renewed) {
        return;
    }
    bool stopped = d->n_waiting == 0 && !d->writing && !d->to_finish && !d->to_requeue;
    for (int i = 0; i < d->n_slots; i++) {
        stopped = stopped && (d->slots[i].n_given == 0 || d->slots[i].state == SLOT_STOPPING);
    }
    check_that(s, stopped, "worker %d keeps its claims under its new id", n->index);
}

/* --- the decider's own books --- */

static int count(const struct claim *list, enum claim_state state, bool *ok)
{
    const struct claim *c;
    int n = 0;
    DL_FOREACH(list, c)
    {
        *ok = *ok && c->state == state;
        n++;
    }
    return n;
}

static int count_sent(const struct decider *d)
{
    const struct round *x = &d->round;
    const struct claim *c, *next;
    int n = 0;
    HASH_ITER(hh, d->held, c, next)
    {
        n += c->state == CLAIM_IN_ROUND;
    }
    for (size_t i = 0; d->rounds.in_flight && i < x->n_finish; i++) {
        n += !x->finish[i]->hashed;
    }
    for (size_t i = 0; d->rounds.in_flight && i < x->n_requeue; i++) {
        n += !x->requeue[i]->hashed;
    }
    return n;
}

void check_decider(struct sim *s, const struct node *n)
{
    const struct decider *d = n->decider;
    bool ok = true;
    int waiting = 0, given = 0;
    for (int i = 0; i < d->n_handlers; i++) {
        int here = count(d->handlers[i].waiting, CLAIM_WAITING, &ok);
        ok = ok && here == d->handlers[i].n_waiting;
        waiting += here;
    }
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *slot = &d->slots[i];
        int here = count(slot->given, CLAIM_GIVEN, &ok);
        ok = ok && here == slot->n_given && (here == 0 || slot->state >= SLOT_READY);
        given += here;
    }
    int ended = count(d->to_finish, CLAIM_ENDED, &ok) + count(d->to_requeue, CLAIM_ENDED, &ok),
        saying = count(d->writing, CLAIM_WRITING, &ok),
        doubtful = count(d->doubtful, CLAIM_DOUBTFUL, &ok);
    int sent = count_sent(d);
    check_that(s,
               ok && waiting == d->n_waiting && given == d->n_given &&
                   waiting + given + saying + ended + doubtful + sent == d->n_held,
               "the books of worker %d: held %d is not waiting %d, given %d, saying %d, ended %d, "
               "doubtful %d "
               "and sent %d",
               n->index, d->n_held, waiting, given, saying, ended, doubtful, sent);
    check_that(s, d->rounds.in_flight || sent == 0, "worker %d: %d claims are sent, and nothing is",
               n->index, sent);
}

void check_turn(struct sim *s, struct node *n)
{
    if (s->now_us - n->second_us >= 1000000) {
        n->second_us = s->now_us;
        n->idle_turns = n->rounds = n->progress = 0;
    }
    check_promises(s, n);
}

void check_idle(struct sim *s, struct node *n, bool idle)
{
    n->idle_turns += idle;
    check_that(s, n->idle_turns < IDLE_TURNS_MAX, "worker %d turned %d times for nothing", n->index,
               n->idle_turns);
}

void check_exit(struct sim *s, const struct node *n)
{
    /* what a round claimed whose outcome is unknown may come to light only after the exit */
    bool calm = n->calm_since_us <= n->stopped_us && s->calm_since_us <= n->stopped_us &&
                n->stopped_us - n->unknown_us >= FORGOTTEN_US;
    for (int i = 0; i < s->server.n_rows && calm; i++) {
        const struct row *r = &s->server.rows[i];
        check_that(s,
                   r->now.state != ROW_TASK || r->now.start_us == 0 || r->locker != 0 ||
                       r->now.worker != n->worker,
                   "worker %d exits, and task %lld is still claimed by it", n->index,
                   (long long)r->id);
    }
}

/* --- the whole, now and then --- */

enum { ZOMBIE_US = 8000000, STARVING_US = 4000000 };

static bool is_listed(const struct claim *list, int64_t id, int claims)
{
    const struct claim *c;
    DL_FOREACH(list, c)
    {
        if (c->id == id && c->claims == claims) {
            return true;
        }
    }
    return false;
}

static bool is_held(const struct decider *d, int64_t id, int claims)
{
    const struct claim *c;
    HASH_FIND(hh, d->held, &id, sizeof id, c);
    return (c && c->claims == claims) || is_listed(d->to_finish, id, claims) ||
           is_listed(d->to_requeue, id, claims);
}

/* A claim is known to its worker. */
static void check_known(struct sim *s, const struct row *r)
{
    const struct node *n = &s->nodes[s->server.workers[r->now.worker].node];
    if (s->now_us - r->changed_us >= FORGOTTEN_US && node_is_well(s, n, FORGOTTEN_US) &&
        n->worker == r->now.worker) {
        check_that(s,
                   is_held(n->decider, r->id, r->now.claims) ||
                       round_carries(s, n->index, r->id, r->now.claims),
                   "task %lld is claimed by worker %d, which knows nothing of it", (long long)r->id,
                   n->index);
    }
}

/* After a sweep that was slow, the next may be some seconds away, or a minute, of what has been due
 * for some seconds. */
static bool sweeps(struct sim *s, const struct node *n, const struct row *r)
{
    if (!n->up) {
        return true;
    }
    const struct polling *p = &n->decider->polling;
    bool old = r->now.run_at < s->now_us - (SWEEP_REACH_MS - SWEEP_EVERY_MS) * 1000;
    int64_t rest_ms = p->next_sweep_ms - node_ms(s, n);
    check_that(s, rest_ms <= SWEEP_REST_MAX_MS, "worker %d will not sweep for %lld ms", n->index,
               (long long)rest_ms);
    if (old && p->reach_ms >= 0) { /* it waits for one from the head */
        int64_t due_ms = p->next_full_ms > p->next_sweep_ms ? p->next_full_ms : p->next_sweep_ms;
        return node_ms(s, n) > due_ms + SWEEP_REST_MAX_MS;
    }
    return rest_ms <= SWEEP_EVERY_MS;
}

static bool is_free_for(struct sim *s, const struct node *n, const struct row *r)
{
    bool starts = s->now_us - n->child_fault_us >= STARVING_US; /* its handlers need not rest */
    return starts && sweeps(s, n, r) && node_is_well(s, n, STARVING_US) &&
           serves(n, r->now.kind, node_ms(s, n)) && round_capacity(n->decider) > 0 &&
           worker_is(s, n->worker, WORKER_ALIVE, 0);
}

/* A task does not wait while a worker that could run it has nothing to do. */
static void check_starving(struct sim *s, struct row *r)
{
    bool any = false;
    for (int i = 0; i < s->plan.n_nodes && row_is_ready(s, r) && r->locker == 0; i++) {
        any = any || is_free_for(s, &s->nodes[i], r);
    }
    bool still = r->idle_us && r->changed_us <= r->idle_us; /* it has not run meanwhile */
    r->idle_us = !any ? 0 : still ? r->idle_us : s->now_us;
    check_that(s, !any || s->now_us - r->idle_us < STARVING_US,
               "task %lld waits although a worker is free", (long long)r->id);
}

/* A worker notices that a claim is lost. */
static void check_zombies(struct sim *s, const struct node *n)
{
    for (int i = 0; i < n->decider->n_slots; i++) {
        const struct slot *slot = &n->decider->slots[i];
        const struct claim *c;
        DL_FOREACH(slot->given, c)
        {
            const struct row *r = row_find(s, c->id);
            bool ours = r->now.claims == c->claims && r->now.worker == n->worker &&
                        r->now.state != ROW_CANCELLED;
            int64_t limit_us = ZOMBIE_US + (slot->n_spent > 0 ? SIBLINGS_MAX_MS * 1000LL : 0);
            /* one that was frozen notices it afterwards */
            int64_t since_us = r->changed_us > n->calm_since_us ? r->changed_us : n->calm_since_us;
            check_that(s, ours || slot->state == SLOT_STOPPING || s->now_us - since_us < limit_us,
                       "worker %d goes on with task %lld, whose claim it lost", n->index,
                       (long long)c->id);
        }
    }
}

/* Without PostgreSQL for longer than the grace, others may start its tasks. */
static void check_absent(struct sim *s, const struct node *n)
{
    const struct decider *d = n->decider;
    if (!n->up || n->frozen || d->present || s->now_us - n->thawed_us < 100000) {
        return;
    }
    if (node_ms(s, n) - d->absent_since_ms > PRESENCE_GRACE_MS + 1000) {
        for (int i = 0; i < d->n_slots; i++) {
            check_that(s, d->slots[i].n_given == 0 || d->slots[i].state == SLOT_STOPPING,
                       "worker %d has no presence, and goes on with its tasks", n->index);
        }
    }
}

void check_world(struct sim *s)
{
    for (int i = 0; i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        if (r->now.state == ROW_TASK && r->now.start_us) {
            check_known(s, r);
            r->idle_us = 0;
        } else if (r->now.state == ROW_TASK) {
            check_starving(s, r);
        }
    }
    for (int i = 0; i < s->plan.n_nodes; i++) {
        check_absent(s, &s->nodes[i]);
        if (node_is_well(s, &s->nodes[i], ZOMBIE_US)) {
            check_zombies(s, &s->nodes[i]);
        }
    }
}
