#include "worker/decide/round_plan.h"

#include "worker/decide/decider.h"
#include "worker/decide/slow.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <utlist.h>

bool round_may_claim(const struct decider *d)
{
    return d->stop_level == 0 && d->present && !d->rounds.need_own;
}

/* The free slots, and what will start within AHEAD_MS at the rate of the last moments. Not where
 * tasks are slow: what is claimed ahead is not overtaken by what is more urgent. */
int round_capacity(const struct decider *d)
{
    if (d->alone.state != ALONE_NOT) {
        return 0;
    }
    double ahead = d->ewma_us < AHEAD_FAST_US ? d->rate_per_ms * AHEAD_MS : 0;
    int room = slots_room(d) - d->n_waiting + (ahead < AHEAD_MAX ? (int)ahead : AHEAD_MAX);
    return room < 0 ? 0 : room < ROUND_CLAIMS_MAX ? room : ROUND_CLAIMS_MAX;
}

/* --- asking --- */

static struct claim *send_one(struct claim **list, struct claim *c)
{
    DL_DELETE(*list, c);
    c->state = CLAIM_IN_ROUND;
    return c;
}

static struct claim *send_first(struct claim **list)
{
    return send_one(list, *list);
}

static void add_verify(struct round *x, const struct claim *c)
{
    assert(x->n_verify < ROUND_VERIFY_MAX);
    x->verify[x->n_verify].id = c->id;
    x->verify[x->n_verify].key = c->key;
    x->verify[x->n_verify++].claims = c->claims;
}

/* The arrays' size is the bound, whatever the halving has come to. */
static bool is_full(const struct decider *d, const struct round *x)
{
    size_t n = x->n_finish + x->n_requeue;
    return n >= d->rounds.outcomes_max || n >= ROUND_OUTCOMES_MAX;
}

static void plan_finish(struct decider *d, struct round *x)
{
    size_t bytes = 0;
    while (d->to_finish && !is_full(d, x) && bytes < ROUND_REPLY_BYTES_MAX &&
           slow_fits(x, d->to_finish)) {
        struct claim *c = send_first(&d->to_finish);
        bytes += c->reply_bytes;
        x->finish[x->n_finish++] = c;
    }
}

static bool has_requeues(const struct decider *d)
{
    return d->to_requeue || d->saying;
}

/* And what those tasks said last: before the outcome; where the row was locked, beside it. */
static void plan_requeue(struct decider *d, struct round *x)
{
    progress_plan(d, x);
    struct claim *c, *next;
    DL_FOREACH_SAFE(d->to_requeue, c, next)
    {
        bool full = is_full(d, x) || !slow_fits(x, c);
        if (full || (!c->recording && c->said && !progress_add(d, x, c))) {
            break;
        }
        if (!c->recording) {
            x->requeue[x->n_requeue++] = send_one(&d->to_requeue, c);
        }
    }
    x->n_last = x->n_progress;
}

/* When are the claims of a handler that wait for a child to be asked about? Those that are given
 * together, right before that. The list is in order of claimed_ms. */
static int64_t check_due(const struct decider *d, int handler)
{
    const struct decider_handler *h = &d->handlers[handler];
    const struct claim *c = h->waiting;
    const int64_t after_ms = CHECK_AFTER_MS + round_usual_ms(d);
    int64_t begun_ms = INT64_MAX - after_ms;
    if (c && h->chunk_size > 0) {
        int64_t ripe_ms = give_has_child(d, handler) ? give_ripe_ms(d, h) : INT64_MAX;
        return later(c->begun_ms + after_ms, ripe_ms);
    }
    DL_FOREACH(h->waiting, c)
    {
        if (c->claimed_ms >= begun_ms) {
            break;
        }
        begun_ms = sooner(begun_ms, c->begun_ms);
    }
    return begun_ms + after_ms;
}

