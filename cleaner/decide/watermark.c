#include "cleaner/decide/watermark.h"

#include <string.h>

void watermark_start(struct watermark *w, int64_t id)
{
    w->id = id;
    w->n = 0;
    w->xmin = w->next = 0;
}

void watermark_snapshot(struct watermark *w, int64_t xmin, int64_t next)
{
    w->xmin = xmin;
    w->next = next;
}

/* The next question comes when the gap is twice as old. There is none when the transaction was over
 * before this one. An id is taken a moment before its transaction counts as one that writes, which
 * is what the first pause is for; one that takes longer, because it waits for who holds its unique
 * key, is found by a poll. */
static void gap_asked(const struct watermark *w, struct watermark_gap *gap, int64_t now_ms)
{
    int64_t age_ms = now_ms - gap->since_ms;
    gap->over = age_ms >= WATERMARK_ASK_MS && gap->fence <= w->xmin;
    gap->ask_ms = now_ms + (age_ms > WATERMARK_ASK_MS ? age_ms : WATERMARK_ASK_MS);
}

size_t watermark_ask(struct watermark *w, int64_t now_ms, bool all, int64_t *ids)
{
    size_t kept = 0, n = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct watermark_gap gap = w->gaps[i];
        if (gap.seen || gap.over || now_ms - gap.since_ms >= WATERMARK_GAP_MS) {
            continue;
        }
        if (all || gap.ask_ms <= now_ms) {
            gap_asked(w, &gap, now_ms);
            ids[n++] = gap.id;
        }
        w->gaps[kept++] = gap;
    }
    w->n = kept;
    return n;
}

static void gaps_drop_lowest(struct watermark *w, size_t n)
{
    w->n -= n;
    memmove(w->gaps, w->gaps + n, w->n * sizeof *w->gaps);
}

/* The ids from `first` to `last` are missing; of more than there is room for, the highest count. */
static void gaps_add(struct watermark *w, int64_t first, int64_t last, int64_t now_ms)
{
    if (last - first >= WATERMARK_GAPS_MAX) {
        first = last - WATERMARK_GAPS_MAX + 1;
    }
    if (first > last) {
        return;
    }
    size_t wanted = w->n + (size_t)(last - first + 1);
    if (wanted > WATERMARK_GAPS_MAX) {
        gaps_drop_lowest(w, wanted - WATERMARK_GAPS_MAX);
    }
    for (int64_t id = first; id <= last; id++) {
        w->gaps[w->n++] = (struct watermark_gap){.id = id,
                                                 .since_ms = now_ms,
                                                 .ask_ms = now_ms + WATERMARK_ASK_MS,
                                                 .fence = w->next ? w->next : INT64_MAX};
    }
}

static bool gap_fill(struct watermark *w, int64_t id)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->gaps[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == w->n || w->gaps[low].id != id || w->gaps[low].seen) {
        return false;
    }
    w->gaps[low].seen = true;
    return true;
}

bool watermark_see(struct watermark *w, int64_t id, int64_t now_ms)
{
    if (id <= w->id) {
        return gap_fill(w, id);
    }
    gaps_add(w, w->id + 1, id - 1, now_ms);
    w->id = id;
    return true;
}
