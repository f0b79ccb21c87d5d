#include "worker/round_build.h"

#include "core/base/array.h"
#include "core/base/now.h"
#include "core/statements.h"
#include "worker/statements.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

static const char *end_array(struct round_calls *r, struct buf *b)
{
    const char *text = array_end(b);
    r->failed = r->failed || !text;
    return text;
}

static struct buf *new_array(struct round_calls *r)
{
    assert(r->n_texts < TEXTS);
    struct buf *b = &r->context->texts[r->n_texts++];
    array_begin(b);
    return b;
}

static const struct db_call *add_call(struct round_calls *r, const struct statement *statement,
                                      int n_params, const char *const *params)
{
    assert(r->n < CALLS_MAX && n_params <= PARAMS_MAX);
    struct db_call *call = &r->calls[r->n];
    memcpy(r->params[r->n], params, (size_t)n_params * sizeof *params);
    *call =
        (struct db_call){.statement = statement, .params = r->params[r->n], .n_params = n_params};
    r->n++;
    return call;
}

static const char *ids_array(struct round_calls *r, struct claim *const *claims, size_t n)
{
    struct buf *b = new_array(r);
    for (size_t i = 0; i < n; i++) {
        array_put_int(b, claims[i]->id);
    }
    return end_array(r, b);
}

static const char *keys_array(struct round_calls *r, struct claim *const *claims, size_t n)
{
    struct buf *b = new_array(r);
    for (size_t i = 0; i < n; i++) {
        array_put_int(b, claims[i]->key);
    }
    return end_array(r, b);
}

static void add_finish(struct round_calls *r)
{
    struct round *x = r->round;
    struct buf *replies = new_array(r);
    for (size_t i = 0; i < x->n_finish; i++) {
        array_put_text(replies, x->finish[i]->reply);
    }
    const char *params[] = {ids_array(r, x->finish, x->n_finish),
                            keys_array(r, x->finish, x->n_finish), end_array(r, replies)};
    r->finish = add_call(r,
                         x->unlocked                   ? &sql_finish_unlocked
                         : r->context->forgets_history ? &sql_finish_forget
                                                       : &sql_finish,
                         3, params);
}

static void add_requeue(struct round_calls *r)
{
    struct round *x = r->round;
    struct buf *reasons = new_array(r), *errors = new_array(r), *delays = new_array(r);
    struct buf *classes = new_array(r), *signals = new_array(r);
    for (size_t i = 0; i < x->n_requeue; i++) {
        const struct claim *c = x->requeue[i];
        array_put_text(reasons, claim_reason(c->outcome));
        array_put_text(errors, c->error);
        array_put_text(classes, *c->error_class ? c->error_class : NULL);
        array_put_text(signals, c->signal);
        if (c->delay_ms >= 0) {
            array_put_int(delays, c->delay_ms);
        } else {
            array_put_text(delays, NULL);
        }
    }
    const char *params[] = {ids_array(r, x->requeue, x->n_requeue),
                            keys_array(r, x->requeue, x->n_requeue),
                            end_array(r, reasons),
                            end_array(r, errors),
                            end_array(r, delays),
                            end_array(r, classes),
                            end_array(r, signals)};
    r->requeue = add_call(r, &sql_requeue, 7, params);
}

static void add_verify(struct round_calls *r, const char *worker)
{
    struct buf *ids = new_array(r), *keys = new_array(r), *claims = new_array(r);
    for (size_t i = 0; i < r->round->n_verify; i++) {
        array_put_int(ids, r->round->verify[i].id);
        array_put_int(keys, r->round->verify[i].key);
        array_put_int(claims, r->round->verify[i].claims);
    }
    const char *params[] = {worker, end_array(r, ids), end_array(r, keys), end_array(r, claims)};
    r->verify = add_call(r, &sql_verify, 4, params);
}

static void add_progress(struct round_calls *r)
{
    struct buf *ids = new_array(r), *keys = new_array(r);
    struct buf *lines = new_array(r), *timeouts = new_array(r);
    for (size_t i = 0; i < r->round->n_progress; i++) {
        const struct write *p = r->round->progress[i];
        array_put_int(ids, p->id);
        array_put_int(keys, p->key);
        array_put_text(lines, p->line);
        if (p->timeout_ms > 0) {
            array_put_int(timeouts, p->timeout_ms);
        } else {
            array_put_text(timeouts, NULL);
        }
    }
    const char *params[] = {end_array(r, ids), end_array(r, keys), end_array(r, lines),
                            end_array(r, timeouts)};
    r->progress = add_call(r, &sql_progress, 4, params);
}

static void add_steps(struct round_calls *r)
{
    struct buf *ids = new_array(r), *keys = new_array(r);
    struct buf *lines = new_array(r);
    for (size_t i = 0; i < r->round->n_steps; i++) {
        const struct write *s = r->round->steps[i];
        array_put_int(ids, s->id);
        array_put_int(keys, s->key);
        array_put_text(lines, s->line);
    }
    const char *params[] = {end_array(r, ids), end_array(r, keys), end_array(r, lines)};
    r->steps = add_call(r, &sql_step, 3, params);
}

static const char *queues_array(struct round_calls *r)
{
    const struct served *s = r->context->served;
    struct buf *b = new_array(r);
    for (size_t i = 0; i < s->n_queues; i++) {
        array_put_text(b, s->queues[i]);
    }
    return end_array(r, b);
}

