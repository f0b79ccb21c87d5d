#include "tests/sim/round.h"

#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    ROUND_LIMIT_US = 20000000,
    LOCK_LIMIT_US = 100000,
    CONNECT_LIMIT_US = 5000000,
    ROWS_READ_MAX = 12, /* by one poll: so few that sweeps take several */
};

static void round_step(struct sim *s, int node, int64_t id);

static struct request *request_of(const struct sim *s, int64_t id)
{
    struct request *r;
    DL_FOREACH(s->requests, r)
    {
        if (r->id == id) {
            return r;
        }
    }
    return NULL;
}

static void step_after(struct sim *s, struct request *r, int64_t us)
{
    int64_t stall_us = s->server.stalled_until_us - s->now_us;
    sim_after(s, us + (stall_us > 0 ? stall_us : 0), round_step, r->node, r->id);
}

/* Free it if neither side needs it any more. */
static void let_go(struct sim *s, struct request *r)
{
    if (r->served && s->nodes[r->node].round_thread.waiting != r->id) {
        DL_DELETE(s->requests, r);
        free(r);
    }
}

static void served(struct sim *s, struct request *r)
{
    r->served = true;
    let_go(s, r);
}

void round_free_all(struct sim *s)
{
    struct request *r, *next;
    DL_FOREACH_SAFE(s->requests, r, next)
    {
        free(r);
    }
    s->requests = NULL;
}

bool round_carries(const struct sim *s, int node, int64_t id, int claims)
{
    const struct request *r = request_of(s, s->nodes[node].round_thread.waiting);
    for (size_t i = 0; r && i < r->n_claimed; i++) {
        if (r->claimed_ids[i] == id && r->claimed[i].claims == claims) {
            return true;
        }
    }
    return r != NULL && r->own;
}

/* --- the client's side --- */

static void tell_failure(struct sim *s, struct node *n, enum round_failure failure,
                         const char *text)
{
    TRACE(s, "worker %d: its round failed: %s", n->index, text);
    node_faulted(s, n, 0);
    node_mail(s, n, &(struct event){.type = EVENT_ROUND_FAILED, .failure = failure, .text = text});
}

/* The client hears that its session is broken. */
static void told_broken(struct sim *s, int node, int64_t id)
{
    struct node *n = &s->nodes[node];
    struct request *r = request_of(s, id);
    if (!r || n->round_thread.waiting != id) {
        return;
    }
    r->alone = true;
    if (r->served) {
        session_end(s, r->session);
    }
    n->round_thread.session = n->round_thread.waiting = 0;
    node_faulted(s, n, 0);
    n->unknown_us = s->now_us;
    tell_failure(s, n, FAILURE_UNKNOWN, "the session broke");
    let_go(s, r);
}

/* No answer for so long: the client gives up. A frozen one does when it is awake again. */
static void gave_up(struct sim *s, int node, int64_t id)
{
    if (s->nodes[node].round_thread.waiting == id && s->nodes[node].frozen) {
        sim_after(s, 100000, gave_up, node, id);
    } else {
        told_broken(s, node, id);
    }
}

static void told_again(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    if (n->up && n->incarnation == incarnation) {
        tell_failure(s, n, FAILURE_UNSENT, "there is no connection");
    }
}

static void copy_outcomes(struct outcome *to, struct claim *const *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct claim *c = from[i];
        to[i] = (struct outcome){.fence = {c->id, c->key},
                                 .reason = claim_reason(c->outcome),
                                 .delay_ms = c->delay_ms,
                                 .bad = c->reply && strcmp(c->reply, "bad") == 0};
    }
}

static void copy_progress(struct request *r, const struct round *x)
{
    for (size_t i = 0; i < x->n_progress; i++) {
        const struct write *p = x->progress[i];
        r->progress[i] = (struct said){.fence = {p->id, p->key},
                                       .said = p->line ? (int)strtol(p->line, NULL, 10) : 0,
                                       .timeout_ms = p->timeout_ms};
    }
}

static void copy_steps(struct request *r, const struct round *x)
{
    for (size_t i = 0; i < x->n_steps; i++) {
        const struct write *p = x->steps[i];
        r->steps[i] = (struct recorded){.fence = {p->id, p->key},
                                        .number = (int)strtol(p->line, NULL, 10)};
    }
}

static unsigned kinds_of(const struct node *n, const struct round *x)
{
    unsigned kinds = 0;
    for (int i = 0; i < n->n_handlers; i++) {
        kinds |= x->left_out[i] ? 0 : n->handler_kinds[i];
    }
    return kinds;
}

