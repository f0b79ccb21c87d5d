/* The round with the database: what goes into the next one, and what its answer means. */
#include "worker/decide/decider.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

bool plan_may_claim(const struct decider *d)
{
    return d->stop_level == 0 && d->present && !d->need_own;
}

/* The free slots, and what will start within AHEAD_MS at the rate of the last moments. */
int plan_capacity(const struct decider *d)
{
    double ahead = d->rate_per_ms * AHEAD_MS;
    int room = slots_room(d) - d->n_waiting + (ahead < AHEAD_MAX ? (int)ahead : AHEAD_MAX);
    return room < 0 ? 0 : room < ROUND_CLAIMS_MAX ? room : ROUND_CLAIMS_MAX;
}

/* --- asking --- */

static struct claim *send_first(struct claim **list)
{
    struct claim *c = *list;
    DL_DELETE(*list, c);
    c->state = CLAIM_SENT;
    return c;
}

static void add_verify(struct round *x, const struct claim *c)
{
    x->verify[x->n_verify].id = c->id;
    x->verify[x->n_verify++].claims = c->claims;
}

static void plan_outcomes(struct decider *d, struct round *x)
{
    while (d->ended && x->n_finish + x->n_requeue < d->outcomes_max) {
        struct claim *c = send_first(&d->ended);
        if (c->outcome == OUTCOME_DONE) {
            x->finish[x->n_finish++] = c;
        } else {
            x->requeue[x->n_requeue++] = c;
        }
    }
}

static void plan_verify(struct decider *d, struct round *x, int64_t now_ms)
{
    while (d->doubtful && now_ms >= d->doubtful_ms && x->n_verify < ROUND_VERIFY_MAX) {
        add_verify(x, send_first(&d->doubtful));
    }
    if (now_ms < d->attention_ms) {
        return;
    }
    for (int i = 0; i < d->n_slots; i++) {
        struct claim *c;
        DL_FOREACH(d->slots[i].given, c)
        {
            if (now_ms >= c->verify_ms && x->n_verify < ROUND_VERIFY_MAX) {
                c->verify_ms = now_ms + VERIFY_EVERY_MS;
                add_verify(x, c);
            }
        }
    }
}

static bool any_backs_off(const struct decider *d, int64_t now_ms)
{
    for (int i = 0; i < d->n_handlers; i++) {
        if (now_ms < d->handlers[i].backoff_until_ms) {
            return true;
        }
    }
    return false;
}

/* --until-empty: nothing is left here, so look whether anything is left at all. A look that must
 * leave out a backing_off handler's kinds could not tell. */
static bool wants_last_poll(const struct decider *d, int64_t now_ms)
{
    return d->until_empty && d->n_held == 0 && !any_backs_off(d, now_ms);
}

/* Which tasks to claim: those whose wake-ups came, and by the ordered claim where slots stay free.
 * Once a second, and at once after a look that was full, the ordered claim gets one slot in eight,
 * and one at least, even when messages would fill them all. */
static void plan_claims(struct decider *d, struct round *x, int64_t now_ms)
{
    int room = plan_capacity(d);
    bool last = wants_last_poll(d, now_ms);
    bool look = last || now_ms >= d->next_poll_ms;
    int kept = look ? (room + 7) / 8 : 0;
    if (room == 0) {
        return;
    }
    x->n_ids = wakeups_take(&d->wakeups, now_ms, x->ids, x->tries, (size_t)(room - kept));
    if (look) {
        x->n_poll = room - (int)x->n_ids;
        x->oldest = ++d->polls % OLDEST_EVERY == 0;
        x->everything = last && d->found_nothing;
        x->turn = d->polls;
        d->next_poll_ms = now_ms + POLL_EVERY_MS + decider_jitter(d, POLL_JITTER_MS);
    }
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        x->rests[i] = now_ms < h->backoff_until_ms || h->payload_bytes >= decider_bytes_share(d);
    }
}

