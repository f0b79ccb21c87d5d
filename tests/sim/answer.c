/* What a round answers, as the round thread makes it of rows. */
#include "tests/sim/round.h"

#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct claim *make_claim(const struct node *n, int64_t id, const struct version *v)
{
    static const char *const kinds[] = {"a", "b"};
    struct claim *c = claim_new(id, "q", kinds[v->kind], NULL, "{}", 2);
    c->handler = n->n_handlers == 1 ? 0 : v->kind;
    c->claims = v->claims;
    c->attempt = 1 + v->failures + v->crashes;
    c->key = v->key;
    c->timeout_ms = v->timeout_ms;
    c->failures = v->failures;
    c->max_attempts = v->max_attempts;
    c->priority = v->priority;
    if (v->said > 0) {
        char digits[16];
        (void)snprintf(digits, sizeof digits, "%d", v->said);
        c->progress = strdup(digits);
    }
    if (v->steps > 0) {
        char digits[16];
        (void)snprintf(digits, sizeof digits, "%d", v->steps);
        c->steps = strdup(digits);
    }
    return c;
}

static struct claim *make_owned(const struct fence *f)
{
    struct claim *c = claim_new(f->id, "", "", NULL, NULL, 0);
    c->claims = fence_claims(*f);
    c->key = f->key;
    return c;
}

void answer_fill(const struct node *n, struct round *x, const struct request *r)
{
    for (size_t i = 0; i < r->n_finish; i++) {
        x->finished[i] = r->finish[i].finished;
    }
    for (size_t i = 0; i < r->n_requeue; i++) {
        x->requeue_state[i] = r->requeue[i].state;
    }
    memcpy(x->verdicts, r->verdicts, r->n_verify * sizeof *r->verdicts);
    memcpy(x->timeouts_ms, r->timeouts_ms, r->n_verify * sizeof *r->timeouts_ms);
    for (size_t i = 0; i < r->n_progress; i++) {
        x->progress[i]->state = r->progress[i].state;
    }
    for (size_t i = 0; i < r->n_steps; i++) {
        x->steps[i]->state = r->steps[i].state;
    }
    x->has_turn = r->has_turn;
    x->n_claimed = r->n_claimed;
    for (size_t i = 0; i < r->n_claimed; i++) {
        x->claimed[i] = make_claim(n, r->claimed_ids[i], &r->claimed[i]);
    }
    if (r->own) {
        x->n_owned = r->n_owned;
        x->owned = calloc(r->n_owned + 1, sizeof *x->owned);
        for (size_t i = 0; i < r->n_owned; i++) {
            x->owned[i] = make_owned(&r->owned[i]);
        }
    }
}
