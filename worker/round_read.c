#include "worker/round_read.h"

#include "core/base/now.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    POLL_COLUMN_ID = 0,
    CLAIM_COLUMN_PROGRESS = 12,
    CLAIM_COLUMN_STEPS = 13,
    CLAIM_COLUMN_WAITED_US = 14,
    POLL_COLUMN_RUN_AT = 15,
    POLL_COLUMN_RANGE = 16,
    POLL_COLUMN_END = 17,
};

/* The place of a claim among those that were asked for: the rows come in any order. */
struct key {
    int64_t id, claims; /* 0 where the id alone says which */
    size_t at;
};

static int compare_keys(const void *one, const void *two)
{
    const struct key *a = one, *b = two;
    int by_id = (a->id > b->id) - (a->id < b->id);
    return by_id ? by_id : (a->claims > b->claims) - (a->claims < b->claims);
}

static const struct key *find_key(const struct key *keys, size_t n, int64_t id, int64_t claims)
{
    const struct key key = {.id = id, .claims = claims};
    return bsearch(&key, keys, n, sizeof *keys, compare_keys);
}

static void sort_claims(struct key keys[ROUND_OUTCOMES_MAX], struct claim *const *claims, size_t n)
{
    assert(n <= ROUND_OUTCOMES_MAX);
    for (size_t i = 0; i < n; i++) {
        keys[i] = (struct key){.id = claims[i]->id, .at = i};
    }
    qsort(keys, n, sizeof *keys, compare_keys);
}

/* The rows are those that were not; no id is twice in a round. */
static void read_finished(struct round *x, const struct rows *rows)
{
    struct key keys[ROUND_OUTCOMES_MAX];
    size_t n = rows_count(rows);
    sort_claims(keys, x->finish, n > 0 ? x->n_finish : 0);
    for (size_t i = 0; i < x->n_finish; i++) {
        x->finished[i] = true;
    }
    for (size_t i = 0; i < n; i++) {
        const struct key *k = find_key(keys, x->n_finish, rows_int(rows, i, 0), 0);
        if (k) {
            x->finished[k->at] = false;
        }
    }
}

static void read_requeue(struct round *x, const struct rows *rows)
{
    struct key keys[ROUND_OUTCOMES_MAX];
    sort_claims(keys, x->requeue, x->n_requeue);
    memset(x->requeue_state, 0, x->n_requeue * sizeof *x->requeue_state);
    for (size_t i = 0; i < rows_count(rows); i++) {
        const struct key *k = find_key(keys, x->n_requeue, rows_int(rows, i, 0), 0);
        const char *state = rows_text(rows, i, 1);
        if (k) {
            x->requeue_state[k->at] = strcmp(state, "dead") == 0      ? REQUEUE_DEAD
                                      : strcmp(state, "ready") == 0   ? REQUEUE_READY
                                      : strcmp(state, "blocked") == 0 ? REQUEUE_BLOCKED
                                                                      : REQUEUE_WAITS;
        }
    }
}

static void read_verdicts(struct round *x, const struct rows *rows)
{
    struct key keys[ROUND_VERIFY_MAX];
    for (size_t i = 0; i < x->n_verify; i++) {
        keys[i] = (struct key){.id = x->verify[i].id, .claims = x->verify[i].claims, .at = i};
        x->verdicts[i] = VERDICT_LOST;
        x->timeouts_ms[i] = 0;
    }
    qsort(keys, x->n_verify, sizeof *keys, compare_keys);
    for (size_t i = 0; i < rows_count(rows); i++) {
        const struct key *k = find_key(keys, x->n_verify, rows_int(rows, i, 0),
                                       rows_int(rows, i, 1));
        const char *word = rows_text(rows, i, 2);
        if (k) {
            x->verdicts[k->at] = strcmp(word, "mine") == 0        ? VERDICT_MINE
                                 : strcmp(word, "cancelled") == 0 ? VERDICT_CANCELLED
                                                                  : VERDICT_ENDED;
            x->timeouts_ms[k->at] = rows_int(rows, i, 3);
        }
    }
}

static void read_progress(struct round *x, const struct rows *rows)
{
    struct key keys[ROUND_WRITES_MAX];
    for (size_t i = 0; i < x->n_progress; i++) {
        keys[i] = (struct key){.id = x->progress[i]->id, .at = i};
        x->progress[i]->state = WRITE_MISSED;
    }
    qsort(keys, x->n_progress, sizeof *keys, compare_keys);
    for (size_t i = 0; i < rows_count(rows); i++) {
        const struct key *k = find_key(keys, x->n_progress, rows_int(rows, i, 0), 0);
        if (k) {
            x->progress[k->at]->state = rows_bool(rows, i, 1) ? WRITE_WRITTEN : WRITE_REFUSED;
        }
    }
}

/* They come in the order of their places. */
static void read_steps(struct round *x, const struct rows *rows)
{
    for (size_t i = 0; i < x->n_steps; i++) {
        x->steps[i]->state = WRITE_MISSED;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t place = (size_t)rows_int(rows, i, 0) - 1;
        if (place < x->n_steps) {
            x->steps[place]->state = rows_bool(rows, i, 1) ? WRITE_WRITTEN : WRITE_REFUSED;
        }
    }
}

/* A copy of a text that most tasks have not. */
static bool read_json(const struct rows *rows, size_t i, int column, char **ret)
{
    const char *text = rows_text(rows, i, column);
    *ret = text ? strdup(text) : NULL;
    return !text || *ret;
}

