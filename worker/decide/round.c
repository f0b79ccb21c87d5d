#include "worker/decide/round.h"

#include "core/base/buf.h"
#include "worker/decide/held.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/slow.h"
#include "worker/decide/state.h"
#include "worker/decide/tally.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

int64_t round_jitter(struct decider *d, int64_t n)
{
    d->random ^= d->random << 13; /* xorshift64, Marsaglia 2003 */
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return n > 0 ? (int64_t)(d->random % (uint64_t)n) : 0;
}

/* --- the answer --- */

static enum tally tally_of(enum claim_outcome outcome, enum requeue_state state)
{
    return state == REQUEUE_DEAD            ? TALLY_DEAD
           : outcome == OUTCOME_RELEASED    ? TALLY_RELEASED
           : outcome == OUTCOME_SNOOZE      ? TALLY_SNOOZE
           : outcome == OUTCOME_WAIT_SIGNAL ? TALLY_WAIT_SIGNAL
           : outcome == OUTCOME_TIMED_OUT   ? TALLY_TIMED_OUT
           : outcome == OUTCOME_CRASHED     ? TALLY_CRASHED
                                            : TALLY_FAILED;
}

static void note_requeue(struct decider *d, const struct claim *c, enum requeue_state state)
{
    bool waits = c->outcome == OUTCOME_WAIT_SIGNAL && state == REQUEUE_BLOCKED;
    enum note note = c->outcome == OUTCOME_RELEASED ? NOTE_TASK_RELEASED
                     : c->outcome == OUTCOME_SNOOZE ? NOTE_TASK_SNOOZED
                     : waits                        ? NOTE_TASK_WAITS_SIGNAL
                     : state == REQUEUE_DEAD        ? NOTE_TASK_DEAD
                                                    : NOTE_TASK_FAILED;
    note = c->outcome == OUTCOME_CRASHED && state != REQUEUE_DEAD ? NOTE_TASK_CRASHED : note;
    d->count_failed += c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT ||
                       c->outcome == OUTCOME_CRASHED;
    d->count_dead += state == REQUEUE_DEAD;
    d->count_released += c->outcome == OUTCOME_RELEASED;
    tally_ended(d, c, tally_of(c->outcome, state));
    actions_note(&d->actions, note, c->id, "%s attempt %d%s%s", c->kind, c->attempt,
                 c->error ? ": " : "", c->error ? c->error : "");
}

/* When an outcome was missed, the task has another claim by now, or its row is locked. A round asks
 * which, after a pause: else outcome and question would alternate as fast as the database can. */
static void take_outcomes(struct decider *d, struct round *x, int64_t now_ms)
{
    size_t n_missed = 0;
    if (!d->doubtful) {
        d->rounds.doubtful_ms = now_ms + RETRY_MIN_MS;
    }
    for (size_t i = 0; i < x->n_finish; i++) {
        struct claim *c = x->finish[i];
        if (x->finished[i]) {
            d->count_done++;
            if (d->notes_done) {
                actions_note(&d->actions, NOTE_TASK_DONE, c->id, "%s attempt %d: %lld ms", c->kind,
                             c->attempt, (long long)c->ran_ms);
            }
            tally_ended(d, c, TALLY_DONE);
            held_drop(d, c);
        } else {
            held_doubt(d, c);
            n_missed++;
        }
    }
    for (size_t i = 0; i < x->n_requeue; i++) {
        struct claim *c = x->requeue[i];
        if (x->requeue_state[i] == REQUEUE_MISSED) {
            held_doubt(d, c);
            n_missed++;
            continue;
        }
        note_requeue(d, c, x->requeue_state[i]);
        held_drop(d, c);
        if (x->requeue_state[i] == REQUEUE_READY) {
            polling_given_back(&d->polling, now_ms);
        }
    }
    /* a round that only missed does not show that the bad value is gone */
    if (x->n_finish + x->n_requeue > n_missed) {
        d->rounds.outcomes_max = slow_grow(d->rounds.outcomes_max, ROUND_OUTCOMES_MAX);
    }
}

static void take_waiting_verdict(struct decider *d, struct claim *c, enum verdict verdict)
{
    if (verdict == VERDICT_MINE) {
        c->begun_ms = d->rounds.begun_ms;
        return;
    }
    actions_note(&d->actions, NOTE_CLAIM_LOST, c->id, "%s attempt %d: it is not started", c->kind,
                 c->attempt);
    d->count_lost++;
    tally_ended(d, c, TALLY_LOST);
    held_drop(d, c);
}