/* Claims that wait for a child: one that was cancelled meanwhile is not to start. */
static void verify_waiting(struct decider *d, struct round *x, int64_t now_ms)
{
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        const struct claim *c = now_ms < check_due(d, i) ? NULL : h->waiting;
        int n = h->chunk_size > 0 ? h->chunk_size : h->n_waiting;
        for (; c && n > 0 && x->n_verify < ROUND_VERIFY_MAX; c = c->next, n--) {
            if (h->chunk_size > 0 || now_ms >= c->begun_ms + CHECK_AFTER_MS + round_usual_ms(d)) {
                add_verify(x, c);
            }
        }
    }
}

static void plan_verify(struct decider *d, struct round *x, int64_t now_ms)
{
    if (d->rounds.tell.failing && d->to_finish) {
        return; /* outcomes go by themselves: what is wrong may be one of them */
    }
    verify_waiting(d, x, now_ms);
    while (d->doubtful && now_ms >= d->rounds.doubtful_ms && x->n_verify < ROUND_VERIFY_MAX) {
        add_verify(x, send_first(&d->doubtful));
    }
    if (now_ms < d->attention_ms) {
        return;
    }
    for (struct claim *c = NULL; (c = slots_next_given(d, c));) {
        if (now_ms >= c->verify_ms && x->n_verify < ROUND_VERIFY_MAX) {
            c->verify_ms = now_ms + VERIFY_EVERY_MS;
            c->asked = c->asked == ASKED_SOON ? ASKED : c->asked;
            add_verify(x, c);
        }
    }
}

/* Its tasks would wait: it backs off, or its first child has still to say hello. */
static bool is_held_back(const struct decider *d, int handler, int64_t now_ms)
{
    return now_ms < d->handlers[handler].backoff_until_ms || start_is_awaited(d, handler);
}

static bool any_is_held_back(const struct decider *d, int64_t now_ms)
{
    bool any = false;
    for (int i = 0; i < d->n_handlers; i++) {
        any = any || is_held_back(d, i, now_ms);
    }
    return any;
}

/* --until-empty: nothing is left here, so sweep to see whether anything is left at all. One that
 * must leave out the kinds of a handler that is held back could not tell. */
static bool wants_last_sweep(const struct decider *d, int64_t now_ms)
{
    return d->until_empty && d->n_held == 0 && d->polling.sweep == SWEEP_OVER &&
           !any_is_held_back(d, now_ms);
}

static bool is_left_out(const struct decider *d, int handler, int64_t now_ms)
{
    const struct decider_handler *h = &d->handlers[handler];
    return is_held_back(d, handler, now_ms) || h->payload_bytes >= decider_bytes_share(d) ||
           (h->paused && !d->until_empty); /* which must poll to see that nothing is left */
}

static bool is_paused(const struct decider *d, const struct decider_handler *h)
{
    for (int k = h->first_kind; k < h->first_kind + h->n_kinds; k++) {
        if (!d->paused[k]) {
            return false;
        }
    }
    return true;
}

/* What was told while a round was in flight holds for the next. A sweep finds what is resumed, as
 * polls passed over it. */
static void take_pauses(struct decider *d, int64_t now_ms)
{
    bool resumed = false;
    for (size_t k = 0; d->pauses_told && k < d->n_kinds; k++) {
        resumed = resumed || (d->paused[k] && !d->told_paused[k]);
        d->paused[k] = d->told_paused[k];
    }
    for (int i = 0; d->pauses_told && i < d->n_handlers; i++) {
        d->handlers[i].paused = is_paused(d, &d->handlers[i]);
    }
    d->pauses_told = false;
    if (resumed) {
        polling_sweep(&d->polling, now_ms);
    }
}

/* When one may be claimed again, a sweep finds what polls passed over meanwhile. */
bool round_plan_handlers(struct decider *d, struct round *x, int64_t now_ms)
{
    bool any = false;
    for (int i = 0; i < d->n_handlers; i++) {
        struct decider_handler *h = &d->handlers[i];
        bool out = is_left_out(d, i, now_ms);
        if (h->left_out && !out) {
            polling_sweep(&d->polling, now_ms);
        }
        h->left_out = x->left_out[i] = out;
        x->leaves_out = x->leaves_out || out;
        any = any || !out;
    }
    return any;
}

