#include "worker/decide/slow.h"

#include "worker/decide/state.h"

#include <stdlib.h>

static size_t fewer(size_t n)
{
    return n > 8 ? n / 8 : 1;
}

size_t slow_grow(size_t max, size_t most)
{
    return 2 * max < most ? 2 * max : most;
}

static const struct claim *first_outcome(const struct round *x)
{
    return x->n_finish > 0 ? x->finish[0] : x->n_requeue > 0 ? x->requeue[0] : NULL;
}

bool slow_fits(const struct round *x, const struct claim *c)
{
    const struct claim *first = first_outcome(x);
    return !first || (first->slow == 0 && c->slow == 0);
}

static void outcome_is_slow(struct claim *c, const char *text)
{
    if (++c->slow >= ROUND_SLOW_TRIES && !c->refused) {
        round_refuse(c, text);
    }
}

/* The item was alone in the round. */
static void one_is_slow(struct round *x, const char *text)
{
    if (x->n_finish + x->n_requeue > 0) {
        outcome_is_slow(x->n_finish > 0 ? x->finish[0] : x->requeue[0], text);
    } else {
        (x->n_steps > 0 ? x->steps[0] : x->progress[0])->slow++;
    }
}

void slow_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms)
{
    struct round *x = &d->round;
    size_t outcomes = x->n_finish + x->n_requeue;
    size_t writes = x->n_steps + x->n_progress;
    if (failure == FAILURE_UNSENT || now_ms - d->rounds.begun_ms < ROUND_SLOW_MS) {
        return;
    }
    if (outcomes > 1) {
        d->rounds.outcomes_max = fewer(outcomes);
    }
    if (writes > 1) {
        d->rounds.writes_max = fewer(writes);
    }
    bool alone = round_parts(x) == 1;
    bool stood = d->rounds.stood; /* if no round commits, the server is slow, not this item */
    d->rounds.stood = true;
    if (failure == FAILURE_AGAIN && alone && !stood && outcomes + writes == 1) {
        one_is_slow(x, text);
    }
}