static struct request *request_new(struct sim *s, struct node *n)
{
    const struct round *x = &n->decider->round;
    struct request *r = malloc(sizeof *r);
    if (!r || x->n_finish > FENCES_MAX || x->n_requeue > FENCES_MAX || x->n_verify > FENCES_MAX ||
        x->n_progress > FENCES_MAX || x->n_steps > FENCES_MAX) {
        abort();
    }
    memset(r, 0, offsetof(struct request, progress));
    r->id = ++s->last_request;
    r->node = n->index;
    r->worker = n->worker;
    r->incarnation = n->incarnation;
    r->sent_us = s->now_us;
    r->own = x->own;
    r->unlocked = x->unlocked;
    r->ask_alone = x->alone;
    r->n_poll = x->n_poll;
    r->kinds = kinds_of(n, x);
    r->n_finish = x->n_finish, r->n_requeue = x->n_requeue;
    r->n_verify = x->n_verify, r->n_ids = x->n_ids;
    r->n_progress = x->n_progress;
    copy_progress(r, x);
    r->n_steps = x->n_steps;
    copy_steps(r, x);
    copy_outcomes(r->finish, x->finish, x->n_finish);
    copy_outcomes(r->requeue, x->requeue, x->n_requeue);
    for (size_t i = 0; i < x->n_verify; i++) {
        r->verify[i] = (struct fence){x->verify[i].id, x->verify[i].key};
    }
    memcpy(r->ids, x->ids, x->n_ids * sizeof *x->ids);
    if (x->n_poll > 0) {
        struct poll *p = &n->round_thread.poll;
        poll_begin(p, x->way, x->reach_ms, x->turn, node_ms(s, n));
        r->n_ranges = p->n_ranges;
        r->reach_ms = poll_reach_ms(p);
        memcpy(r->ranges, p->ranges, p->n_ranges * sizeof *p->ranges);
    }
    DL_APPEND(s->requests, r);
    return r;
}

static void draw_fate(struct sim *s, struct request *r)
{
    r->fatal_step = (enum stage)random_between(&s->random, STEP_BEGIN, STEP_COMMIT);
    if (random_chance(&s->random, s->plan.rate_cut) && !s->healed) {
        r->fate = (enum fate)random_between(&s->random, FATE_LOST, FATE_UNHEARD);
    } else if (random_chance(&s->random, s->plan.rate_again) && !s->healed) {
        r->fate = FATE_REFUSED;
    }
}

void round_start(struct node *n)
{
    struct fault f = {0};
    if (!poll_init(&n->round_thread.poll, NODE_QUEUES, &f)) {
        abort();
    }
}

void round_begin(struct sim *s, struct node *n)
{
    struct round_thread *e = &n->round_thread;
    if (!e->session && (!s->server.up || s->now_us < n->cut_until_us)) {
        int64_t us = s->server.up ? CONNECT_LIMIT_US : sim_hop(s);
        sim_after(s, us, told_again, n->index, n->incarnation);
        return;
    }
    if (!e->session) {
        e->session = session_open(s);
    }
    struct request *r = request_new(s, n);
    r->session = e->session;
    e->waiting = r->id;
    draw_fate(s, r);
    sim_after(s, ROUND_LIMIT_US, gave_up, n->index, r->id);
    if (r->fate == FATE_LOST) {
        session_end(s, r->session);
    }
    if (!session_is_open(s, r->session)) {
        sim_after(s, sim_hop(s), told_broken, n->index, r->id);
        r->served = true;
        return;
    }
    step_after(s, r, sim_hop(s));
}

void round_cut(struct sim *s, struct node *n, int64_t told_us)
{
    if (n->round_thread.waiting) {
        sim_after(s, told_us, told_broken, n->index, n->round_thread.waiting);
    }
}

void round_abandon(struct sim *s, struct node *n)
{
    struct request *r = request_of(s, n->round_thread.waiting);
    int64_t session = n->round_thread.session;
    poll_clear(&n->round_thread.poll);
    n->round_thread = (struct round_thread){0};
    if (r) {
        r->alone = true; /* the backend goes on with what it got */
        let_go(s, r);
    } else {
        session_end(s, session);
    }
}

/* --- the answer --- */

static void read_poll(struct sim *s, struct node *n, const struct request *r)
{
    struct poll *p = &n->round_thread.poll;
    for (size_t i = 0; i < r->n_ranges; i++) {
        poll_read_to(p, i, r->ranges[i].to);
    }
    n->decider->round.end = poll_end(p, r->end, node_ms(s, n));
}

