#include "worker/decide/step.h"

#include "core/base/text.h"
#include "worker/decide/decider.h"
#include "worker/decide/slow.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static bool is_of(const struct step *s, const struct claim *c)
{
    return s->id == c->id && s->key == c->key;
}

static void step_free(struct decider *d, struct step *s)
{
    struct claim *c = decider_find(d, s->id);
    if (c && is_of(s, c)) {
        c->n_steps--;
    }
    d->handlers[s->handler].said_bytes -= s->bytes;
    free(s->line);
    free(s);
}

void step_take(struct decider *d, const struct event *e)
{
    struct claim *c = slots_find(d, e->slot, e->id);
    struct step *s = c && !c->lost ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        d->actions.no_memory = d->actions.no_memory || (c && !c->lost);
        free(e->step);
        return;
    }
    s->id = c->id;
    s->key = c->key;
    s->handler = c->handler;
    text_shorten(s->name, sizeof s->name, e->name);
    s->line = e->step;
    s->bytes = strlen(e->step);
    d->handlers[s->handler].said_bytes += s->bytes;
    DL_APPEND(d->steps, s);
    c->n_steps++;
}

void step_forget(struct decider *d, const struct claim *c)
{
    struct step *s, *next;
    DL_FOREACH_SAFE(d->steps, s, next)
    {
        if (is_of(s, c)) {
            DL_DELETE(d->steps, s);
            step_free(d, s);
        }
    }
}

static struct claim *find_claim(const struct decider *d, const struct step *s)
{
    struct claim *c = decider_find(d, s->id);
    return c && is_of(s, c) && !c->lost && c->outcome != OUTCOME_DONE ? c : NULL;
}

/* --- into a round --- */

void step_plan(struct decider *d, struct round *x, int64_t now_ms)
{
    size_t bytes = 0;
    while (now_ms >= d->rounds.steps_ms && d->steps && x->n_steps < d->rounds.said_max &&
           x->n_steps < ROUND_STEPS_MAX && bytes < ROUND_STEPS_BYTES_MAX) {
        struct step *s = d->steps;
        DL_DELETE(d->steps, s);
        bytes += s->bytes;
        x->steps[x->n_steps++] = s;
    }
}

int64_t step_due(const struct decider *d)
{
    return d->steps ? d->rounds.steps_ms : INT64_MAX;
}

/* --- the answer --- */

static void tell(struct decider *d, const struct step *s, const struct claim *c)
{
    bool recorded = s->state == STEP_RECORDED;
    if (!recorded) {
        actions_note(&d->actions, NOTE_STEP_REFUSED, s->id,
                     "%s: PostgreSQL cannot store it, or not in time, or its name is not 1 to 100"
                     " bytes long, or the task has more than 1,000 steps or 1 MiB of them",
                     s->name);
    }
    if (c->state == CLAIM_GIVEN && slots_hears(d, c->slot)) {
        struct action *a = actions_add(&d->actions, ACTION_TELL_STEP);
        a->slot = c->slot;
        a->task = s->id;
        a->n = recorded;
        text_shorten(a->text, sizeof a->text, s->name);
    }
}

/* What was not written goes again, before what has been said since. From the last to the first. */
static void take_back(struct decider *d, struct step *s)
{
    if (find_claim(d, s)) {
        DL_PREPEND(d->steps, s);
    } else {
        step_free(d, s);
    }
}

/* Is it ours still? What has an outcome by now keeps it until that is known. */
static void ask_whose(struct decider *d, struct claim *c, int64_t now_ms)
{
    if (c->state == CLAIM_GIVEN) {
        slots_verify_soon(d, c, now_ms + RETRY_MIN_MS);
    } else if (c->state == CLAIM_SAYING) {
        d->rounds.doubtful_ms = d->doubtful ? d->rounds.doubtful_ms : now_ms + RETRY_MIN_MS;
        decider_doubt(d, c);
    }
}

/* It is recorded, or refused. */
static void end_step(struct decider *d, struct step *s)
{
    struct claim *c = find_claim(d, s);
    step_free(d, s);
    if (c && c->state == CLAIM_SAYING) {
        decider_end_claim(d, c, c->outcome, NULL);
    }
}

/* Where a row was locked, or is another's by now, the next try is a moment later. */
void step_done(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_steps; i++) {
        struct claim *c = find_claim(d, x->steps[i]);
        if (c && x->steps[i]->state != STEP_MISSED) {
            tell(d, x->steps[i], c);
        } else if (c) {
            ask_whose(d, c, now_ms);
        }
    }
    for (size_t i = x->n_steps; i-- > 0;) {
        if (x->steps[i]->state == STEP_MISSED) {
            d->rounds.steps_ms = now_ms + RETRY_MIN_MS;
            take_back(d, x->steps[i]);
        } else {
            end_step(d, x->steps[i]);
        }
    }
    x->n_steps = 0;
}

/* One that was too slow by itself, again and again, is refused. */
static void give_up(struct decider *d, struct step *s)
{
    const struct claim *c = find_claim(d, s);
    s->state = STEP_REFUSED;
    if (c) {
        tell(d, s, c);
    }
    end_step(d, s);
}

void step_failed(struct decider *d, struct round *x)
{
    for (size_t i = x->n_steps; i-- > 0;) {
        if (x->steps[i]->slow >= ROUND_SLOW_TRIES) {
            give_up(d, x->steps[i]);
        } else {
            take_back(d, x->steps[i]);
        }
    }
    x->n_steps = 0;
}

void step_free_all(struct decider *d)
{
    for (size_t i = 0; d->rounds.in_flight && i < d->round.n_steps; i++) {
        step_free(d, d->round.steps[i]);
    }
    struct step *s, *next;
    DL_FOREACH_SAFE(d->steps, s, next)
    {
        step_free(d, s);
    }
}