static void take_verdict(struct decider *d, struct claim *c, enum verdict verdict,
                         int64_t timeout_ms, int64_t now_ms)
{
    bool lost = verdict == VERDICT_LOST || verdict == VERDICT_CANCELLED;
    if (c->state == CLAIM_GIVEN) {
        if (lost) {
            slots_lose(d, c, verdict == VERDICT_LOST ? "lost" : "cancelled", now_ms);
        } else {
            slots_confirm(d, c, timeout_ms, now_ms);
        }
        return;
    }
    if (c->state == CLAIM_WAITING) {
        take_waiting_verdict(d, c, verdict);
        return;
    }
    if (verdict == VERDICT_MINE) {
        /* its row was locked, or the round did not commit: the outcome goes again */
        d->rounds.unlocked_until_ms = now_ms + UNLOCKED_FOR_MS;
        held_end(d, c, c->outcome, NULL);
        return;
    }
    if (lost) {
        actions_note(&d->actions, NOTE_CLAIM_LOST, c->id, "%s attempt %d: its outcome is discarded",
                     c->kind, c->attempt);
        d->count_lost++;
        tally_ended(d, c, TALLY_LOST);
    } else {
        d->count_done++; /* the handler finished it itself, or the round's answer was lost */
        tally_ended(d, c, TALLY_DONE);
    }
    held_drop(d, c);
}

/* The claim that was asked about; NULL if it got its outcome while the round ran. */
static struct claim *find_verified(const struct decider *d, const struct round *x, size_t i)
{
    struct claim *c = held_find(d, x->verify[i].id);
    bool asked = c && c->key == x->verify[i].key &&
                 (c->state == CLAIM_IN_ROUND || c->state == CLAIM_GIVEN ||
                  c->state == CLAIM_WAITING);
    return asked ? c : NULL;
}

static void take_verdicts(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_verify; i++) {
        struct claim *c = find_verified(d, x, i);
        if (c) {
            int64_t timeout_ms = x->verdicts[i] == VERDICT_MINE ? x->timeouts_ms[i] : 0;
            take_verdict(d, c, x->verdicts[i], timeout_ms, now_ms);
        }
    }
}

static void take_claim(struct decider *d, struct claim *c, int64_t now_ms)
{
    struct claim *older = held_find(d, c->id);
    if (older) {
        /* the older claim was taken from us, and the task requeued: first verify the older one */
        older->verify_ms = d->attention_ms = now_ms;
        c->outcome = OUTCOME_RELEASED;
        c->delay_ms = VERIFY_EVERY_MS;
    } else {
        HASH_ADD(hh, d->held, id, sizeof c->id, c);
        c->hashed = c->hh.tbl != NULL;
        d->actions.no_memory = d->actions.no_memory ||
                               !c->hashed; /* the worker ends, and the cleaner recovers it */
    }
    d->n_held++;
    if (c->handler >= 0) {
        d->handlers[c->handler].payload_bytes += c->payload_bytes + c->steps_bytes;
    }
    if (c->handler >= 0 && c->outcome == OUTCOME_NONE && d->stop_level == 0) {
        held_wait(d, c, now_ms);
    } else {
        held_end(d, c, OUTCOME_RELEASED, NULL);
    }
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Ids that were not claimed are asked for once more, later. */
static void take_missed(struct decider *d, struct round *x, int64_t now_ms)
{
    if (x->n_poll > 0 || x->n_claimed == x->n_ids) {
        return;
    }
    int64_t got[ROUND_CLAIMS_MAX];
    assert(x->n_claimed <= ROUND_CLAIMS_MAX);
    for (size_t i = 0; i < x->n_claimed; i++) {
        got[i] = x->claimed[i]->id;
    }
    qsort(got, x->n_claimed, sizeof *got, compare_ids);
    for (size_t i = 0; i < x->n_ids; i++) {
        if (!x->again[i] && !bsearch(&x->ids[i], got, x->n_claimed, sizeof *got, compare_ids)) {
            wakeups_missed(&d->wakeups, x->ids[i], now_ms);
        }
    }
}

static void take_poll(struct decider *d, const struct round *x, int64_t now_ms)
{
    struct polling *p = &d->polling;
    polling_end(p, x->way, x->end, x->n_claimed > 0 || x->leaves_out, now_ms - d->rounds.begun_ms,
                round_jitter(d, POLL_JITTER_MS), now_ms);
    bool swept = x->way == POLL_SWEEP || x->way == POLL_SWEEP_ON;
    bool all = swept && p->reach_ms < 0 && p->sweep == SWEEP_OVER;
    bool no_suspect = x->alone == ALONE_ASK_TURN && !x->has_turn;
    bool empty = all && !p->sweep_found && d->n_held == 0 && no_suspect;
    if (d->until_empty && d->stop_level == 0 && empty) {
        d->stop_level = 1;
        d->stop_ms = now_ms + d->drain_limit_ms;
    }
}

static void take_claims(struct decider *d, struct round *x, int64_t now_ms)
{
    take_missed(d, x, now_ms);
    for (size_t i = 0; i < x->n_claimed; i++) {
        if (d->rounds.stale) { /* claimed with the old worker id, which was declared dead */
            claim_free(x->claimed[i]);
        } else {
            tally_started(d, x->claimed[i]);
            take_claim(d, x->claimed[i], now_ms);
        }
    }
    if (x->n_poll > 0) {
        take_poll(d, x, now_ms);
    }
}

/* A claim that is ours in the database and unknown here is from a round whose answer was lost. */
static void take_owned(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_owned; i++) {
        struct claim *c = x->owned[i], *held = held_find(d, c->id);
        bool known = held && held->key == c->key;
        if (d->rounds.stale || known) {
            claim_free(c);
        } else {
            c->outcome = OUTCOME_RELEASED;
            take_claim(d, c, now_ms);
        }
    }
    free(x->owned);
    x->owned = NULL;
    d->rounds.need_own = false;
}