static void plan_chores(struct decider *d, struct round *x, int64_t now_ms)
{
    if (now_ms >= d->next_chores_ms) {
        x->chores = true;
        d->next_chores_ms = now_ms + CHORES_EVERY_MS;
    }
}

static bool is_worth_it(const struct round *x)
{
    bool busy = x->n_finish + x->n_requeue + x->n_verify + x->n_ids > 0 || x->n_poll > 0;
    return busy || x->own || x->chores;
}

/* While tasks come one after the other, a round for each would cost as much as they do, and its
 * commit keeps the producers' waiting. At a high rate the first answers come a moment before
 * hundreds more: they gather for a millisecond, so that a round is worth its commit. */
static bool should_gather(struct decider *d, int64_t now_ms)
{
    int n_ended = d->n_held - d->n_waiting - d->n_given;
    bool high = d->rate_per_ms >= GATHER_PER_MS;
    bool enough = high && n_ended >= (int)d->rate_per_ms;
    if (d->rate_per_ms >= PACE_PER_MS && !enough && now_ms < d->begun_ms + PACE_MS) {
        d->gather_ms = d->begun_ms + PACE_MS;
        return true;
    }
    if (!high || enough || d->n_given == 0) {
        d->gather_ms = 0;
        return false;
    }
    if (d->gather_ms == 0) {
        d->gather_ms = now_ms + 1;
    }
    return now_ms < d->gather_ms;
}

void round_plan(struct decider *d, int64_t now_ms)
{
    if (d->in_flight || !d->present || now_ms < d->retry_ms || should_gather(d, now_ms)) {
        return;
    }
    d->gather_ms = 0;
    d->begun_ms = now_ms;
    struct round *x = &d->round;
    x->own = d->need_own || now_ms >= d->own_again_ms;
    d->own_again_ms = x->own && !d->need_own ? INT64_MAX : d->own_again_ms;
    d->stale = false;
    x->unlocked = now_ms < d->unlocked_until_ms;
    x->oldest = x->everything = x->partial = x->chores = false;
    x->n_finish = x->n_requeue = x->n_verify = x->n_ids = 0;
    x->n_by_id = x->n_by_poll = x->n_owned = 0;
    x->n_poll = 0;
    x->owned = NULL;
    plan_verify(d, x, now_ms);
    if (!d->need_own) {
        plan_outcomes(d, x);
    }
    if (plan_may_claim(d)) {
        plan_claims(d, x, now_ms);
        plan_chores(d, x, now_ms);
    }
    if (is_worth_it(x)) {
        d->in_flight = true;
        (void)decider_act(d, ACTION_ROUND);
    } else {
        wakeups_settle(&d->wakeups); /* ids that were claimed here before need no asking */
    }
}

/* --- the answer --- */

static void doubt(struct decider *d, struct claim *c)
{
    if (!c->hashed) { /* verdicts find claims by the hash; asking for all of ours finds it */
        d->need_own = true;
        decider_drop_claim(d, c);
        return;
    }
    c->state = CLAIM_DOUBTFUL;
    wakeups_unclaimed(&d->wakeups, c->id); /* it may be ready again: its next wake-up counts */
    DL_APPEND(d->doubtful, c);
}

static void note_requeue(struct decider *d, const struct claim *c, enum requeue_state state)
{
    enum note note = c->outcome == OUTCOME_RELEASED ? NOTE_TASK_RELEASED
                     : c->outcome == OUTCOME_LATER  ? NOTE_TASK_LATER
                     : state == REQUEUE_DEAD        ? NOTE_TASK_DEAD
                                                    : NOTE_TASK_FAILED;
    d->count_failed += c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT;
    d->count_dead += state == REQUEUE_DEAD;
    d->count_released += c->outcome == OUTCOME_RELEASED;
    decider_note(d, note, c->id, "%s attempt %d%s%s", c->kind, c->attempt, c->error ? ": " : "",
                 c->error ? c->error : "");
}

/* What was missed is another's, or locked by somebody who may take his time: it is asked for after
 * a pause, or outcomes and questions would chase each other as fast as the database can. */