/* Which tasks to claim: what a poll finds, when one is due, or those whose wake-ups came. */
static void plan_claims(struct decider *d, struct round *x, int64_t now_ms)
{
    int room = round_capacity(d);
    if (room == 0 || !round_plan_handlers(d, x, now_ms)) {
        return;
    }
    if (wants_last_sweep(d, now_ms)) {
        polling_sweep_now(&d->polling, now_ms);
    }
    if (polling_begin(&d->polling, &x->way, now_ms)) {
        x->n_poll = x->way == POLL_LOWEST ? 1 : room;
        x->turn = d->polling.turn;
        x->reach_ms = polling_reach_ms(&d->polling, now_ms);
        if (d->polling.backlog) {
            wakeups_discard(&d->wakeups); /* polls find their tasks */
        }
    } else {
        x->n_ids = wakeups_take(&d->wakeups, now_ms, x->ids, x->again, (size_t)room);
    }
}

static void plan_chores(struct decider *d, struct round *x, int64_t now_ms)
{
    if (now_ms >= d->rounds.next_chores_ms) {
        x->chores = true;
        d->rounds.next_chores_ms = now_ms + CHORES_EVERY_MS;
    }
}

bool round_tells(const struct round *x)
{
    return x->own || x->n_verify + x->n_finish > 0 || x->n_progress > x->n_last ||
           (x->n_steps > 0 && !round_requeues(x));
}

bool round_requeues(const struct round *x)
{
    return x->n_requeue + x->n_last > 0;
}

bool round_claims(const struct round *x)
{
    return x->n_ids > 0 || x->n_poll > 0 || x->chores || x->alone != ALONE_ASK_NOTHING;
}

static void plan_tell(struct decider *d, struct round *x, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    x->own = r->need_own || (now_ms >= r->own_again_ms && !(r->tell.failing && d->to_finish));
    r->own_again_ms = x->own && !r->need_own ? INT64_MAX : r->own_again_ms;
    x->unlocked = now_ms < r->unlocked_until_ms;
    plan_verify(d, x, now_ms);
    if (!r->need_own) {
        plan_finish(d, x);
    }
}

/* What running tasks say. Where something is wrong with an outcome, it is found among outcomes by
 * themselves. */
static void plan_running(struct decider *d, struct round *x, int64_t now_ms)
{
    if (!d->rounds.tell.failing || (x->n_finish == 0 && !round_requeues(x))) {
        progress_plan_running(d, x, now_ms);
    }
}

/* Those that ended, and whose end the database does not know yet. */
static int untold(const struct decider *d)
{
    return d->n_held - d->n_waiting - d->n_given;
}

/* Who cannot tell how tasks ended starts no more than so many: if it died, they would run again. */
static bool may_claim_now(const struct decider *d)
{
    bool failing = d->rounds.tell.failing || d->rounds.requeue.failing;
    return round_may_claim(d) && !(failing && untold(d) >= UNTOLD_MAX);
}

/* After one that failed, a claim or poll keeps the outcomes of running tasks waiting for a moment
 * only; when none runs, it gets the time it needs. */
static void plan_claim(struct decider *d, struct round *x, int64_t now_ms)
{
    const struct side *claim = &d->rounds.claim;
    plan_claims(d, x, now_ms);
    alone_plan(d, x, now_ms);
    plan_chores(d, x, now_ms);
    if (claim->failing && d->n_given > 0) {
        x->limit_ms = later(ASK_LIMIT_MIN_MS, claim->retry_pause_ms);
    }
}

/* While tasks end fast, a round for each would cost as much as they do, and its commit keeps the
 * producers' waiting: the next one waits for what ends in a moment, or for as much as that should
 * be. ret: until when */
static int64_t paced_until(const struct decider *d)
{
    bool enough = untold(d) >= (int)(d->rate_per_ms * PACE_MS);
    return d->rate_per_ms >= PACE_PER_MS && !enough ? d->rounds.ended_ms + PACE_MS : 0;
}

/* Where something is wrong with an outcome, it is found among outcomes by themselves. */
static bool steps_wait(const struct decider *d)
{
    return d->steps && (d->rounds.need_own || (d->rounds.tell.failing && d->to_finish));
}

