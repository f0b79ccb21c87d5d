#include "worker/decide/alone.h"

#include "worker/decide/round_plan.h"
#include "worker/decide/state.h"

void alone_reset(struct decider *d, int64_t now_ms)
{
    d->alone = (struct alone){.ask_ms = now_ms + ALONE_FIRST_MS, .patience_ms = ALONE_PATIENCE_MS};
}

/* Nothing runs, and the database knows all outcomes: if the worker died now, a task whose outcome
 * it did not know would count as crashed, too. */
static bool is_empty(const struct decider *d)
{
    return d->n_held == 0 && slots_all_empty(d);
}

/* Running tasks take longer than its patience: other workers may have the turn, and the next one
 * here is more patient. */
static void give_up(struct alone *a)
{
    a->state = ALONE_OVER;
    a->patience_ms = sooner(2 * a->patience_ms, ALONE_PATIENCE_MAX_MS);
}

void alone_decide(struct decider *d, int64_t now_ms)
{
    struct alone *a = &d->alone;
    if (a->state == ALONE_RUNS && d->n_held == 0) {
        a->state = now_ms - a->since_ms < ALONE_TURN_MS ? ALONE_EMPTIES : ALONE_OVER;
        slots_close_idle(d, now_ms); /* no other task gets the child of a suspect */
    }
    if (a->state != ALONE_EMPTIES) {
        return;
    }
    if (!is_empty(d) && now_ms - a->since_ms >= a->patience_ms) {
        give_up(a);
    } else if (d->n_waiting == 0) {
        slots_close_idle(d, now_ms);
    }
}

/* With --until-empty the last poll before the end asks, too. */
static bool asks_now(const struct decider *d, const struct round *x, int64_t now_ms)
{
    return now_ms >= d->alone.ask_ms || (d->until_empty && x->n_poll > 0);
}

void alone_plan(struct decider *d, struct round *x, int64_t now_ms)
{
    struct alone *a = &d->alone;
    if (a->state == ALONE_NOT && asks_now(d, x, now_ms)) {
        bool any = round_plan_handlers(d, x, now_ms);
        a->ask_ms = now_ms + ALONE_ASK_MS;
        x->alone = any ? ALONE_ASK_TURN : ALONE_ASK_NOTHING;
    } else if (a->state == ALONE_EMPTIES && is_empty(d)) {
        bool any = round_plan_handlers(d, x, now_ms);
        a->patience_ms = ALONE_PATIENCE_MS;
        a->state = any ? ALONE_EMPTIES : ALONE_OVER;
        x->alone = any ? ALONE_ASK_CLAIM : ALONE_ASK_NOTHING;
    }
    if (a->state == ALONE_OVER) {
        x->alone = ALONE_ASK_OVER;
    }
}

/* An idle worker asks in the round of its next poll, so this is due a second later only. */
int64_t alone_due(const struct decider *d)
{
    const struct alone *a = &d->alone;
    return a->state == ALONE_NOT                      ? a->ask_ms + ALONE_ASK_MS
           : a->state == ALONE_OVER                   ? 0
           : a->state == ALONE_EMPTIES && is_empty(d) ? 0
                                                      : INT64_MAX;
}

void alone_done(struct decider *d, const struct round *x, int64_t now_ms)
{
    struct alone *a = &d->alone;
    if (d->rounds.stale) {
        return;
    }
    if (x->alone == ALONE_ASK_TURN && x->has_turn && d->stop_level == 0) {
        a->state = ALONE_EMPTIES;
        a->since_ms = now_ms;
    } else if (x->alone == ALONE_ASK_CLAIM) {
        a->state = x->n_claimed > 0 ? ALONE_RUNS : ALONE_OVER;
    } else if (x->alone == ALONE_ASK_OVER) {
        a->state = ALONE_NOT;
        a->ask_ms = now_ms + (now_ms - a->since_ms);
    }
}
