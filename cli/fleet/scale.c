#include "cli/fleet/scale.h"

static int64_t within(const struct scale *s, int64_t n)
{
    return n < s->min ? s->min : n > s->max ? s->max : n;
}

struct scale scale_start(int64_t min, int64_t max, int64_t down_after_ms, int64_t n)
{
    struct scale s = {.min = min, .max = max, .down_after_ms = down_after_ms};
    s.n = within(&s, n);
    return s;
}

int64_t scale_next(struct scale *s, int64_t wanted, int64_t now_ms)
{
    int64_t n = within(s, wanted);
    if (n >= s->n) {
        s->n = n;
        s->low = false;
        return n;
    }
    if (!s->low) {
        s->low = true;
        s->low_ms = now_ms;
        s->low_top = n;
    }
    s->low_top = n > s->low_top ? n : s->low_top;
    if (now_ms - s->low_ms >= s->down_after_ms) {
        s->n = s->low_top;
        s->low = false;
    }
    return s->n;
}

bool scale_lacks(struct scale_gap *gap, int64_t told, int64_t there, int64_t now_ms)
{
    if (there >= told) {
        gap->open = false;
        return false;
    }
    if (!gap->open) {
        gap->open = true;
        gap->since_ms = now_ms;
    }
    bool lacks = now_ms - gap->since_ms >= SCALE_START_MS;
    gap->open = !lacks;
    return lacks;
}
