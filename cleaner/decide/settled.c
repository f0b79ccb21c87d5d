#include "cleaner/decide/settled.h"

int64_t settled_from(struct settled *s, int64_t now_ms)
{
    if (now_ms - s->all_ms >= SETTLED_ALL_MS) {
        s->all_ms = now_ms;
        return 0;
    }
    return s->id;
}

void settled_answered(struct settled *s, const struct settled_answer *answer)
{
    if (s->mark == 0) {
        s->mark = answer->last;
        s->until = 0;
    } else if (s->until == 0) {
        s->until = answer->xmax;
    } else if (answer->xmin >= s->until) {
        s->id = s->mark;
        s->mark = 0;
    }
    if (answer->first > 0 && answer->first <= s->id) {
        s->id = answer->first - 1;
    }
}
