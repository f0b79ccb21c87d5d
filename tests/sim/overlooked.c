#include "tests/sim/overlooked.h"

#include "tests/sim/sim.h"

enum { READY_US = 2000000, WINDOW = 64 };

static bool lies_after(const struct version *v, int64_t id, const struct sweep *w)
{
    return v->run_at > w->after_us || (v->run_at == w->after_us && id > w->after_id);
}

static const struct row *next_overlooked(struct sim *s, int queue, const struct sweep *after)
{
    const struct row *best = NULL;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        const struct version *v = &r->now;
        if (row_is_ready(s, r) && v->queue == queue && v->run_at <= server_now(s) - READY_US &&
            lies_after(v, r->id, after) && (!best || v->run_at < best->now.run_at)) {
            best = r;
        }
    }
    return best;
}

static void sweep_queue(struct sim *s, struct cleaner *c, int queue)
{
    int64_t now_ms = s->now_us / 1000 + c->clock_ms;
    int64_t room = s->broker.up ? WINDOW - broker_depth(s, queue) : -1;
    struct sweep *w = &c->sweeps[queue], at = *w;
    struct sweep_plan plan = sweep_plan(w, room, WINDOW, now_ms);
    size_t n = 0, skip = plan.skip;
    if (plan.limit == 0) {
        return;
    }
    for (const struct row *r; n < plan.limit && (r = next_overlooked(s, queue, &at));) {
        at.after_us = r->now.run_at;
        at.after_id = r->id;
        if (skip > 0) {
            skip--;
            continue;
        }
        broker_publish(s, r->now.queue, r->id);
        n++;
    }
    sweep_done(w, plan, n, at.after_us, at.after_id, now_ms);
}

void overlooked_look(struct sim *s, struct cleaner *c)
{
    for (int i = 0; i < QUEUES; i++) {
        sweep_queue(s, c, i);
    }
}