static void take_outcomes(struct decider *d, struct round *x, int64_t now_ms)
{
    if (!d->doubtful) {
        d->doubtful_ms = now_ms + RETRY_MIN_MS;
    }
    for (size_t i = 0; i < x->n_finish; i++) {
        struct claim *c = x->finish[i];
        if (x->finished[i]) {
            d->count_done++;
            decider_drop_claim(d, c);
        } else {
            doubt(d, c);
        }
    }
    for (size_t i = 0; i < x->n_requeue; i++) {
        struct claim *c = x->requeue[i];
        if (x->requeue_state[i] == REQUEUE_MISSED) {
            doubt(d, c);
            continue;
        }
        wakeups_unclaimed(&d->wakeups, c->id);
        note_requeue(d, c, x->requeue_state[i]);
        decider_drop_claim(d, c);
    }
}

static void take_verdict(struct decider *d, struct claim *c, enum verdict verdict, int64_t now_ms)
{
    if (c->state == CLAIM_GIVEN) {
        if (verdict == VERDICT_LOST) {
            slots_lose(d, c, now_ms);
        }
        return;
    }
    if (verdict == VERDICT_MINE) {
        /* its row was locked, or the round did not commit: tell the outcome again */
        d->unlocked_until_ms = now_ms + UNLOCKED_FOR_MS;
        c->state = CLAIM_ENDED;
        DL_APPEND(d->ended, c);
        return;
    }
    if (verdict == VERDICT_LOST) {
        wakeups_unclaimed(&d->wakeups, c->id);
        decider_note(d, NOTE_CLAIM_LOST, c->id, "%s attempt %d: its outcome is discarded", c->kind,
                     c->attempt);
        d->count_lost++;
    } else {
        d->count_done++; /* by the handler itself, or our answer was lost */
    }
    decider_drop_claim(d, c);
}

static struct claim *find_held(const struct decider *d, int64_t id)
{
    struct claim *c;
    HASH_FIND(hh, d->held, &id, sizeof id, c);
    return c;
}

/* A verified claim may have got its reply, and with it left its child, while the round ran. */
static void take_verdicts(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_verify; i++) {
        struct claim *c = find_held(d, x->verify[i].id);
        if (c && c->claims == x->verify[i].claims &&
            (c->state == CLAIM_SENT || c->state == CLAIM_GIVEN)) {
            take_verdict(d, c, x->verdicts[i], now_ms);
        }
    }
}

