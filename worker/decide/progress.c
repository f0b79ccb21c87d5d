#include "worker/decide/progress.h"

#include "worker/decide/decider.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static const char not_kept[] = "it is longer than 64 KiB as text, or PostgreSQL cannot store it";

static bool is_unwritten(const struct claim *c)
{
    return c->said || c->extended;
}

/* What was said before is taken over by the caller, or nobody's. */
static void set_said(struct decider *d, struct claim *c, char *line)
{
    size_t bytes = line ? strlen(line) : 0;
    if (c->handler >= 0) {
        d->handlers[c->handler].said_bytes += bytes - c->said_bytes;
    }
    c->said = line;
    c->said_bytes = bytes;
}

void progress_forget(struct decider *d, struct claim *c)
{
    free(c->said);
    set_said(d, c, NULL);
    c->extended = false;
}

static void note_refused(struct decider *d, int64_t id, const char *why)
{
    actions_note(&d->actions, NOTE_PROGRESS_REFUSED, id, "%s", why);
}

void progress_take(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct claim *c = slots_find(d, e->slot, e->id);
    bool empty = e->progress && !*e->progress;
    if (empty || e->extend_ms < 0) {
        note_refused(d, e->id, empty ? not_kept : "\"extend_ms\" is not 1 ms to 30 days");
    }
    if (!c || c->lost || empty) {
        free(e->progress);
    } else if (e->progress) {
        free(c->said);
        set_said(d, c, e->progress);
    }
    if (!c || c->lost) {
        return;
    }
    if (e->extend_ms > 0) { /* the row's deadline counts from the claim, which came after this */
        int64_t timeout_ms = now_ms - c->claimed_ms + e->extend_ms;
        c->extended = slots_extend(d, c, timeout_ms) || c->extended;
    }
    d->rounds.unwritten = d->rounds.unwritten || is_unwritten(c);
}

/* It is the next attempt's. Where its row was locked, it goes along with the outcome, whose
 * statement leaves the row out as well while the lock is held. */
bool progress_goes_first(const struct claim *c)
{
    return c->outcome != OUTCOME_DONE && ((c->said && !c->missed) || c->n_steps > 0);
}

/* --- into a round --- */

static bool is_full(const struct decider *d, const struct round *x)
{
    return x->n_progress >= d->rounds.said_max || x->n_progress >= ROUND_PROGRESS_MAX ||
           x->progress_bytes >= ROUND_PROGRESS_BYTES_MAX;
}

bool progress_add(struct decider *d, struct round *x, struct claim *c)
{
    if (is_full(d, x)) {
        return false;
    }
    x->progress[x->n_progress++] = (struct progress){.id = c->id,
                                                     .key = c->key,
                                                     .line = c->said,
                                                     .timeout_ms = c->extended ? c->timeout_ms : 0};
    x->progress_bytes += c->said_bytes;
    set_said(d, c, NULL);
    c->extended = false;
    return true;
}

/* All of them at once, so that many tasks that say something make one round in a second. When not
 * all fit, the next round goes on at once with those whose turn it still is. */
static void plan_running(struct decider *d, struct round *x, int64_t now_ms)
{
    struct rounds *r = &d->rounds;
    bool left = false;
    if (!r->unwritten || now_ms < r->progress_ms) {
        return;
    }
    for (struct claim *c = NULL; (c = slots_next_given(d, c));) {
        if (is_unwritten(c) && now_ms >= c->write_ms && progress_add(d, x, c)) {
            c->write_ms = now_ms + PROGRESS_EVERY_MS;
        }
        left = left || is_unwritten(c);
    }
    r->unwritten = left;
    r->progress_ms = is_full(d, x) ? now_ms : now_ms + PROGRESS_EVERY_MS;
}

void progress_plan(struct decider *d, struct round *x, int64_t now_ms)
{
    struct claim *c;
    DL_FOREACH(d->saying, c)
    {
        if (c->said && !progress_add(d, x, c)) {
            return;
        }
    }
    plan_running(d, x, now_ms);
}

int64_t progress_due(const struct decider *d)
{
    const struct claim *c;
    DL_FOREACH(d->saying, c)
    {
        if (c->said) {
            return 0;
        }
    }
    return d->rounds.unwritten ? d->rounds.progress_ms : INT64_MAX;
}

/* --- the answer --- */

static struct claim *find_claim(const struct decider *d, const struct progress *p)
{
    struct claim *c = decider_find(d, p->id);
    return c && c->key == p->key && !c->lost ? c : NULL;
}

/* It was not written; what has been said since stands. */
static void take_back(struct decider *d, struct progress *p, struct claim *c)
{
    if (!c || c->said || !p->line) {
        free(p->line);
    } else {
        set_said(d, c, p->line);
    }
    if (c && c->state == CLAIM_GIVEN) {
        c->extended = c->extended || p->timeout_ms > 0;
        d->rounds.unwritten = true;
    }
}

/* Its row is locked, or another's by now. */
static void missed(struct decider *d, struct progress *p, struct claim *c, int64_t now_ms)
{
    take_back(d, p, c);
    if (c && c->state == CLAIM_GIVEN) {
        slots_verify_soon(d, c, now_ms);
    } else if (c) {
        c->missed = true;
    }
}

void progress_done(struct decider *d, struct round *x, int64_t now_ms)
{
    for (size_t i = 0; i < x->n_progress; i++) {
        struct progress *p = &x->progress[i];
        struct claim *c = find_claim(d, p);
        if (p->state == PROGRESS_MISSED) {
            missed(d, p, c, now_ms);
        } else {
            free(p->line);
        }
        if (p->state == PROGRESS_REFUSED) {
            note_refused(d, p->id, not_kept);
        }
        if (c && c->state == CLAIM_SAYING) {
            decider_end_claim(d, c, c->outcome, NULL);
        }
    }
    x->n_progress = 0;
}

void progress_failed(struct decider *d, struct round *x)
{
    for (size_t i = 0; i < x->n_progress; i++) {
        take_back(d, &x->progress[i], find_claim(d, &x->progress[i]));
    }
    x->n_progress = 0;
}

void progress_free(struct round *x)
{
    for (size_t i = 0; i < x->n_progress; i++) {
        free(x->progress[i].line);
    }
    x->n_progress = 0;
}
