#include "tests/sim/timeline.h"

#include <stdlib.h>

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

void timeline_add(struct timeline *t, int64_t at_us, moment_act *act, int who, int64_t arg)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 256;
        t->heap = realloc(t->heap, t->cap * sizeof *t->heap);
        if (!t->heap) {
            abort();
        }
    }
    struct moment m = {.at_us = at_us, .order = t->order++, .act = act, .who = who, .arg = arg};
    size_t i = t->n++;
    for (; i > 0 && is_before(&m, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        t->heap[i] = t->heap[(i - 1) / 2];
    }
    t->heap[i] = m;
}

bool timeline_next(struct timeline *t, struct moment *ret)
{
    if (t->n == 0) {
        return false;
    }
    *ret = t->heap[0];
    struct moment last = t->heap[--t->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->n) {
            break;
        }
        child += child + 1 < t->n && is_before(&t->heap[child + 1], &t->heap[child]);
        if (!is_before(&t->heap[child], &last)) {
            break;
        }
        t->heap[i] = t->heap[child];
        i = child;
    }
    t->heap[i] = last;
    return true;
}

void timeline_clear(struct timeline *t)
{
    free(t->heap);
    *t = (struct timeline){0};
}
