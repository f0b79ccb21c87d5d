#include "worker/decide/wakeups.h"

static bool ring_put(struct wakeup_ring *r, int64_t id, int64_t at_ms)
{
    if (r->n == WAKEUPS_MAX) {
        return false;
    }
    size_t at = (r->first + r->n++) % WAKEUPS_MAX;
    r->item[at].id = id;
    r->item[at].at_ms = at_ms;
    return true;
}

static bool ring_take(struct wakeup_ring *r, int64_t now_ms, int64_t *ret)
{
    if (r->n == 0 || r->item[r->first].at_ms > now_ms) {
        return false;
    }
    *ret = r->item[r->first].id;
    r->first = (r->first + 1) % WAKEUPS_MAX;
    r->n--;
    return true;
}

void wakeups_add(struct wakeups *w, const int64_t *ids, size_t n, uint64_t last_tag)
{
    for (size_t i = 0; i < n && ring_put(&w->delivered, ids[i], 0); i++) {
    }
    w->last_tag = last_tag;
    w->unacked = true;
}

void wakeups_discard(struct wakeups *w)
{
    w->delivered.n = 0;
}

void wakeups_forget(struct wakeups *w)
{
    w->delivered.n = 0;
    w->unacked = false;
}

size_t wakeups_take(struct wakeups *w, int64_t now_ms, int64_t *ids, bool *again, size_t max)
{
    size_t n = 0;
    for (; n < max && ring_take(&w->again, now_ms, &ids[n]); n++) {
        again[n] = true;
    }
    for (; n < max && ring_take(&w->delivered, now_ms, &ids[n]); n++) {
        again[n] = false;
    }
    return n;
}

void wakeups_missed(struct wakeups *w, int64_t id, int64_t now_ms)
{
    (void)ring_put(&w->again, id, now_ms + WAKEUPS_AGAIN_MS); /* or a poll finds it */
}

int64_t wakeups_due(const struct wakeups *w)
{
    return w->again.n > 0 ? w->again.item[w->again.first].at_ms : INT64_MAX;
}

bool wakeups_ack(struct wakeups *w, uint64_t *ret_tag)
{
    if (!w->unacked || w->delivered.n > 0) {
        return false;
    }
    w->unacked = false;
    *ret_tag = w->last_tag;
    return true;
}
