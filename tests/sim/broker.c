#include "tests/sim/broker.h"

#include "tests/sim/sim.h"

#include <string.h>

void broker_start(struct sim *s)
{
    s->broker.up = true;
}

static void remove_ready(struct broker *b, int i)
{
    memmove(&b->ready[i], &b->ready[i + 1], (size_t)(--b->n - i) * sizeof *b->ready);
}

static void insert_ready(struct broker *b, int i, struct message m)
{
    if (b->n == MESSAGES_MAX) {
        return;
    }
    memmove(&b->ready[i + 1], &b->ready[i], (size_t)(b->n++ - i) * sizeof *b->ready);
    b->ready[i] = m;
}

static void deliver(struct sim *s, int node, struct message m)
{
    struct channel *c = &s->broker.channels[node];
    m.tag = ++c->last_tag;
    m.consumer = c->consumer;
    m.arrived = false;
    int64_t before_us = c->n_unacked > 0 ? c->unacked[c->n_unacked - 1].at_us : 0;
    int64_t at_us = s->now_us + sim_hop(s);
    m.at_us = at_us > before_us ? at_us : before_us; /* a channel keeps the order */
    c->unacked[c->n_unacked++] = m;
    c->n_mine++;
    sim_at(s, m.at_us, consumer_arrival, node, c->id);
}

/* Hand out what is ready, to any consumer that has room, in turn. */
static void pump(struct sim *s)
{
    struct broker *b = &s->broker;
    int n_nodes = s->plan.n_nodes, first = (int)random_below(&s->random, n_nodes);
    bool any = true;
    while (b->up && b->n > 0 && any) {
        any = false;
        for (int i = 0; i < n_nodes && b->n > 0; i++) {
            int node = (first + i) % n_nodes;
            struct channel *c = &b->channels[node];
            if (c->id && c->n_mine < c->budget && c->n_unacked < UNACKED_MAX) {
                struct message m = b->ready[0];
                remove_ready(b, 0);
                deliver(s, node, m);
                any = true;
            }
        }
    }
}

/* --- publishing --- */

static void published(struct sim *s, int queue, int64_t id)
{
    struct broker *b = &s->broker;
    if (!b->up || b->blocked || random_chance(&s->random, s->plan.rate_drop)) {
        TRACE(s, "broker: the wake-up of %lld is dropped", (long long)id);
        return;
    }
    int n = random_chance(&s->random, s->plan.rate_double) ? 2 : 1;
    for (int i = 0; i < n; i++) {
        bool ahead = random_chance(&s->random, s->plan.rate_reorder);
        insert_ready(b, ahead ? (int)random_below(&s->random, b->n + 1) : b->n,
                     (struct message){.id = id, .queue = queue});
    }
    pump(s);
}

void broker_publish(struct sim *s, int queue, int64_t id)
{
    sim_after(s, sim_hop(s), published, queue, id);
}

/* --- channels --- */

int64_t channel_open(struct sim *s, int node)
{
    struct channel *c = &s->broker.channels[node];
    c->id = ++s->broker.last_channel;
    c->last_tag = 0;
    c->budget = c->n_mine = c->n_unacked = 0;
    return c->id;
}

void channel_close(struct sim *s, int node)
{
    struct channel *c = &s->broker.channels[node];
    for (int i = c->n_unacked; c->id && i-- > 0;) {
        insert_ready(&s->broker, 0, c->unacked[i]); /* at the head, in their old order */
    }
    c->id = 0;
    c->n_unacked = c->n_mine = c->budget = 0;
    pump(s);
}

void channel_consume(struct sim *s, int node, int budget)
{
    struct channel *c = &s->broker.channels[node];
    c->consumer++;
    c->n_mine = 0;
    c->budget = budget;
    pump(s);
}

void channel_ack(struct sim *s, int node, int64_t channel, uint64_t tag)
{
    struct channel *c = &s->broker.channels[node];
    if (c->id != channel) {
        return;
    }
    int n = 0;
    while (n < c->n_unacked && c->unacked[n].tag <= tag) {
        c->n_mine -= c->unacked[n].consumer == c->consumer;
        n++;
    }
    c->n_unacked -= n;
    memmove(c->unacked, c->unacked + n, (size_t)c->n_unacked * sizeof *c->unacked);
    pump(s);
}

/* --- its own faults --- */

static void broker_is_up(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    TRACE(s, "broker: up");
    s->broker.up = true;
    pump(s);
}

void broker_down(struct sim *s, int64_t down_us)
{
    if (!s->broker.up) {
        return;
    }
    TRACE(s, "broker: down for %lld ms", (long long)(down_us / 1000));
    s->broker.up = false;
    for (int i = 0; i < s->plan.n_nodes; i++) {
        channel_close(s, i);
        consumer_lost(s, &s->nodes[i]);
    }
    sim_after(s, down_us, broker_is_up, 0, 0);
}

void broker_lose(struct sim *s)
{
    TRACE(s, "broker: all %d messages are lost", s->broker.n);
    s->broker.n = 0;
}
