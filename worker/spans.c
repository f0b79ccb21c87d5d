#include "worker/spans.h"

#include "core/base/now.h"

#include <stdlib.h>

struct open_span {
    int64_t id;
    int slot;
    int64_t begun_us;  /* by the clock that never jumps */
    struct span *span; /* without an end while it runs; without an outcome until it is known */
    UT_hash_handle hh;
};

/* A claim as its handler gets it. */
struct spans_claim {
    struct claim claim;
    char trace[TRACEPARENT_BYTES];
};

struct spans {
    struct otlp *otlp;
    struct spans_claim *copies; /* of what a child is given */
    int n_copies;
    struct open_span *open; /* hash by the task's id */
};

struct spans *spans_new(struct otlp *otlp)
{
    struct spans *s = otlp ? calloc(1, sizeof *s) : NULL;
    if (s) {
        s->otlp = otlp;
    }
    return s;
}

static struct open_span *find(const struct spans *s, int64_t id)
{
    struct open_span *o;
    HASH_FIND(hh, s->open, &id, sizeof id, o);
    return o;
}

/* ret: its span, the caller's now */
static struct span *take(struct spans *s, struct open_span *o)
{
    struct span *span = o->span;
    HASH_DEL(s->open, o);
    free(o);
    return span;
}

static void forget_all(struct spans *s)
{
    struct open_span *o, *next;
    HASH_ITER(hh, s->open, o, next)
    {
        free(take(s, o));
    }
}

void spans_free(struct spans *s)
{
    if (s) {
        forget_all(s);
        free(s->copies);
        free(s);
    }
}

/* --- its beginning --- */

static bool add(struct spans *s, int slot, struct span *span)
{
    struct open_span *old = find(s, span->task);
    if (old) {
        free(take(s, old));
    }
    struct open_span *o = HASH_COUNT(s->open) < SPANS_OPEN_MAX ? calloc(1, sizeof *o) : NULL;
    if (!o) {
        return false;
    }
    *o = (struct open_span){.id = span->task, .slot = slot, .begun_us = now_us(), .span = span};
    HASH_ADD(hh, s->open, id, sizeof o->id, o);
    if (!o->hh.tbl) {
        free(o);
        return false;
    }
    return true;
}

/* The claim itself where it has no span. */
static void copy_claim(struct spans *s, struct spans_claim *copy, const struct claim *c, int slot)
{
    copy->claim = *c;
    struct span *span = span_new(c->trace, c->id, c->claims, c->queue, c->kind);
    if (!span) {
        return;
    }
    span->attempt = c->attempt;
    span->begin_ns = now_unix_ns();
    span_traceparent(span, copy->trace);
    if (add(s, slot, span)) {
        copy->claim.trace = copy->trace;
    } else {
        free(span);
    }
}

static bool make_room(struct spans *s, int n)
{
    if (n <= s->n_copies) {
        return true;
    }
    struct spans_claim *copies = realloc(s->copies, (size_t)n * sizeof *copies);
    s->copies = copies ? copies : s->copies;
    s->n_copies = copies ? n : s->n_copies;
    return copies != NULL;
}

const struct claim *spans_begin(struct spans *s, const struct claim *c, int n, int slot)
{
    if (!s || !c || !make_room(s, n)) {
        return c;
    }
    for (int i = 0; i < n; i++, c = c->next) {
        copy_claim(s, &s->copies[i], c, slot);
        s->copies[i].claim.next = i + 1 < n ? &s->copies[i + 1].claim : NULL;
    }
    return &s->copies[0].claim;
}

/* --- its end --- */

static void send_when_over(struct spans *s, struct open_span *o)
{
    if (o->span->end_ns > 0 && o->span->outcome) {
        otlp_put(s->otlp, take(s, o));
    }
}

static void end(struct spans *s, struct open_span *o)
{
    if (o->span->end_ns == 0) {
        o->span->end_ns = o->span->begin_ns + (now_us() - o->begun_us) * 1000;
    }
    send_when_over(s, o);
}

static void set_outcome(struct spans *s, struct open_span *o, const char *outcome)
{
    o->span->outcome = outcome;
    send_when_over(s, o);
}

/* Of an exec child its reply comes first. */
static void child_gone(struct spans *s, int slot)
{
    struct open_span *o, *next;
    HASH_ITER(hh, s->open, o, next)
    {
        if (o->slot == slot) {
            end(s, o);
        }
    }
}

static void finished(struct spans *s, const struct round *x)
{
    for (size_t i = 0; i < x->n_finish; i++) {
        struct open_span *o = x->finished[i] ? find(s, x->finish[i]->id) : NULL;
        if (o) {
            set_outcome(s, o, "done");
        }
    }
}

/* The class is the handler's, else tenon.error_class()'s word for a timeout or a crash. */
static void fail(struct span *span, const struct claim *c)
{
    span_fail(span,
              c->outcome == OUTCOME_TIMED_OUT ? "timeout"
              : c->outcome == OUTCOME_CRASHED ? "crash"
                                              : c->error_class,
              c->error);
}

static void requeued(struct spans *s, const struct round *x)
{
    for (size_t i = 0; i < x->n_requeue; i++) {
        const struct claim *c = x->requeue[i];
        struct open_span *o = x->requeue_state[i] == REQUEUE_MISSED ? NULL : find(s, c->id);
        bool dead = x->requeue_state[i] == REQUEUE_DEAD;
        if (o && (dead || c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT ||
                  c->outcome == OUTCOME_CRASHED)) {
            fail(o->span, c);
        }
        if (o) {
            set_outcome(s, o, dead ? "dead" : claim_reason(c->outcome));
        }
    }
}

/* One whose end was told, and is ended, was ended by its handler, or the answer had been lost. */
static void verified(struct spans *s, const struct round *x)
{
    for (size_t i = 0; i < x->n_verify; i++) {
        struct open_span *o = find(s, x->verify[i].id);
        if (!o || x->verdicts[i] == VERDICT_MINE) {
            continue;
        }
        if (x->verdicts[i] == VERDICT_LOST) {
            free(take(s, o));
        } else if (x->verdicts[i] == VERDICT_CANCELLED) {
            set_outcome(s, o, "cancelled");
        } else if (o->span->end_ns > 0) {
            set_outcome(s, o, "done");
        }
    }
}

void spans_event(struct spans *s, const struct decider *d, const struct event *e)
{
    struct open_span *o;
    if (!s || !s->open) {
        return;
    }
    if (e->type == EVENT_REPLY && (o = find(s, e->id)) && o->slot == e->slot) {
        end(s, o);
    } else if (e->type == EVENT_CHILD_GONE) {
        child_gone(s, e->slot);
    } else if (e->type == EVENT_ROUND_DONE) {
        finished(s, &d->round);
        requeued(s, &d->round);
        verified(s, &d->round);
    } else if (e->type == EVENT_PRESENCE && e->renewed) {
        forget_all(s);
    }
}
