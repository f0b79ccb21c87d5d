#include "worker/decide/round_plan.h"

#include "worker/decide/give.h"
#include "worker/decide/held.h"
#include "worker/decide/slow.h"
#include "worker/decide/start.h"
#include "worker/decide/state.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <utlist.h>

bool round_may_claim(const struct decider *d)
{
    return d->stop_level == 0 && d->present && !d->rounds.need_own;
}

/* The free room, and the tasks that will start within AHEAD_MS at the current rate. Slow tasks are
 * not claimed ahead, because a more urgent task cannot overtake a claimed one. */
int round_capacity(const struct decider *d)
{
    if (d->alone.state != ALONE_NOT) {
        return 0;
    }
    double ahead = d->ewma_us < AHEAD_FAST_US ? d->rate_per_ms * AHEAD_MS : 0;
    int room = slots_room(d) - d->n_waiting + (ahead < AHEAD_MAX ? (int)ahead : AHEAD_MAX);
    return room < 0 ? 0 : room < ROUND_CLAIMS_MAX ? room : ROUND_CLAIMS_MAX;
}

static struct claim *send_first(struct decider *d, struct claim *const *list)
{
    struct claim *c = *list;
    held_unlist(d, c);
    c->state = CLAIM_IN_ROUND;
    return c;
}

/* --- which claims are ours --- */

/* When to verify the claims of a handler that wait for a child. Those that are given together are
 * verified right before that. The list is in the order of claimed_ms. */
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

static void add_verify(struct round *x, const struct claim *c)
{
    assert(x->n_verify < ROUND_VERIFY_MAX);
    x->verify[x->n_verify].id = c->id;
    x->verify[x->n_verify].key = c->key;
    x->verify[x->n_verify++].claims = c->claims;
}

