#include "tests/sim/faults.h"

#include "tests/sim/sim.h"

static struct node *any_node(struct sim *s)
{
    return &s->nodes[random_below(&s->random, s->plan.n_nodes)];
}

static struct cleaner *any_cleaner(struct sim *s)
{
    return &s->cleaners[random_below(&s->random, s->plan.n_cleaners)];
}

static void resume_queue(struct sim *s, int queue, int64_t arg)
{
    (void)arg;
    s->server.paused[queue] = false;
}

static void partition(struct sim *s, struct node *n, int64_t us)
{
    TRACE(s, "worker %d: cut off for %lld ms", n->index, (long long)(us / 1000));
    n->cut_until_us = s->now_us + us;
    node_faulted(s, n, us + 20000000); /* so long an answer may be awaited */
}

static void unblock(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    s->broker.blocked = false;
}

static void strike_node(struct sim *s, enum fault_kind kind)
{
    struct random *x = &s->random;
    struct node *n = any_node(s);
    switch ((int)kind) {
    case FAULT_KILL:
        node_kill(s, n, false);
        break;
    case FAULT_UNPLUG:
        node_kill(s, n, true);
        break;
    case FAULT_FREEZE:
        node_freeze(s, n, random_log(x, 10, 60000) * 1000);
        break;
    case FAULT_STOP:
        node_stop(s, n);
        break;
    case FAULT_CUT_HOT:
        TRACE(s, "worker %d: the round's session breaks", n->index);
        session_end(s, n->round_thread.session);
        round_cut(s, n, sim_hop(s));
        break;
    case FAULT_CUT_PRESENCE:
        TRACE(s, "worker %d: the presence's session breaks", n->index);
        session_end(s, n->presence.session);
        node_faulted(s, n, 10000000);
        break;
    case FAULT_PARTITION:
        partition(s, n, random_log(x, 10, 60000) * 1000);
        break;
    case FAULT_CHANNEL:
        consumer_closed(s, n);
        break;
    case FAULT_CONSUMER:
        n->consumer.hung_until_us = s->now_us + random_log(x, 1, 5000) * 1000;
        break;
    }
}

static void strike_server(struct sim *s, enum fault_kind kind)
{
    struct random *x = &s->random;
    int64_t us = random_log(x, 10, 20000) * 1000;
    switch ((int)kind) {
    case FAULT_RESTART:
        if (s->server.up) {
            us = random_log(x, 10, 60000) * 1000;
            server_restart(s, us);
            sim_faulted(s, us);
        }
        break;
    case FAULT_STALL:
        s->server.stalled_until_us = s->now_us + us / 2;
        sim_faulted(s, us);
        break;
    case FAULT_BROKER_DOWN:
        broker_down(s, us);
        break;
    case FAULT_BROKER_LOSE:
        broker_lose(s);
        break;
    case FAULT_BROKER_BLOCK:
        s->broker.blocked = true;
        sim_after(s, us, unblock, 0, 0);
        break;
    case FAULT_CLEANER:
        if (random_chance(x, 5000)) {
            cleaner_kill(s, any_cleaner(s), us);
        } else {
            cleaner_cut(s, any_cleaner(s));
        }
        sim_faulted(s, 0);
        break;
    case FAULT_CLEANER_FREEZE:
        cleaner_freeze(s, any_cleaner(s), us * 2);
        break;
    case FAULT_PAUSE: {
        int queue = (int)random_below(x, 2);
        s->server.paused[queue] = true;
        sim_after(s, us, resume_queue, queue, 0);
        break;
    }
    }
}

static void strike(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    if (s->healed) {
        return;
    }
    enum fault_kind kind = (enum fault_kind)random_below(&s->random, FAULT_KINDS);
    if (s->plan.fault[kind]) {
        strike_node(s, kind);
        strike_server(s, kind);
    }
    sim_after(s, random_below(&s->random, s->plan.fault_every_us / 4), strike, 0, 0);
}

static void stop_one(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    node_stop(s, any_node(s));
}

void faults_plan(struct sim *s)
{
    for (int i = 0; i < s->plan.n_stops; i++) {
        sim_after(s, random_below(&s->random, s->plan.active_us), stop_one, 0, 0);
    }
    if (s->plan.faults) {
        sim_after(s, random_below(&s->random, s->plan.fault_every_us), strike, 0, 0);
    }
}

/* What was struck ends by itself in bounded time; nothing new comes. */
void faults_heal(struct sim *s)
{
    TRACE(s, "--- no more faults ---");
    s->healed = true;
    s->plan.rate_drop = s->plan.rate_double = s->plan.rate_reorder = 0;
    s->plan.rate_cut = s->plan.rate_again = s->plan.rate_slow = 0;
}