static void answered(struct sim *s, int node, int64_t id)
{
    struct node *n = &s->nodes[node];
    struct request *r = request_of(s, id);
    if (!r || n->round_thread.waiting != id || s->now_us < n->cut_until_us) {
        return; /* nobody hears it; if somebody waits, the limit ends that */
    }
    if (n->frozen) {
        sim_after(s, 50000, answered, node, id);
        return;
    }
    if (s->now_us - r->sent_us > ROUND_LIMIT_US) {
        told_broken(s, node, id);
        return;
    }
    n->round_thread.waiting = 0;
    answer_fill(n, &n->decider->round, r);
    if (r->n_poll > 0) {
        read_poll(s, n, r);
    }
    node_round_done(s, n, r);
    let_go(s, r);
}

/* --- the server's side --- */

/* The transaction is over without a commit: tell the client, if it still listens. */
static void refuse(struct sim *s, struct request *r, enum round_failure failure, const char *text)
{
    struct node *n = &s->nodes[r->node];
    session_rollback(s, r->session);
    if (r->alone) {
        session_end(s, r->session);
    } else {
        n->round_thread.waiting = 0;
        tell_failure(s, n, failure, text);
    }
    served(s, r);
}

static bool meets_fate(struct sim *s, struct request *r)
{
    if (!session_is_open(s, r->session)) {
        served(s, r); /* the server restarted, and says so */
        return true;
    }
    if (r->step != r->fatal_step) {
        return false;
    }
    if (r->fate == FATE_KILLED) {
        session_end(s, r->session);
        sim_after(s, sim_hop(s), told_broken, r->node, r->id);
        served(s, r);
        return true;
    }
    if (r->fate == FATE_ORPHANED) {
        r->fate = FATE_NONE;
        r->slowed = true;
        told_broken(s, r->node, r->id);
        step_after(s, r, random_log(&s->random, 100, 14000000));
        return true;
    }
    if (r->fate == FATE_REFUSED) {
        refuse(s, r, FAILURE_AGAIN, "a deadlock was detected");
        return true;
    }
    return false;
}

/* ret: it waits for a lock */
static bool do_finish(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_finish; i++) {
        struct outcome *o = &r->finish[i];
        check_outcome(s, r->node, o->fence);
        enum answer answer = o->finished ? ANSWER_YES
                                         : task_finish(s, r->session, o->fence, r->unlocked);
        if (answer == ANSWER_BLOCKED) {
            return true;
        }
        o->finished = answer == ANSWER_YES;
    }
    return false;
}

static bool any_bad(const struct request *r)
{
    for (size_t i = 0; i < r->n_finish; i++) {
        if (r->finish[i].bad) {
            return true;
        }
    }
    return false;
}

static void keep_claimed(struct request *r, const struct row *row)
{
    r->claimed_ids[r->n_claimed] = row->id;
    r->claimed[r->n_claimed++] = row->next;
}

static void do_claim(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_ids; i++) {
        const struct row *row = task_claim(s, r->session, r->worker, r->ids[i], r->kinds);
        if (row) {
            keep_claimed(r, row);
        }
    }
}

/* One range. ret: the poll is full, or has read all that it may */
static bool do_range(struct sim *s, struct request *r, struct poll_range *range, int *rows)
{
    struct row *row;
    struct poll_place at = range->to;
    int64_t from_us = s->now_us - r->reach_ms * 1000;
    if (r->reach_ms >= 0 && at.run_at_us < from_us) {
        at = (struct poll_place){.run_at_us = from_us};
    }
    while ((row = task_read(s, r->session, range->queue, range->priority, &at))) {
        range->to = at;
        row = task_claim(s, r->session, r->worker, row->id, r->kinds);
        if (row) {
            keep_claimed(r, row);
        }
        r->end = r->n_claimed == (size_t)r->n_poll ? POLL_FULL
                 : ++*rows == ROWS_READ_MAX        ? POLL_BOUNDED
                                                   : POLL_ALL;
        if (r->end != POLL_ALL) {
            return true;
        }
    }
    return false;
}

static void do_poll(struct sim *s, struct request *r)
{
    int rows = 0;
    for (size_t i = 0; worker_is(s, r->worker, WORKER_ALIVE, r->session) && i < r->n_ranges; i++) {
        if (do_range(s, r, &r->ranges[i], &rows)) {
            return;
        }
    }
}

static void do_own(struct sim *s, struct request *r)
{
    for (int i = 0; r->own && i < s->server.n_rows; i++) {
        const struct version *v = row_see(&s->server.rows[i], r->session);
        if (v->state == ROW_TASK && v->start_us && v->worker == r->worker) {
            r->owned[r->n_owned++] = (struct fence){s->server.rows[i].id, v->key};
        }
    }
}

static void do_verify(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_verify; i++) {
        r->timeouts_ms[i] = 0;
        r->verdicts[i] = task_verify(s, r->session, r->verify[i], &r->timeouts_ms[i]);
    }
}