/* Parts that failed stay so until they commit. All others waited for the server only: it works. */
static void take_success(struct decider *d, const struct round *x)
{
    struct rounds *r = &d->rounds;
    for (int i = 0; i < ROUND_PARTS; i++) {
        if (x->has[i] || !r->parts[i].failed) {
            r->parts[i] = (struct part){.pause_ms = RETRY_MIN_MS};
        }
    }
    if (r->failing && !round_goes_apart(d)) {
        r->failing = false;
        actions_note(&d->actions, NOTE_ROUND_WORKS, 0, "%s", "");
    }
}

int64_t round_usual_ms(const struct decider *d)
{
    return sooner(d->rounds.took_ms[0], d->rounds.took_ms[1]);
}

void round_done(struct decider *d, int64_t now_ms)
{
    struct round *x = &d->round;
    d->rounds.in_flight = d->rounds.stood = false;
    d->rounds.ended_ms = now_ms;
    d->rounds.took_ms[1] = d->rounds.took_ms[0];
    d->rounds.took_ms[0] = now_ms - d->rounds.begun_ms;
    take_success(d, x);
    if (x->own) { /* first: tasks that this round ended were ours when it asked, and are held yet */
        take_owned(d, x, now_ms);
    }
    take_verdicts(d, x, now_ms);
    if (x->has[PART_WRITE]) {
        d->rounds.writes_max = slow_grow(d->rounds.writes_max, ROUND_WRITES_MAX);
    }
    writes_done(d, x, now_ms);
    take_outcomes(d, x, now_ms);
    alone_done(d, x, now_ms);
    take_claims(d, x, now_ms);
}

void round_free_answer(struct round *x)
{
    for (size_t i = 0; i < x->n_claimed; i++) {
        claim_free(x->claimed[i]);
    }
    for (size_t i = 0; i < x->n_owned; i++) {
        claim_free(x->owned[i]);
    }
    free(x->owned);
    x->owned = NULL;
    x->n_claimed = x->n_owned = 0;
}

static void free_sent(struct claim **claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!claims[i]->hashed) {
            claim_free(claims[i]);
        }
    }
}

void round_free(struct decider *d)
{
    struct round *x = &d->round;
    if (d->rounds.in_flight) {
        free_sent(x->finish, x->n_finish);
        free_sent(x->requeue, x->n_requeue);
        writes_free(d, x);
        round_free_answer(x);
    }
}

/* --- it failed --- */

char *round_result_note(const char *note)
{
    struct buf reply;
    buf_init(&reply, RESULT_NOTE_BYTES_MAX);
    buf_put_text(&reply, "{\"result\":");
    buf_put_json(&reply, note, strlen(note));
    buf_put_char(&reply, '}');
    char *copy = reply.failed ? NULL : strdup(buf_text(&reply));
    buf_clear(&reply);
    return copy;
}

static void send_again(struct decider *d, struct claim **claims, size_t n, bool unknown)
{
    for (size_t i = n; i-- > 0;) {
        struct claim *c = claims[i];
        if (unknown) {
            held_doubt(d, c);
        } else { /* before all others, but not if it may fail again: refused, or slow */
            held_list_ended(d, c, !c->refused && c->slow == 0);
        }
    }
}