/* Claims that wait for a child: a task that was cancelled meanwhile must not start. */
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
    verify_waiting(d, x, now_ms);
    while (d->doubtful && now_ms >= d->rounds.doubtful_ms && x->n_verify < ROUND_VERIFY_MAX) {
        add_verify(x, send_first(d, &d->doubtful));
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

static bool plan_ask(struct decider *d, struct round *x, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    x->own = r->need_own || now_ms >= r->own_again_ms;
    r->own_again_ms = x->own && !r->need_own ? INT64_MAX : r->own_again_ms;
    plan_verify(d, x, now_ms);
    return x->own || x->n_verify > 0;
}

/* When running tasks are to be verified is part of slots_due(). */
static int64_t ask_due(const struct decider *d)
{
    const struct rounds *r = &d->rounds;
    int64_t due = sooner(d->doubtful ? r->doubtful_ms : INT64_MAX, r->own_again_ms);
    for (int i = 0; i < d->n_handlers; i++) {
        due = sooner(due, check_due(d, i));
    }
    return r->need_own ? 0 : due;
}

/* --- outcomes --- */

/* The arrays' size is a bound, too, whatever outcomes_max has come to. */
static bool is_full(const struct decider *d, const struct round *x)
{
    size_t n = x->n_finish + x->n_requeue;
    return n >= d->rounds.outcomes_max || n >= ROUND_OUTCOMES_MAX;
}

static bool plan_finish(struct decider *d, struct round *x, int64_t now_ms)
{
    size_t bytes = 0;
    x->unlocked = now_ms < d->rounds.unlocked_until_ms;
    while (d->to_finish && !is_full(d, x) && bytes < ROUND_REPLY_BYTES_MAX &&
           slow_fits(x, d->to_finish)) {
        struct claim *c = send_first(d, &d->to_finish);
        bytes += c->reply_bytes;
        x->finish[x->n_finish++] = c;
    }
    return x->n_finish > 0;
}

static int64_t finish_due(const struct decider *d)
{
    return d->to_finish ? 0 : INT64_MAX;
}

static bool plan_requeue(struct decider *d, struct round *x, int64_t now_ms)
{
    (void)now_ms;
    while (d->to_requeue && !is_full(d, x) && slow_fits(x, d->to_requeue)) {
        x->requeue[x->n_requeue++] = send_first(d, &d->to_requeue);
    }
    return x->n_requeue > 0;
}

static int64_t requeue_due(const struct decider *d)
{
    return d->to_requeue ? 0 : INT64_MAX;
}

/* --- claiming --- */

/* Its tasks would wait for a child: it backs off, or its first child has not said hello. */
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

/* With --until-empty and no task left here, a last sweep tells whether any is left at all. It must
 * not leave out the kinds of a handler that is held back. */
static bool wants_last_sweep(const struct decider *d, int64_t now_ms)
{
    return d->until_empty && d->n_held == 0 && d->polling.sweep == SWEEP_OVER &&
           !any_is_held_back(d, now_ms);
}

static bool is_left_out(const struct decider *d, int handler, int64_t now_ms)
{
    const struct decider_handler *h = &d->handlers[handler];
    return is_held_back(d, handler, now_ms) || h->payload_bytes >= held_bytes_share(d) ||
           (h->paused &&
            !d->until_empty); /* with that, polls must continue until nothing is left */
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

/* Pauses that were told while a round was in flight hold for the next one. Polls passed over tasks
 * of a kind that is resumed; a sweep finds them. */
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

/* Polls passed over tasks of a handler that was left out; when it is not any more, a sweep finds
 * them. */
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

/* Claim what a poll finds, if one is due; else the tasks whose wake-ups came. */
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

/* How many tasks have an outcome that the database does not know yet. */
static int untold(const struct decider *d)
{
    return d->n_held - d->n_waiting - d->n_given;
}

/* Stop claiming while too many outcomes are unreported: if this worker died, those tasks would run
 * again. */
static bool may_claim_now(const struct decider *d)
{
    const struct part *parts = d->rounds.parts;
    bool failed = parts[PART_WRITE].failed || parts[PART_FINISH].failed ||
                  parts[PART_REQUEUE].failed;
    return round_may_claim(d) && !(failed && untold(d) >= UNTOLD_MAX);
}

/* After a claim or poll that failed, the next one has a short time limit while tasks run, because
 * their outcomes wait for it. */
static bool plan_claim(struct decider *d, struct round *x, int64_t now_ms)
{
    const struct part *claim = &d->rounds.parts[PART_CLAIM];
    if (!may_claim_now(d)) {
        return false;
    }
    plan_claims(d, x, now_ms);
    alone_plan(d, x, now_ms);
    plan_chores(d, x, now_ms);
    if (claim->failed && d->n_given > 0) {
        x->limit_ms = later(ASK_LIMIT_MIN_MS, claim->pause_ms);
    }
    return x->n_ids > 0 || x->n_poll > 0 || x->chores || x->alone != ALONE_ASK_NOTHING;
}

/* When is there something to claim? Not for a handler that holds too many bytes, or waits for its
 * first child: an outcome or a hello will change that. */
static int64_t claims_due(const struct decider *d)
{
    int64_t back_ms = INT64_MAX;
    bool any = false;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        if (h->left_out && !h->paused && !start_is_awaited(d, i) &&
            h->payload_bytes < held_bytes_share(d)) {
            back_ms = sooner(back_ms, h->backoff_until_ms);
        }
        any = any || !h->left_out;
    }
    int64_t poll_ms = wants_last_sweep(d, d->now_ms) ? 0 : polling_due(&d->polling);
    return any ? sooner(back_ms, sooner(poll_ms, wakeups_due(&d->wakeups))) : back_ms;
}

static int64_t claim_due(const struct decider *d)
{
    if (!may_claim_now(d)) {
        return INT64_MAX;
    }
    int64_t due = round_capacity(d) > 0 ? claims_due(d) : d->rounds.next_chores_ms;
    return sooner(due, alone_due(d));
}

/* --- a round --- */

/* `plan` puts what is due into the round; false: nothing is. `due` says when something will be;
 * INT64_MAX = there is nothing. */
static const struct {
    bool (*plan)(struct decider *d, struct round *x, int64_t now_ms);
    int64_t (*due)(const struct decider *d);
} parts[ROUND_PARTS] = {
    [PART_ASK] = {plan_ask, ask_due},          [PART_WRITE] = {writes_plan, writes_due},
    [PART_FINISH] = {plan_finish, finish_due}, [PART_REQUEUE] = {plan_requeue, requeue_due},
    [PART_CLAIM] = {plan_claim, claim_due},
};

/* If it is not known what the last round did, the next one only asks. */
static bool part_may_go(const struct rounds *r, enum round_part part, int64_t now_ms)
{
    return now_ms >= r->parts[part].retry_ms && (part == PART_ASK || !r->need_own);
}

bool round_goes_apart(const struct decider *d)
{
    bool apart = false;
    for (int i = 0; i < ROUND_PARTS && !apart; i++) {
        apart = d->rounds.parts[i].failed && parts[i].due(d) < INT64_MAX;
    }
    return apart;
}

/* Together: all parts, from the first to the last. Apart: one part, the next in turn that has
 * anything to do. */
static void plan_parts(struct decider *d, struct round *x, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    bool apart = round_goes_apart(d), any = false;
    for (int i = 0; i < ROUND_PARTS && !(apart && any); i++) {
        r->last = apart ? (r->last + 1) % ROUND_PARTS : (enum round_part)i;
        x->has[r->last] = part_may_go(r, r->last, now_ms) && parts[r->last].plan(d, x, now_ms);
        any = any || x->has[r->last];
    }
}

int round_parts(const struct round *x)
{
    int n = 0;
    for (int i = 0; i < ROUND_PARTS; i++) {
        n += x->has[i];
    }
    return n;
}

/* While tasks end fast, a round for each would cost as much as the tasks, and its commits would
 * slow down those of producers. So the next round waits PACE_MS, or until as many tasks have ended
 * as should in that time. ret: until when */
static int64_t paced_until(const struct decider *d)
{
    bool enough = untold(d) >= (int)(d->rate_per_ms * PACE_MS);
    return d->rate_per_ms >= PACE_PER_MS && !enough ? d->rounds.ended_ms + PACE_MS : 0;
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
    plan_parts(d, x, now_ms);
    if (round_parts(x) > 0) {
        r->in_flight = true;
        (void)actions_add(&d->actions, ACTION_ROUND);
    }
}

int64_t round_due(const struct decider *d)
{
    const struct rounds *r = &d->rounds;
    int64_t due = INT64_MAX;
    for (int i = 0; i < ROUND_PARTS; i++) {
        if (i == PART_ASK || !r->need_own) {
            due = sooner(due, later(parts[i].due(d), r->parts[i].retry_ms));
        }
    }
    return r->in_flight || !d->present ? INT64_MAX : later(due, paced_until(d));
}
