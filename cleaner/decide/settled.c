#include "cleaner/decide/settled.h"

int64_t settled_from(const struct settled *s, int64_t now_ms)
{
    return now_ms - s->all_ms >= SETTLED_ALL_MS ? 0 : s->id;
}

void settled_answered(struct settled *s, const struct settled_answer *answer, int64_t now_ms)
{
    if (answer->from == 0) {
        s->all_ms = now_ms;
    }
    if (s->mark == 0) {
        s->mark = answer->last;
        s->until = 0;
    } else if (s->until == 0) {
        s->until = answer->next;
    } else if (answer->xmin >= s->until) {
        s->id = s->mark;
        s->mark = 0;
    }
    if (answer->first > 0 && answer->first <= s->id) {
        s->id = answer->first - 1;
    }
}