static const char *kinds_array(struct round_calls *r)
{
    const struct served *s = r->context->served;
    struct buf *b = new_array(r);
    for (size_t i = 0; i < s->handlers.n_kinds; i++) {
        if (!r->round->left_out[s->handlers.kinds[i].handler] && !r->round->paused[i]) {
            array_put_text(b, s->handlers.kinds[i].name);
        }
    }
    return end_array(r, b);
}

static const char *number(struct round_calls *r, int64_t n)
{
    assert(r->n_texts < TEXTS);
    struct buf *b = &r->context->texts[r->n_texts++];
    buf_empty(b);
    buf_put_int(b, n);
    r->failed = r->failed || b->failed;
    return buf_text(b);
}

enum { KEYS_AT_ONCE = 32 }; /* 256 bytes, which getrandom gives whole */

/* A random key for each of up to `n` claims. */
static const char *new_keys(struct round_calls *r, size_t n)
{
    int64_t keys[KEYS_AT_ONCE];
    struct buf *b = new_array(r);
    for (size_t i = 0; i < n; i++) {
        if (i % KEYS_AT_ONCE == 0 && getrandom(keys, sizeof keys, 0) != sizeof keys) {
            r->failed = true;
        }
        array_put_int(b, keys[i % KEYS_AT_ONCE]);
    }
    return end_array(r, b);
}

static void add_claim(struct round_calls *r, const char *worker)
{
    struct buf *ids = new_array(r);
    for (size_t i = 0; i < r->round->n_ids; i++) {
        array_put_int(ids, r->round->ids[i]);
    }
    const char *params[] = {
        worker,         end_array(r, ids),          queues_array(r),
        kinds_array(r), number(r, CLAIM_BYTES_MAX), new_keys(r, r->round->n_ids)};
    r->claim = add_call(r, &sql_claim, 6, params);
}

static void add_poll(struct round_calls *r, const char *worker)
{
    struct poll *poll = &r->context->poll;
    poll_begin(poll, r->round->way, r->round->reach_ms, r->round->turn, now_ms());
    struct buf *queues = new_array(r), *priorities = new_array(r);
    struct buf *from_us = new_array(r), *from_ids = new_array(r);
    for (size_t i = 0; i < poll->n_ranges; i++) {
        const struct poll_range *range = &poll->ranges[i];
        array_put_text(queues, r->context->served->queues[range->queue]);
        array_put_int(priorities, range->priority);
        if (range->from.run_at_us == INT64_MIN) {
            array_put_text(from_us, NULL);
        } else {
            array_put_int(from_us, range->from.run_at_us);
        }
        array_put_int(from_ids, range->from.id);
    }
    int64_t reach_ms = poll_reach_ms(poll);
    const char *params[PARAMS_MAX] = {worker,
                                      kinds_array(r),
                                      number(r, r->round->n_poll),
                                      end_array(r, queues),
                                      end_array(r, priorities),
                                      end_array(r, from_us),
                                      end_array(r, from_ids),
                                      number(r, POLL_ROWS_MAX),
                                      number(r, CLAIM_BYTES_MAX),
                                      r->round->way == POLL_ON ? "false" : "true",
                                      reach_ms < 0 ? NULL : number(r, reach_ms),
                                      new_keys(r, (size_t)r->round->n_poll)};
    r->poll = add_call(r, &sql_poll, 12, params);
}

/* Its turn to run suspects: asked for, a suspect, given back. */
static void add_alone(struct round_calls *r, const char *worker)
{
    if (r->round->alone == ALONE_ASK_OVER) {
        (void)add_call(r, &sql_turn_over, 1, &worker);
        return;
    }
    const char *params[] = {worker, queues_array(r), kinds_array(r)};
    if (r->round->alone == ALONE_ASK_TURN) {
        r->turn = add_call(r, &sql_turn, 3, params);
    } else {
        r->alone = add_call(r, &sql_claim_alone, 3, params);
    }
}

static void add_limit(struct round_calls *r)
{
    const char *limit = number(r, r->round->limit_ms); /* a number is of milliseconds */
    (void)add_call(r, &sql_statement_limit, 1, &limit);
}

bool round_build(struct round_calls *r, struct round_context *context, struct round *round,
                 const char *worker, struct fault *f)
{
    *r = (struct round_calls){.context = context, .round = round};
    if (round->chores) {
        (void)add_call(r, &sql_partitions, 0, &worker);
        r->settings = add_call(r, &sql_keeps_history, 0, &worker);
    }
    if (round->own) {
        r->own = add_call(r, &sql_own, 1, &worker);
    }
    if (round->n_verify > 0) {
        add_verify(r, worker);
    }
    if (round->n_progress > 0) {
        add_progress(r);
    }
    if (round->n_steps > 0) {
        add_steps(r);
    }
    if (round->n_finish > 0) {
        add_finish(r);
    }
    if (round->n_requeue > 0) {
        add_requeue(r);
    }
    if (round->limit_ms > 0) {
        add_limit(r);
    }
    if (round->n_ids > 0) {
        add_claim(r, worker);
    }
    if (round->n_poll > 0) {
        add_poll(r, worker);
    }
    if (round->alone != ALONE_ASK_NOTHING) {
        add_alone(r, worker);
    }
    return !r->failed || fault_memory(f);
}