static void do_progress(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_progress; i++) {
        r->progress[i].state = task_progress(s, r, &r->progress[i]);
    }
}

static void do_steps(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_steps; i++) {
        struct recorded *p = &r->steps[i];
        p->state = task_step(s, r->session, p->fence, p->number);
    }
}

static void do_requeue(struct sim *s, struct request *r)
{
    for (size_t i = 0; i < r->n_requeue; i++) {
        struct outcome *o = &r->requeue[i];
        check_outcome(s, r->node, o->fence);
        check_charge(s, o->fence, o->reason);
        o->state = task_requeue(s, r->session, o->fence, o->reason, o->delay_ms);
        if (o->state != REQUEUE_MISSED && o->state != REQUEUE_DEAD) {
            check_kept(s, r, o->fence);
        }
    }
}

static void commit(struct sim *s, struct request *r)
{
    session_commit(s, r->session);
    alone_commit(s, r);
    if (r->alone || r->fate == FATE_UNHEARD) {
        session_end(s, r->session);
    }
    if (r->fate == FATE_UNHEARD) {
        sim_after(s, sim_hop(s), told_broken, r->node, r->id);
    } else {
        sim_after(s, sim_hop(s), answered, r->node, r->id);
    }
    served(s, r);
}

/* ret: the statement waits for a lock */
static bool do_step(struct sim *s, struct request *r)
{
    switch (r->step) {
    case STEP_OWN:
        do_own(s, r);
        break;
    case STEP_VERIFY:
        do_verify(s, r);
        break;
    case STEP_PROGRESS:
        do_progress(s, r);
        break;
    case STEP_STEPS:
        do_steps(s, r);
        break;
    case STEP_FINISH:
        return do_finish(s, r);
    case STEP_BACK:
        do_requeue(s, r);
        break;
    case STEP_CLAIM:
        do_claim(s, r);
        break;
    case STEP_POLL:
        do_poll(s, r);
        alone_answer(s, r);
        break;
    case STEP_BEGIN:
    case STEP_COMMIT:
        break;
    }
    return false;
}

static void lock_freed(struct sim *s, int node, int64_t id)
{
    struct request *r = request_of(s, id);
    if (r && r->blocked) {
        r->blocked = false;
        round_step(s, node, id);
    }
}

static void lock_timed_out(struct sim *s, int node, int64_t id)
{
    struct request *r = request_of(s, id);
    (void)node;
    if (!r || !r->blocked) {
        return;
    }
    if (session_is_open(s, r->session)) {
        refuse(s, r, FAILURE_AGAIN, "canceling statement due to lock timeout");
    } else {
        served(s, r);
    }
}

static void wait_for_lock(struct sim *s, struct request *r)
{
    r->blocked = true;
    if (r->lock_limit_us == 0) {
        r->lock_limit_us = s->now_us + LOCK_LIMIT_US;
        sim_at(s, r->lock_limit_us, lock_timed_out, r->node, r->id);
    }
    server_wait(s, lock_freed, r->node, r->id);
}

/* One statement of a request may be slow, up to statement_timeout. */
static int64_t statement_us(struct sim *s, struct request *r)
{
    if (r->slowed || s->healed || !random_chance(&s->random, s->plan.rate_slow)) {
        return random_below(&s->random, 300);
    }
    int64_t us = random_log(&s->random, 1000, 14000000);
    r->slowed = true;
    node_faulted(s, &s->nodes[r->node], us);
    return us;
}

/* What the network still has is lost if its sender gave up, and late if it did not. */
static bool is_held_up(struct sim *s, struct request *r)
{
    int64_t left_us = s->nodes[r->node].cut_until_us - s->now_us;
    if (r->step == STEP_BEGIN && r->held && r->alone) {
        session_end(s, r->session);
        served(s, r);
        return true;
    }
    if (r->step == STEP_BEGIN && left_us > 0) {
        r->held = true;
        step_after(s, r, left_us);
        return true;
    }
    return false;
}

static void round_step(struct sim *s, int node, int64_t id)
{
    struct request *r = request_of(s, id);
    (void)node;
    if (!r || is_held_up(s, r) || meets_fate(s, r)) {
        return;
    }
    if (r->step == STEP_FINISH && any_bad(r)) {
        refuse(s, r, FAILURE_ROW, "a result cannot be stored");
    } else if (do_step(s, r)) {
        wait_for_lock(s, r);
    } else if (r->step == STEP_COMMIT) {
        commit(s, r);
    } else {
        r->step++;
        step_after(s, r, statement_us(s, r));
    }
}
