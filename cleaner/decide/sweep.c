#include "cleaner/decide/sweep.h"

struct sweep_plan sweep_plan(const struct sweep *s, int64_t room, int64_t window, int64_t now_ms)
{
    struct sweep_plan plan = {0, 0};
    if (room <= 0 || now_ms < s->due_ms) {
        return plan;
    }
    plan.limit = room < SWEEP_IDS_MAX ? (size_t)room : SWEEP_IDS_MAX;
    if (s->after_us == 0 && room < window) {
        plan.skip = (size_t)(window - room);
    }
    return plan;
}

static void sweep_pause(struct sweep *s, int64_t now_ms)
{
    if (!s->published) {
        *s = (struct sweep){.due_ms = now_ms + SWEEP_IDLE_MS};
        return;
    }
    int64_t pause_ms = 2 * s->pause_ms;
    pause_ms = pause_ms < SWEEP_PAUSE_MIN_MS ? SWEEP_PAUSE_MIN_MS : pause_ms;
    pause_ms = pause_ms > SWEEP_PAUSE_MAX_MS ? SWEEP_PAUSE_MAX_MS : pause_ms;
    *s = (struct sweep){.due_ms = now_ms + pause_ms, .pause_ms = pause_ms};
}

void sweep_done(struct sweep *s, struct sweep_plan plan, size_t n, int64_t after_us,
                int64_t after_id, int64_t now_ms)
{
    s->published = s->published || n > 0;
    if (n < plan.limit) {
        sweep_pause(s, now_ms);
        return;
    }
    s->after_us = after_us;
    s->after_id = after_id;
}