static struct claim *read_claim(const struct rows *rows, size_t i)
{
    struct claim *c = claim_new(rows_int(rows, i, 0), rows_text(rows, i, 7), rows_text(rows, i, 8),
                                rows_text(rows, i, 9), rows_text(rows, i, 10),
                                rows_bytes(rows, i, 10));
    if (c && (!read_json(rows, i, CLAIM_COLUMN_PROGRESS, &c->progress) ||
              !read_json(rows, i, CLAIM_COLUMN_STEPS, &c->steps))) {
        claim_free(c);
        return NULL;
    }
    if (c) {
        c->steps_bytes = c->steps ? strlen(c->steps) : 0;
        c->claims = (int32_t)rows_int(rows, i, 1);
        c->attempt = (int32_t)rows_int(rows, i, 11);
        c->key = rows_int(rows, i, 2);
        c->timeout_ms = rows_int(rows, i, 3);
        c->waited_us = rows_int(rows, i, CLAIM_COLUMN_WAITED_US);
        c->failures = (int32_t)rows_int(rows, i, 4);
        c->max_attempts = (int32_t)rows_int(rows, i, 5);
        c->priority = (int32_t)rows_int(rows, i, 6);
    }
    return c;
}

/* The first n rows. More than were asked for is as good as a lost answer. */
static bool read_claims(struct round_calls *r, const struct rows *rows, size_t n)
{
    struct round *x = r->round;
    if (n > ROUND_CLAIMS_MAX) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct claim *c = read_claim(rows, i);
        if (!c) {
            return false;
        }
        c->handler = handlers_find(&r->context->served->handlers, c->kind);
        x->claimed[x->n_claimed++] = c;
    }
    return true;
}

/* Of the tasks that a poll has claimed, whose turn is it? */
struct turn {
    struct claim *claim;
    int64_t run_at_us;
};

static int compare_turns(const void *one, const void *two)
{
    const struct turn *a = one, *b = two;
    const struct claim *c = a->claim, *d = b->claim;
    int by_priority = (c->priority < d->priority) - (c->priority > d->priority);
    int by_time = (a->run_at_us > b->run_at_us) - (a->run_at_us < b->run_at_us);
    return by_priority ? by_priority : by_time ? by_time : (c->id > d->id) - (c->id < d->id);
}

/* The highest priority first, and of those what was ready first. */
static void order_claims(struct round *x, const struct rows *rows)
{
    struct turn turns[ROUND_CLAIMS_MAX];
    for (size_t i = 0; i < x->n_claimed; i++) {
        turns[i] = (struct turn){.claim = x->claimed[i],
                                 .run_at_us = rows_int(rows, i, POLL_COLUMN_RUN_AT)};
    }
    qsort(turns, x->n_claimed, sizeof *turns, compare_turns);
    for (size_t i = 0; i < x->n_claimed; i++) {
        x->claimed[i] = turns[i].claim;
    }
}

/* The claimed tasks, in any order, and how far was read for them. */
static bool read_poll(struct round_calls *r, const struct rows *rows)
{
    struct round *x = r->round;
    size_t n = rows_count(rows);
    enum poll_end end = POLL_ALL;
    for (; n > 0 && !rows_is_null(rows, n - 1, POLL_COLUMN_RANGE); n--) {
        poll_read_to(&r->context->poll, (size_t)rows_int(rows, n - 1, POLL_COLUMN_RANGE) - 1,
                     (struct poll_place){.run_at_us = rows_int(rows, n - 1, POLL_COLUMN_RUN_AT),
                                         .id = rows_int(rows, n - 1, POLL_COLUMN_ID)});
        if (!rows_is_null(rows, n - 1, POLL_COLUMN_END)) {
            end = rows_bool(rows, n - 1, POLL_COLUMN_END) ? POLL_FULL : POLL_BOUNDED;
        }
    }
    x->end = poll_end(&r->context->poll, end, now_ms());
    bool read = read_claims(r, rows, n);
    order_claims(x, rows);
    return read;
}

static bool read_owned(struct round *x, const struct rows *rows)
{
    size_t n = rows_count(rows);
    x->owned = calloc(n + 1, sizeof *x->owned);
    for (size_t i = 0; x->owned && i < n; i++) {
        struct claim *c = claim_new(rows_int(rows, i, 0), "", "", NULL, NULL, 0);
        if (!c) {
            return false;
        }
        c->claims = (int32_t)rows_int(rows, i, 1);
        c->key = rows_int(rows, i, 2);
        x->owned[x->n_owned++] = c;
    }
    return x->owned != NULL;
}

bool round_read(struct round_calls *r)
{
    struct round *x = r->round;
    if (r->own && !read_owned(x, r->own->rows)) {
        return false;
    }
    if (r->settings) {
        r->context->forgets_history = !rows_bool(r->settings->rows, 0, 0);
    }
    if (r->verify) {
        read_verdicts(x, r->verify->rows);
    }
    if (r->progress) {
        read_progress(x, r->progress->rows);
    }
    if (r->steps) {
        read_steps(x, r->steps->rows);
    }
    if (r->finish) {
        read_finished(x, r->finish->rows);
    }
    if (r->requeue) {
        read_requeue(x, r->requeue->rows);
    }
    x->has_turn = r->turn && rows_bool(r->turn->rows, 0, 0);
    if (r->claim || r->alone) {
        const struct rows *rows = r->claim ? r->claim->rows : r->alone->rows;
        return read_claims(r, rows, rows_count(rows));
    }
    return !r->poll || read_poll(r, r->poll->rows);
}
