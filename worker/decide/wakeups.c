#include "worker/decide/wakeups.h"

#include <stdlib.h>
#include <string.h>

static const int64_t again_after_ms[WAKEUPS_TRIES] = {50, 500, 3000};

bool wakeups_init(struct wakeups *w)
{
    memset(w, 0, sizeof *w);
    w->batches = calloc(WAKEUPS_BATCHES_MAX, sizeof *w->batches);
    return w->batches != NULL;
}

void wakeups_clear(struct wakeups *w)
{
    free(w->batches);
    w->batches = NULL;
}

static struct wakeup_batch *batch_at(const struct wakeups *w, size_t i)
{
    return &w->batches[(w->first + i) % WAKEUPS_BATCHES_MAX];
}

/* There is no place for another batch: into the last one, which is acked a little later then. */
static bool add_to_last(struct wakeups *w, int64_t epoch, const int64_t *ids, size_t n,
                        uint64_t last_tag)
{
    struct wakeup_batch *b = batch_at(w, w->n_batches - 1);
    if (b->epoch != epoch || b->n + n > WAKEUPS_BATCH_MAX) {
        return false;
    }
    memcpy(b->ids + b->n, ids, n * sizeof *ids);
    b->n += n;
    b->last_tag = last_tag;
    w->pending += (int64_t)n;
    return true;
}

bool wakeups_add(struct wakeups *w, int64_t epoch, const int64_t *ids, size_t n, uint64_t last_tag)
{
    if (n > WAKEUPS_BATCH_MAX) {
        return false;
    }
    if (w->n_batches == WAKEUPS_BATCHES_MAX) {
        return add_to_last(w, epoch, ids, n, last_tag);
    }
    struct wakeup_batch *b = batch_at(w, w->n_batches++);
    b->epoch = epoch;
    b->last_tag = last_tag;
    b->n = n;
    b->asked = b->settled = 0;
    memcpy(b->ids, ids, n * sizeof *ids);
    w->pending += (int64_t)n;
    return true;
}

void wakeups_forget(struct wakeups *w)
{
    w->n_batches = 0;
    w->pending = 0;
}

static size_t take_again(struct wakeups *w, int64_t now_ms, int64_t *ids, int *tries, size_t max)
{
    size_t n = 0;
    for (int i = 0; i < WAKEUPS_TRIES; i++) {
        struct wakeup_ring *r = &w->again[i];
        while (r->n > 0 && n < max && r->item[r->first].at_ms <= now_ms) {
            ids[n] = r->item[r->first].id;
            tries[n++] = i + 1;
            r->first = (r->first + 1) % WAKEUPS_RING_MAX;
            r->n--;
        }
    }
    return n;
}

size_t wakeups_take(struct wakeups *w, int64_t now_ms, int64_t *ids, int *tries, size_t max)
{
    size_t n = take_again(w, now_ms, ids, tries, max);
    for (size_t i = 0; i < w->n_batches && n < max; i++) {
        struct wakeup_batch *b = batch_at(w, i);
        for (; b->asked < b->n && n < max; b->asked++) {
            w->pending--;
            if (!wakeups_was_claimed(w, b->ids[b->asked])) {
                ids[n] = b->ids[b->asked];
                tries[n++] = 0;
            }
        }
    }
    return n;
}

void wakeups_claimed(struct wakeups *w, int64_t id)
{
    w->recent[(uint64_t)id % WAKEUPS_RECENT] = id;
}

bool wakeups_was_claimed(const struct wakeups *w, int64_t id)
{
    return w->recent[(uint64_t)id % WAKEUPS_RECENT] == id;
}

void wakeups_unclaimed(struct wakeups *w, int64_t id)
{
    if (wakeups_was_claimed(w, id)) {
        w->recent[(uint64_t)id % WAKEUPS_RECENT] = 0;
    }
}

void wakeups_missed(struct wakeups *w, int64_t id, int tries, int64_t now_ms)
{
    if (tries >= WAKEUPS_TRIES) {
        return; /* the ordered claim finds it if it ever appears */
    }
    struct wakeup_ring *r = &w->again[tries];
    if (r->n == WAKEUPS_RING_MAX) {
        w->dropped++;
        return;
    }
    size_t at = (r->first + r->n++) % WAKEUPS_RING_MAX;
    r->item[at].id = id;
    r->item[at].at_ms = now_ms + again_after_ms[tries];
}

void wakeups_settle(struct wakeups *w)
{
    for (size_t i = 0; i < w->n_batches; i++) {
        struct wakeup_batch *b = batch_at(w, i);
        b->settled = b->asked;
    }
}

bool wakeups_next_ack(struct wakeups *w, int64_t *ret_epoch, uint64_t *ret_tag)
{
    bool any = false;
    while (w->n_batches > 0) {
        struct wakeup_batch *b = batch_at(w, 0);
        if (b->settled < b->n || (any && b->epoch != *ret_epoch)) {
            break;
        }
        *ret_epoch = b->epoch;
        *ret_tag = b->last_tag;
        any = true;
        w->first = (w->first + 1) % WAKEUPS_BATCHES_MAX;
        w->n_batches--;
    }
    return any;
}

void wakeups_unask(struct wakeups *w)
{
    for (size_t i = 0; i < w->n_batches; i++) {
        struct wakeup_batch *b = batch_at(w, i);
        w->pending += (int64_t)(b->asked - b->settled);
        b->asked = b->settled;
    }
}

int64_t wakeups_due(const struct wakeups *w)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < WAKEUPS_TRIES; i++) {
        const struct wakeup_ring *r = &w->again[i];
        if (r->n > 0 && r->item[r->first].at_ms < due) {
            due = r->item[r->first].at_ms;
        }
    }
    return due;
}