/* Steps go along with whatever goes, in a round before that of their tasks' outcomes. A side that
 * fails has a round of its own; requeueing, as it is seldom, comes first then. */
static void plan_sides(struct decider *d, struct round *x, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    bool tells = now_ms >= r->tell.retry_ms;
    bool requeues = now_ms >= r->requeue.retry_ms && !r->need_own && !steps_wait(d);
    bool written = (tells && now_ms >= r->steps_ms) || (requeues && has_requeues(d));
    if (written && !steps_wait(d)) {
        requeues = step_plan(d, x) && requeues;
    }
    if (r->requeue.failing && requeues && has_requeues(d)) {
        plan_requeue(d, x);
        return;
    }
    if (tells) {
        plan_tell(d, x, now_ms);
    }
    if (requeues && !(r->tell.failing && round_tells(x))) {
        plan_requeue(d, x);
    }
    if (tells && !r->need_own) {
        plan_running(d, x, now_ms);
    }
    bool apart = (r->tell.failing || r->claim.failing) && (round_tells(x) || round_requeues(x));
    if (now_ms >= r->claim.retry_ms && may_claim_now(d) && !apart) {
        plan_claim(d, x, now_ms);
    }
}

void round_plan(struct decider *d, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    struct round *x = &d->round;
    if (r->in_flight || !d->present || now_ms < paced_until(d)) {
        return;
    }
    memset(x, 0, offsetof(struct round, finish));
    take_pauses(d, now_ms);
    x->paused = d->paused;
    r->begun_ms = now_ms;
    r->stale = false;
    plan_sides(d, x, now_ms);
    if (round_tells(x) || round_requeues(x) || round_claims(x)) {
        r->in_flight = true;
        (void)actions_add(&d->actions, ACTION_ROUND);
    }
}

/* When is there something to claim? A handler that holds too much may claim again after an outcome,
 * which makes a round of its own; one that waits for a child, after its hello. */
static int64_t claims_due(const struct decider *d, int64_t now_ms)
{
    int64_t back_ms = INT64_MAX;
    bool any = false;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        if (h->left_out && !h->paused && !start_is_awaited(d, i) &&
            h->payload_bytes < decider_bytes_share(d)) {
            back_ms = sooner(back_ms, h->backoff_until_ms);
        }
        any = any || !h->left_out;
    }
    int64_t poll_ms = wants_last_sweep(d, now_ms) ? 0 : polling_due(&d->polling);
    return any ? sooner(back_ms, sooner(poll_ms, wakeups_due(&d->wakeups))) : back_ms;
}

/* When is a waiting claim to be verified? */
static int64_t waiting_due(const struct decider *d)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < d->n_handlers; i++) {
        due = sooner(due, check_due(d, i));
    }
    return due;
}

static int64_t tell_due(const struct decider *d)
{
    const struct rounds *r = &d->rounds;
    int64_t due = sooner(d->doubtful ? r->doubtful_ms : INT64_MAX, r->own_again_ms);
    due = sooner(due, sooner(progress_due(d), step_due(d)));
    due = r->need_own || d->to_finish ? 0 : sooner(due, waiting_due(d));
    return later(due, r->tell.retry_ms);
}

static int64_t requeue_due(const struct decider *d)
{
    bool may = has_requeues(d) && !d->rounds.need_own && !steps_wait(d);
    return may ? d->rounds.requeue.retry_ms : INT64_MAX;
}

static int64_t claim_due(const struct decider *d, int64_t now_ms)
{
    int64_t due = sooner(d->rounds.next_chores_ms, alone_due(d));
    if (!may_claim_now(d)) {
        return INT64_MAX;
    }
    if (round_capacity(d) > 0) {
        due = sooner(alone_due(d), claims_due(d, now_ms));
    }
    return later(due, d->rounds.claim.retry_ms);
}

int64_t round_due(const struct decider *d, int64_t now_ms)
{
    if (d->rounds.in_flight || !d->present) {
        return INT64_MAX;
    }
    int64_t due = sooner(tell_due(d), requeue_due(d));
    return later(sooner(due, claim_due(d, now_ms)), paced_until(d));
}