/* An outcome that the database cannot store, with \u0000 in its result for instance. The task has
 * ended all the same, and a note replaces the result or error. */
void round_refuse(struct claim *c, const char *text)
{
    char note[512];
    bool done = c->outcome == OUTCOME_DONE;
    (void)snprintf(note, sizeof note, "%s: %.400s",
                   done ? RESULT_NOT_KEPT : "the error's text cannot be stored", text);
    free(c->reply);
    free(c->error);
    c->reply = done ? round_result_note(note) : NULL;
    c->error = done ? NULL : strdup(note);
    c->refused = true;
}

/* One value of the round is bad. If it must be an outcome, the next round has half as many, until
 * the bad one is alone and a note replaces its text. False: it need not be an outcome. */
static bool halve(struct decider *d, struct round *x, const char *text)
{
    size_t n = x->n_finish + x->n_requeue;
    if (round_parts(x) > 1) {
        return false;
    }
    if (n > 1) {
        d->rounds.outcomes_max = n / 2;
        return true;
    }
    struct claim *c = n == 0 ? NULL : x->n_finish == 1 ? x->finish[0] : x->requeue[0];
    if (!c || c->refused) {
        return false;
    }
    round_refuse(c, text);
    return true;
}

static void pause_part(struct decider *d, struct part *part, int64_t now_ms)
{
    part->retry_ms = now_ms + part->pause_ms / 2 + round_jitter(d, part->pause_ms);
    part->pause_ms = sooner(2 * part->pause_ms, RETRY_MAX_MS);
}

/* Parts that failed together go again at once, apart. A part that failed by itself pauses, unless
 * it was halved; without the server all parts pause. Outcomes that met a lock, most likely, go
 * again at once, with the form of the statement that passes over locked rows. */
static void fail_parts(struct decider *d, enum round_failure failure, bool halved, int64_t now_ms)
{
    const struct round *x = &d->round;
    bool rolled_back = failure == FAILURE_AGAIN || failure == FAILURE_ROW;
    bool locked = failure == FAILURE_AGAIN && x->n_finish > 0 && !x->unlocked;
    bool at_once = halved || (rolled_back && (round_parts(x) > 1 || locked));
    for (int i = 0; i < ROUND_PARTS; i++) {
        struct part *part = &d->rounds.parts[i];
        part->failed = part->failed || (x->has[i] && failure != FAILURE_UNSENT);
        if (!at_once && (x->has[i] || !rolled_back)) {
            pause_part(d, part, now_ms);
        }
    }
    if (x->n_finish > 0 && failure != FAILURE_ROW) {
        d->rounds.unlocked_until_ms = now_ms + UNLOCKED_FOR_MS;
    }
}

void round_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms)
{
    struct round *x = &d->round;
    bool unknown = failure == FAILURE_UNKNOWN;
    d->rounds.in_flight = false;
    bool halved = failure == FAILURE_ROW && halve(d, x, text);
    fail_parts(d, failure, halved, now_ms);
    bool hidden = halved || (failure == FAILURE_ROW && round_parts(x) > 1);
    if (!d->rounds.failing && !hidden) {
        d->rounds.failing = true;
        actions_note(&d->actions, NOTE_ROUND_FAILED, 0, "%s", text);
    }
    d->rounds.need_own = !d->rounds.stale && (d->rounds.need_own || unknown || x->own);
    if (d->rounds.need_own) {
        /* the old session may still be at work, and commit claims after the first answer */
        d->rounds.own_again_ms = now_ms + OWN_AGAIN_MS;
    }
    d->rounds.doubtful_ms = now_ms;
    slow_failed(d, failure, text, now_ms);
    writes_failed(d, x);
    send_again(d, x->finish, x->n_finish, unknown);
    send_again(d, x->requeue, x->n_requeue, unknown);
    for (size_t i = 0; i < x->n_verify; i++) {
        struct claim *c = find_verified(d, x, i);
        if (c && c->state == CLAIM_IN_ROUND) {
            held_doubt(d, c);
        }
    }
    /* a sweep finds the tasks that it asked for or had claimed */
    if (x->n_ids > 0 || x->n_poll > 0) {
        polling_sweep_now(&d->polling, now_ms);
    }
    d->rounds.next_chores_ms = x->chores ? now_ms + CHORES_RETRY_MS : d->rounds.next_chores_ms;
}
