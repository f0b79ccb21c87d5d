#include "cleaner/decide/watermark.h"

#include <stdlib.h>
#include <string.h>

void watermark_start(struct watermark *w, int64_t id)
{
    w->id = id;
    w->n = 0;
    w->snapshot = (struct snapshot){0};
}

void snapshot_read(struct snapshot *s, const char *running, int64_t xmax, int64_t next)
{
    char *end = NULL;
    *s = (struct snapshot){.xmax = xmax, .next = next};
    for (; *running; running = end) {
        int64_t transaction = strtoll(running, &end, 10);
        if (s->n == WATERMARK_RUNNING_MAX) {
            s->xmax = transaction;
            return;
        }
        s->running[s->n++] = transaction;
    }
}

/* Of the transactions below the fence; a number that nobody has yet, or a part of a transaction
 * has, may count until xmax has passed it. `at`: where to begin, as fences ascend. */
static int64_t running_below(const struct snapshot *s, int64_t fence, size_t *at)
{
    while (*at < s->n && s->running[*at] < fence) {
        ++*at;
    }
    return (int64_t)*at + (fence > s->xmax ? fence - s->xmax : 0);
}

/* Those that were asked for: they are missing in this snapshot, unless their rows follow. An id is
 * taken a moment before its transaction counts as one that writes, so that its end does not show:
 * that is why they are asked for again after a while. One that takes longer, as when it waits for
 * who holds its unique key, is found by a poll. */
void watermark_snapshot(struct watermark *w, const struct snapshot *s)
{
    size_t at = 0;
    w->snapshot = *s;
    for (size_t i = 0; i < w->n; i++) {
        struct watermark_gap *gap = &w->gaps[i];
        int64_t running = running_below(s, gap->fence, &at);
        if (gap->asked) {
            gap->ended_ms = running < gap->running ? w->asked_ms : gap->ended_ms;
            gap->late = w->asked_ms - gap->ended_ms >= WATERMARK_ASK_MS;
            gap->over = gap->late && running == 0;
            gap->running = running;
            gap->asked = false;
        }
    }
}

static bool is_closed(const struct watermark_gap *gap, int64_t now_ms)
{
    return gap->seen || gap->over || now_ms - gap->since_ms >= WATERMARK_GAP_MS;
}

/* As long as the gap is old: so it doubles. */
static int64_t pause_ms(int64_t age_ms)
{
    return age_ms < WATERMARK_ASK_MS       ? WATERMARK_ASK_MS
           : age_ms > WATERMARK_ASK_MAX_MS ? WATERMARK_ASK_MAX_MS
                                           : age_ms;
}

size_t watermark_ask(struct watermark *w, int64_t now_ms, bool all, int64_t *ids)
{
    size_t kept = 0, n = 0, at = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct watermark_gap gap = w->gaps[i];
        if (is_closed(&gap, now_ms)) {
            continue;
        }
        bool ended = running_below(&w->snapshot, gap.fence, &at) < gap.running;
        if ((all || gap.ask_ms <= now_ms) && (ended || !gap.late)) {
            gap.ask_ms = now_ms + pause_ms(now_ms - gap.since_ms);
            gap.asked = true;
            ids[n++] = gap.id;
        }
        w->gaps[kept++] = gap;
    }
    w->n = kept;
    w->asked_ms = now_ms;
    return n;
}

bool watermark_has_ended(const struct watermark *w, int64_t now_ms)
{
    size_t at = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct watermark_gap *gap = &w->gaps[i];
        if (!is_closed(gap, now_ms) &&
            running_below(&w->snapshot, gap->fence, &at) < gap->running) {
            return true;
        }
    }
    return false;
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
    size_t at = 0;
    int64_t fence = w->snapshot.next, running = running_below(&w->snapshot, fence, &at);
    for (int64_t id = first; id <= last; id++) {
        w->gaps[w->n++] = (struct watermark_gap){.id = id,
                                                 .since_ms = now_ms,
                                                 .ask_ms = now_ms + WATERMARK_ASK_MS,
                                                 .fence = fence,
                                                 .running = running,
                                                 .ended_ms = now_ms};
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
