#include "cleaner/decide/pace.h"

void pace_start(struct pace *p, int64_t now_ms)
{
    *p = (struct pace){.found_ms = now_ms};
}

enum pace_act pace_plan(const struct pace *p, bool notified, int64_t now_ms)
{
    if (p->asleep) {
        return notified || p->roused ? PACE_UNLOCK : PACE_READ;
    }
    return now_ms - p->found_ms >= PACE_QUIET_MS ? PACE_LOCK : PACE_READ;
}

int64_t pace_done(struct pace *p, enum pace_act act, bool granted, enum pace_news news, bool more,
                  int64_t now_ms)
{
    if (act == PACE_UNLOCK) {
        pace_start(p, now_ms);
    } else if (act == PACE_LOCK) {
        p->asleep = granted;
    }
    if (news == PACE_ROWS) {
        p->found_ms = now_ms;
        p->roused = p->asleep;
    }
    if (more || p->roused) {
        return now_ms;
    }
    if (p->asleep) {
        return now_ms + (news == PACE_ANNOUNCED ? PACE_FOLLOW_MS : PACE_TICK_MS);
    }
    return now_ms + (act == PACE_LOCK && news != PACE_ROWS ? PACE_REFUSED_MS : PACE_BUSY_MS);
}

void pace_failed(struct pace *p)
{
    p->asleep = true;
    p->roused = true;
}
