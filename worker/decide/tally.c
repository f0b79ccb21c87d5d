#include "worker/decide/tally.h"

#include "core/http/series.h"
#include "worker/decide/state.h"

const char *const tally_words[TALLIES] = {"done", "failed",   "timed_out", "snooze", "wait_signal",
                                          "dead", "released", "crashed",   "lost"};

void tally_started(const struct decider *d, const struct claim *c)
{
    if (d->tally) {
        series_time(series_of(d->tally, c->queue, c->kind), TALLY_WAITS,
                    c->waited_us > 0 ? c->waited_us : 0); /* a clock may go back */
    }
}

void tally_ended(const struct decider *d, const struct claim *c, enum tally how)
{
    if (!d->tally ||
        !*c->kind) { /* of a claim whose round's answer was lost, the kind is unknown */
        return;
    }
    struct pair *p = series_of(d->tally, c->queue, c->kind);
    series_count(p, (int)how);
    if (c->ran_ms >= 0 && how != TALLY_RELEASED && how != TALLY_LOST) {
        series_time(p, TALLY_RUNS, c->ran_ms * 1000);
    }
}