static int handler_of_kind(const struct decider *d, const char *kind)
{
    size_t len = strlen(kind);
    for (int i = 0; i < d->n_handlers; i++) {
        const char *at = d->handlers[i].kinds;
        for (; *at; at += strcspn(at, ","), at += *at == ',') {
            if (strncmp(at, kind, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
                return i;
            }
        }
    }
    return -1;
}

static void take_claim(struct decider *d, struct claim *c, int64_t now_ms)
{
    struct claim *older = find_held(d, c->id);
    c->hashed = !older;
    if (older) {
        /* somebody took it from us and put it back: see first that the older claim is lost */
        older->verify_ms = d->attention_ms = now_ms;
        c->outcome = OUTCOME_RELEASED;
        c->delay_ms = VERIFY_EVERY_MS;
    } else {
        HASH_ADD(hh, d->held, id, sizeof c->id, c);
        c->hashed = c->hh.tbl != NULL;
        d->no_memory = d->no_memory || !c->hashed; /* ends the worker; the cleaner takes over */
        wakeups_claimed(&d->wakeups, c->id);
    }
    d->n_held++;
    c->handler = c->outcome == OUTCOME_NONE ? handler_of_kind(d, c->kind) : -1;
    if (c->handler >= 0) {
        d->handlers[c->handler].payload_bytes += c->payload_bytes;
    }
    if (c->handler >= 0 && d->stop_level == 0) {
        decider_wait_claim(d, c, now_ms);
    } else {
        c->outcome = OUTCOME_RELEASED;
        c->state = CLAIM_ENDED;
        DL_APPEND(d->ended, c);
    }
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The ids that were asked for and not claimed are asked again later. */
static void take_missed(struct decider *d, struct round *x, int64_t now_ms)
{
    if (x->n_by_id == x->n_ids) {
        return;
    }
    int64_t got[ROUND_CLAIMS_MAX];
    for (size_t i = 0; i < x->n_by_id; i++) {
        got[i] = x->claimed[i]->id;
    }
    qsort(got, x->n_by_id, sizeof *got, compare_ids);
    for (size_t i = 0; i < x->n_ids; i++) {
        if (!bsearch(&x->ids[i], got, x->n_by_id, sizeof *got, compare_ids)) {
            wakeups_missed(&d->wakeups, x->ids[i], x->tries[i], now_ms);
        }
    }
}

static bool left_kinds_out(const struct round *x, int n_handlers)
{
    for (int i = 0; i < n_handlers; i++) {
        if (x->rests[i]) {
            return true;
        }
    }
    return false;
}

static void take_claims(struct decider *d, struct round *x, int64_t now_ms)
{
    take_missed(d, x, now_ms);
    for (size_t i = 0; d->stale && i < x->n_by_id + x->n_by_poll; i++) {
        claim_free(x->claimed[i]); /* claimed by a worker that is declared dead */
    }
    if (d->stale) {
        return;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < x->n_by_id + x->n_by_poll; i++) {
        bytes += x->claimed[i]->payload_bytes;
        take_claim(d, x->claimed[i], now_ms);
    }
    d->found_nothing = x->n_poll > 0 ? x->n_by_poll == 0 && !x->partial : d->found_nothing;
    bool more = x->n_by_poll == (size_t)x->n_poll || bytes >= CLAIM_BYTES_MAX / 2;
    if (x->n_poll > 0 && (more || x->partial)) {
        d->next_poll_ms = now_ms; /* where these came from, or where it did not ask */
    }
    bool empty = x->everything && x->n_by_poll == 0 && d->n_held == 0 &&
                 !left_kinds_out(x, d->n_handlers);
    if (d->until_empty && d->stop_level == 0 && empty) {
        d->stop_level = 1;
        d->stop_ms = now_ms + d->drain_limit_ms;
    }
}

/* What is ours in the database and unknown here was claimed by a round whose answer was lost.
 * The number of claims alone does not tell: a standby that lagged hands the same one out again. */
static void take_owned(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_owned; i++) {
        struct claim *c = x->owned[i], *held = find_held(d, c->id);
        bool known = held && held->claims == c->claims && held->start_us == c->start_us;
        if (d->stale || known) {
            claim_free(c);
        } else {
            c->outcome = OUTCOME_RELEASED;
            take_claim(d, c, now_ms);
        }
    }
    free(x->owned);
    x->owned = NULL;
    d->need_own = false;
}

void round_done(struct decider *d, int64_t now_ms)
{
    struct round *x = &d->round;
    d->in_flight = false;
    d->retry_pause_ms = RETRY_MIN_MS;
    if (d->failing) {
        d->failing = false;
        decider_note(d, NOTE_ROUND_WORKS, 0, "%s", "");
    }
    if (d->outcomes_max < ROUND_OUTCOMES_MAX) {
        d->outcomes_max *= 2;
    }
    if (x->own) { /* first, as it was asked: what was put back then was ours before, and is known */
        take_owned(d, x, now_ms);
    }
    take_verdicts(d, x, now_ms);
    take_outcomes(d, x, now_ms);
    wakeups_settle(&d->wakeups);
    take_claims(d, x, now_ms);
}

/* --- it failed --- */

static void send_again(struct decider *d, struct claim **claims, size_t n, bool unknown)
{
    for (size_t i = n; i-- > 0;) {
        struct claim *c = claims[i];
        if (unknown) {
            doubt(d, c);
        } else {
            c->state = CLAIM_ENDED;
            DL_PREPEND(d->ended, c);
        }
    }
}

/* The one outcome that the database cannot store, a result with \u0000 for instance, becomes a
 * failure that says so; the texts in it are then our own. */
static void refuse_outcome(struct claim *c, const char *text)
{
    char error[512];
    (void)snprintf(error, sizeof error, "the handler's result cannot be stored: %.400s", text);
    free(c->reply);
    free(c->error);
    c->reply = NULL;
    c->error = strdup(error);
    c->outcome = c->outcome == OUTCOME_DONE ? OUTCOME_FAILED : c->outcome;
    c->refused = true;
}

/* False when there is nothing to halve and nothing to refuse: then no outcome is what is wrong. */
static bool halve(struct decider *d, struct round *x, const char *text)
{
    size_t n = x->n_finish + x->n_requeue;
    if (n > 1) {
        d->outcomes_max = n / 2;
        return true;
    }
    struct claim *c = n == 0 ? NULL : x->n_finish == 1 ? x->finish[0] : x->requeue[0];
    if (!c || c->refused) {
        return false;
    }
    refuse_outcome(c, text);
    return true;
}

void round_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms)
{
    struct round *x = &d->round;
    bool unknown = failure == FAILURE_UNKNOWN;
    d->in_flight = false;
    bool halved = failure == FAILURE_ROW && halve(d, x, text);
    if (failure == FAILURE_AGAIN && x->n_finish > 0 && !x->unlocked) {
        d->retry_ms = now_ms; /* a lock, most likely: the other form does not wait for it */
        d->unlocked_until_ms = now_ms + UNLOCKED_FOR_MS;
    } else if (!halved) {
        d->retry_ms = now_ms + d->retry_pause_ms / 2 + decider_jitter(d, d->retry_pause_ms);
        d->retry_pause_ms = 2 * d->retry_pause_ms < RETRY_MAX_MS ? 2 * d->retry_pause_ms
                                                                 : RETRY_MAX_MS;
        d->unlocked_until_ms = now_ms + UNLOCKED_FOR_MS;
    }
    if (!d->failing && !halved) {
        d->failing = true;
        decider_note(d, NOTE_ROUND_FAILED, 0, "%s", text);
    }
    d->need_own = !d->stale && (d->need_own || unknown || x->own);
    if (d->need_own) {
        /* the old session may be at work yet, and commit claims after the first answer */
        d->own_again_ms = now_ms + OWN_AGAIN_MS;
    }
    send_again(d, x->finish, x->n_finish, unknown);
    send_again(d, x->requeue, x->n_requeue, unknown);
    for (size_t i = 0; i < x->n_verify; i++) {
        struct claim *c = find_held(d, x->verify[i].id);
        if (c && c->state == CLAIM_SENT && c->claims == x->verify[i].claims) {
            doubt(d, c);
        }
    }
    wakeups_unask(&d->wakeups);
    for (size_t i = 0; i < x->n_ids; i++) {
        if (x->tries[i] > 0) {
            wakeups_missed(&d->wakeups, x->ids[i], x->tries[i] - 1, now_ms);
        }
    }
    d->next_poll_ms = x->n_poll > 0 ? now_ms : d->next_poll_ms;
    d->next_chores_ms = x->chores ? now_ms + CHORES_RETRY_MS : d->next_chores_ms;
}

int64_t plan_due(const struct decider *d, int64_t now_ms)
{
    if (d->in_flight || !d->present) {
        return INT64_MAX;
    }
    int64_t due = INT64_MAX;
    if (d->need_own || d->ended) {
        due = 0;
    } else if (plan_may_claim(d)) {
        int64_t again = wakeups_due(&d->wakeups);
        due = again < d->next_poll_ms ? again : d->next_poll_ms;
        due = wants_last_poll(d, now_ms) ? 0 : due;
        due = plan_capacity(d) == 0 ? d->next_chores_ms : due;
    }
    if (d->doubtful && d->doubtful_ms < due) {
        due = d->doubtful_ms;
    }
    due = d->own_again_ms < due ? d->own_again_ms : due;
    due = d->gather_ms > due ? d->gather_ms : due;
    return due > d->retry_ms ? due : d->retry_ms;
}
