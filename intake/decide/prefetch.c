#include "intake/decide/prefetch.h"

void prefetch_note(struct prefetch *p, int64_t n, int64_t bytes, int64_t busy_us)
{
    p->n += n;
    p->bytes += bytes;
    p->busy_us += busy_us;
}

static int64_t bounded(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* By the time that commits took, not by the clock: a queue with little in it says nothing. */
static int64_t measured(const struct prefetch *p)
{
    int64_t busy_us = p->busy_us > 0 ? p->busy_us : 1;
    int64_t wanted = bounded(p->n * PREFETCH_AHEAD_MS * 1000 / busy_us, PREFETCH_MIN, PREFETCH_MAX);
    int64_t mean = p->bytes / p->n + 1;
    int64_t fit = bounded(PREFETCH_BYTES_MAX / mean, 1, PREFETCH_MAX);
    return wanted < fit ? wanted : fit;
}

int prefetch_wanted(struct prefetch *p, int64_t now_ms)
{
    if (p->fixed > 0) {
        return p->fixed;
    }
    if (p->now == 0 || p->begun_ms == 0) {
        p->begun_ms = now_ms;
        return p->now > 0 ? p->now : PREFETCH_FIRST;
    }
    bool enough = !p->measured && p->n >= PREFETCH_FIRST;
    if (!enough && now_ms - p->begun_ms < PREFETCH_WINDOW_MS) {
        return p->now;
    }
    int64_t wanted = p->n > 0 ? measured(p) : p->now;
    *p = (struct prefetch){.now = p->now, .begun_ms = now_ms, .measured = p->measured || p->n > 0};
    return wanted >= 2 * (int64_t)p->now || 2 * wanted <= p->now ? (int)wanted : p->now;
}
