#include "tests/sim/consumer.h"

#include "tests/sim/sim.h"

static void consumer_turn(struct sim *s, int node, int64_t incarnation);

static void plan_turn(struct sim *s, struct node *n, int64_t after_us)
{
    struct consumer *c = &n->consumer;
    if (!c->planned) {
        int64_t at_us = s->now_us + after_us;
        c->planned = true;
        sim_at(s, at_us > c->hung_until_us ? at_us : c->hung_until_us, consumer_turn, n->index,
               n->incarnation);
    }
}

void consumer_order(struct sim *s, struct node *n)
{
    plan_turn(s, n, random_below(&s->random, s->plan.turn_us));
}

static void begin_epoch(struct sim *s, struct node *n)
{
    struct consumer *c = &n->consumer;
    c->channel = channel_open(s, n->index);
    c->epoch++;
    c->prefetch = 0;
    c->acked_tag = c->taken_tag = 0;
    node_mail(s, n, &(struct event){.type = EVENT_BROKER, .up = true, .epoch = c->epoch});
}

static void send_ack(struct sim *s, struct node *n)
{
    struct consumer *c = &n->consumer;
    if (c->order_epoch == c->epoch && c->order_tag > c->acked_tag) {
        c->acked_tag = c->order_tag;
        channel_ack(s, n->index, c->channel, c->acked_tag);
    }
}

static void apply_prefetch(struct sim *s, struct node *n)
{
    struct consumer *c = &n->consumer;
    if (c->order_prefetch == c->prefetch) {
        return;
    }
    if (c->prefetch > 0) {
        channel_close(s, n->index);
        begin_epoch(s, n);
    }
    c->prefetch = c->order_prefetch;
    channel_consume(s, n->index, c->prefetch);
}

static void consumer_turn(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    struct consumer *c = &n->consumer;
    if (!n->up || n->incarnation != incarnation) {
        return;
    }
    c->planned = false;
    if (n->frozen) {
        return; /* node_thaw() plans it again */
    }
    if (s->now_us < c->hung_until_us) {
        plan_turn(s, n, 0);
        return;
    }
    if (!c->channel && !s->broker.up) {
        c->pause_ms = 2 * c->pause_ms < 10000 ? 2 * c->pause_ms + 100 : 10000;
        plan_turn(s, n, random_between(&s->random, c->pause_ms / 2, c->pause_ms) * 1000);
        return;
    }
    if (!c->channel) {
        c->pause_ms = 0;
        begin_epoch(s, n);
    }
    send_ack(s, n);
    apply_prefetch(s, n);
}

void consumer_start(struct sim *s, struct node *n)
{
    n->consumer = (struct consumer){0};
    plan_turn(s, n, sim_hop(s));
}

void consumer_stop(struct sim *s, struct node *n)
{
    if (n->consumer.channel) {
        send_ack(s, n);
        n->consumer.channel = 0;
        channel_close(s, n->index);
    }
}

void consumer_lost(struct sim *s, struct node *n)
{
    if (n->up && n->consumer.channel) {
        n->consumer.channel = 0;
        node_mail(s, n, &(struct event){.type = EVENT_BROKER});
        plan_turn(s, n, 100000 + sim_hop(s));
    }
}

void consumer_closed(struct sim *s, struct node *n)
{
    if (n->up && n->consumer.channel) {
        channel_close(s, n->index);
        begin_epoch(s, n);
        plan_turn(s, n, random_between(&s->random, 1000, 400000));
    }
}

/* All that has arrived goes to the main loop as one event. */
void consumer_arrival(struct sim *s, int node, int64_t channel)
{
    struct node *n = &s->nodes[node];
    struct channel *c = &s->broker.channels[node];
    int64_t ids[UNACKED_MAX];
    size_t count = 0;
    if (!n->up || n->consumer.channel != channel) {
        return;
    }
    if (n->frozen || s->now_us < n->consumer.hung_until_us) {
        int64_t later_us = n->consumer.hung_until_us - s->now_us;
        sim_after(s, later_us > 1000 ? later_us : 100000, consumer_arrival, node, channel);
        return;
    }
    struct event e = {.type = EVENT_WAKEUPS, .epoch = n->consumer.epoch, .ids = ids};
    for (int i = 0; i < c->n_unacked; i++) {
        if (!c->unacked[i].arrived && c->unacked[i].at_us <= s->now_us) {
            c->unacked[i].arrived = true;
            ids[count++] = c->unacked[i].id;
            e.last_tag = c->unacked[i].tag;
        }
    }
    e.n = count;
    if (count > 0) {
        node_mail(s, n, &e);
    }
}
