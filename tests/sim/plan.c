#include "tests/sim/plan.h"

#include <string.h>

/* Half of all schedules do without; the others get up to `most`. */
static int rate(struct random *r, int most)
{
    return random_chance(r, 5000) ? 0 : (int)random_log(r, 20, most);
}

static void draw_sizes(struct plan *p, struct random *r)
{
    p->n_nodes = (int)random_between(r, 1, 3);
    p->n_cleaners = random_chance(r, 6000) ? 1 : 2;
    p->n_tasks = random_chance(r, 500) ? 150 : (int)random_log(r, 1, 60);
    p->n_slots_max = (int)random_log(r, 1, 4);
    p->room_max = random_chance(r, 5000) ? 1 : (int)random_between(r, 2, 6);
    p->handlers_max = (int)random_between(r, 1, 2);
    p->active_us = random_log(r, 500, 30000) * 1000;
    p->hop_us = random_log(r, 50, 4000);
    p->turn_us = random_log(r, 10, 2000);
    p->run_us = random_log(r, 1, 30000) * 1000;
    p->hold_us = random_log(r, 1, 1000) * 1000;
}

/* What applications and handlers do on a good day. */
static void draw_use(struct plan *p, struct random *r)
{
    p->rate_pool = (int)random_between(r, 0, 2) * 5000;
    p->rate_late = rate(r, 3000);
    p->rate_rollback = rate(r, 3000);
    p->rate_announced = (int)random_between(r, 0, 4) * 2500;
    p->rate_early = rate(r, 8000);
    p->rate_delayed = rate(r, 4000);
    p->rate_cancel = rate(r, 2000);
    p->rate_lock = rate(r, 2000);
    p->rate_failed = rate(r, 3000);
    p->rate_later = rate(r, 2000);
    p->rate_dead = rate(r, 1000);
    p->rate_bad = rate(r, 500);
    p->rate_own_finish = rate(r, 5000);
    p->rate_say = rate(r, 8000);
    p->rate_hears = (int)random_between(r, 0, 2) * 5000;
    p->rate_hostile = rate(r, 1000);
    p->rate_retire = rate(r, 2000);
    p->rate_take = random_chance(r, 7000) ? 0 : 5000;
    p->n_stops = random_chance(r, 7000) ? 0 : (int)random_between(r, 1, 6);
}

static void draw_faults(struct plan *p, struct random *r)
{
    p->fault_every_us = random_log(r, 200, 20000) * 1000;
    for (int i = 0; i < FAULT_KINDS; i++) {
        p->fault[i] = random_chance(r, 4000);
    }
    p->rate_crash = rate(r, 2000);
    p->rate_hang = rate(r, 1000);
    p->rate_twice = rate(r, 1000);
    p->rate_deaf = rate(r, 5000);
    p->rate_pipe_closed = rate(r, 1000);
    p->rate_no_hello = rate(r, 2000);
    p->rate_no_start = rate(r, 3000);
    p->rate_slow_start = rate(r, 5000);
    p->rate_cut = rate(r, 1500);
    p->rate_again = rate(r, 1500);
    p->rate_slow = rate(r, 1000);
    p->rate_drop = rate(r, 5000);
    p->rate_double = rate(r, 5000);
    p->rate_reorder = rate(r, 5000);
    p->rate_forget = rate(r, 5000);
}

void plan_draw(struct plan *p, struct random *r, bool faults)
{
    memset(p, 0, sizeof *p);
    p->faults = faults;
    draw_sizes(p, r);
    draw_use(p, r);
    if (faults) {
        draw_faults(p, r);
    }
}
