#include "tests/sim/node.h"

#include "tests/sim/sim.h"
#include "worker/decide/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PING_US = 5000000, RESTART_AFTER_US = 3000000 };

static void node_turn(struct sim *s, int node, int64_t incarnation);

int64_t node_ms(const struct sim *s, const struct node *n)
{
    return s->now_us / 1000 + n->clock_ms;
}

static bool is_gone(struct sim *s, int node, int64_t incarnation)
{
    return !s->nodes[node].up || s->nodes[node].incarnation != incarnation;
}

void node_faulted(struct sim *s, struct node *n, int64_t us)
{
    if (n->calm_since_us < s->now_us + us) {
        n->calm_since_us = s->now_us + us;
    }
}

void node_child_faulted(struct sim *s, struct node *n)
{
    n->child_fault_us = s->now_us;
}

bool node_is_well(const struct sim *s, const struct node *n, int64_t us)
{
    return n->up && !n->frozen && !n->stopping && s->server.up && n->decider->present &&
           s->now_us - n->calm_since_us >= us && s->now_us - s->calm_since_us >= us;
}

/* --- mail --- */

static void plan_turn(struct sim *s, struct node *n)
{
    if (!n->planned && !n->frozen) {
        n->planned = true;
        sim_after(s, random_below(&s->random, s->plan.turn_us), node_turn, n->index,
                  n->incarnation);
    }
}

static void mail(struct sim *s, struct node *n, const struct event *e, int worker)
{
    if (n->n_inbox == INBOX_MAX) {
        abort();
    }
    struct mail_item *m = &n->inbox[n->n_inbox++];
    *m = (struct mail_item){.event = *e, .worker = worker};
    if (e->ids) {
        int64_t *ids = malloc(e->n * sizeof *ids);
        if (!ids) {
            abort();
        }
        memcpy(ids, e->ids, e->n * sizeof *ids);
        m->event.ids = ids;
    }
    plan_turn(s, n);
}

void node_mail(struct sim *s, struct node *n, const struct event *e)
{
    mail(s, n, e, 0);
}

void node_mail_presence(struct sim *s, struct node *n, bool up, bool renewed)
{
    TRACE(s, "worker %d: presence %s%s", n->index, up ? "held" : "lost",
          renewed ? ", renewed" : "");
    if (!up || renewed) {
        node_faulted(s, n, 0);
    }
    mail(s, n,
         &(struct event){.type = EVENT_PRESENCE,
                         .up = up,
                         .renewed = renewed,
                         .since_ms = n->presence.pinged_us / 1000 + n->clock_ms},
         n->presence.worker);
}

void node_round_done(struct sim *s, struct node *n, const struct request *r)
{
    check_answer(s, n, r);
    node_mail(s, n, &(struct event){.type = EVENT_ROUND_DONE});
}

static const char *event_word(enum event_type type)
{
    static const char *const words[] = {[EVENT_WAKEUPS] = "wakeups",
                                        [EVENT_BROKER] = "broker",
                                        [EVENT_PRESENCE] = "presence",
                                        [EVENT_ROUND_DONE] = "round_done",
                                        [EVENT_ROUND_FAILED] = "round failed",
                                        [EVENT_CHILD_READY] = "child ready",
                                        [EVENT_REPLY] = "reply",
                                        [EVENT_PROGRESS] = "progress",
                                        [EVENT_STEP] = "step",
                                        [EVENT_LOG] = "log",
                                        [EVENT_PRINTED] = "printed",
                                        [EVENT_CHILD_PIPE_CLOSED] = "child's pipe closed",
                                        [EVENT_CHILD_RETIRES] = "child says bye",
                                        [EVENT_CHILD_GONE] = "child gone",
                                        [EVENT_DRAIN] = "drain",
                                        [EVENT_STOP] = "stop"};
    size_t n = sizeof words / sizeof *words;
    return (size_t)type < n && words[type] ? words[type] : "of another kind";
}

static void trace_event(struct sim *s, const struct node *n, const struct event *e)
{
    if (e->type == EVENT_WAKEUPS) {
        TRACE(s, "worker %d: %zu wakeups, first %lld, last tag %llu", n->index, e->n,
              (long long)e->ids[0], (unsigned long long)e->last_tag);
    } else {
        TRACE(s, "worker %d: event %s up %d renewed %d slot %d id %lld", n->index,
              event_word(e->type), e->up, e->renewed, e->slot, (long long)e->id);
    }
}

void node_hear(struct sim *s, struct node *n, const struct event *e)
{
    decider_event(n->decider, e, node_ms(s, n));
}

static void take_mail(struct sim *s, struct node *n)
{
    for (int i = 0; i < n->n_inbox; i++) {
        struct mail_item *m = &n->inbox[i];
        struct event *e = &m->event;
        trace_event(s, n, e);
        if (e->type == EVENT_PRESENCE && e->up) {
            n->worker = m->worker;
        }
        if (e->type == EVENT_REPLY && !slots_find(n->decider, e->slot, e->id)) {
            free(e->reply); /* children.c tells no such reply */
            continue;
        }
        check_event(s, n, e);
        node_hear(s, n, e);
        check_taken(s, n, e);
        free((void *)(uintptr_t)e->ids);
    }
    n->n_inbox = 0;
}

/* --- actions --- */

static void exit_well(struct sim *s, struct node *n);

static void trace_round(struct sim *s, const struct node *n)
{
    const struct round *x = &n->decider->round;
    TRACE(s,
          "worker %d: round: finish %zu, steps %zu, progress %zu, back %zu, verify %zu, ids %zu, "
          "look %d%s%s",
          n->index, x->n_finish, x->n_steps, x->n_progress, x->n_requeue, x->n_verify, x->n_ids,
          x->n_poll, x->own ? ", own" : "", x->unlocked ? ", unlocked" : "");
}

static void act(struct sim *s, struct node *n, const struct action *a)
{
    struct consumer *c = &n->consumer;
    n->acts = true;
    switch (a->type) {
    case ACTION_ROUND:
        trace_round(s, n);
        check_round(s, n);
        round_begin(s, n);
        break;
    case ACTION_ACK:
        TRACE(s, "worker %d: ack up to %llu", n->index, (unsigned long long)a->tag);
        check_ack(s, n, a->epoch, a->tag);
        c->order_epoch = a->epoch;
        c->order_tag = a->tag;
        consumer_order(s, n);
        break;
    case ACTION_PREFETCH:
        TRACE(s, "worker %d: prefetch %d", n->index, a->n);
        c->order_prefetch = a->n;
        consumer_order(s, n);
        break;
    case ACTION_SPAWN:
        TRACE(s, "worker %d: spawn in slot %d", n->index, a->slot);
        child_spawn(s, n, a->slot, a->handler, a->claim);
        break;
    case ACTION_GIVE:
        child_give(s, n, a->slot, a->claim, a->n);
        break;
    case ACTION_CLOSE:
        child_close(s, n, a->slot);
        break;
    case ACTION_TELL_STOP:
        TRACE(s, "worker %d: slot %d is told to stop %lld: %s", n->index, a->slot,
              (long long)a->task, a->text);
        child_tell_stop(s, n, a->slot, a->task);
        break;
    case ACTION_TELL_STEP:
        child_tell_step(s, n, a->task, (int)strtol(a->text, NULL, 10));
        break;
    case ACTION_SIGNAL:
        child_signal(s, n, a->slot, a->n);
        break;
    case ACTION_NOTE:
        TRACE(s, "worker %d: note %d task %lld: %s", n->index, (int)a->note, (long long)a->task,
              a->text);
        if (a->note == NOTE_DRAINING) {
            n->presence.drain = true;
            presence_ping(s, n);
        }
        break;
    case ACTION_EXIT:
        exit_well(s, n);
        break;
    }
}

static int64_t decide_and_act(struct sim *s, struct node *n)
{
    struct decider *d = n->decider;
    int64_t due_ms;
    int rounds = 0;
    do {
        due_ms = decider_decide(d, node_ms(s, n));
        check_decider(s, n);
        bool any = d->actions.n > 0;
        for (int i = 0; i < n->n_handlers; i++) {
            n->starts_well[i] = d->handlers[i].starts_well;
        }
        for (size_t i = 0; n->up && i < d->actions.n; i++) { /* an action may make more */
            struct action a = d->actions.items[i];
            act(s, n, &a);
        }
        if (!n->up) {
            return INT64_MAX;
        }
        check_wakeups(s, n);
        d->actions.n = 0;
        check_that(s, ++rounds < 100, "worker %d decides for ever", n->index);
        if (!any) {
            break;
        }
    } while (!s->failed);
    return due_ms;
}

static void timer(struct sim *s, int node, int64_t due_us)
{
    struct node *n = &s->nodes[node];
    if (n->up && n->due_us == due_us) {
        plan_turn(s, n);
    }
}

static void plan_timer(struct sim *s, struct node *n, int64_t due_ms)
{
    n->due_us = 0;
    if (due_ms > node_ms(s, n) + 3600000) {
        return;
    }
    int64_t due_us = (due_ms - n->clock_ms) * 1000;
    n->due_us = due_us > s->now_us ? due_us : s->now_us + 1;
    sim_at(s, n->due_us, timer, n->index, n->due_us);
}

static void node_turn(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    if (is_gone(s, node, incarnation)) {
        return;
    }
    n->planned = false;
    if (n->frozen) {
        return;
    }
    bool idle = n->n_inbox == 0;
    check_turn(s, n);
    take_mail(s, n);
    n->acts = false;
    int64_t due_ms = decide_and_act(s, n);
    if (n->up) {
        check_idle(s, n, idle && !n->acts);
        plan_timer(s, n, due_ms);
    }
}

static void ping(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    if (is_gone(s, node, incarnation)) {
        return;
    }
    if (!n->frozen) {
        presence_ping(s, n);
    }
    sim_after(s, PING_US, ping, node, incarnation);
}

/* --- its life --- */

static void draw_handlers(struct sim *s, struct node *n, const char *kinds[HANDLERS])
{
    n->n_handlers = (int)random_between(&s->random, 1, s->plan.handlers_max);
    n->handler_kinds[0] = n->n_handlers == 1 ? 3 : 1;
    n->handler_kinds[1] = 2;
    kinds[0] = n->n_handlers == 1 ? "a,b" : "a";
    kinds[1] = "b";
    for (int i = 0; i < HANDLERS; i++) {
        n->pool[i] = random_chance(&s->random, s->plan.rate_pool);
        if (n->pool[i] && random_chance(&s->random, s->plan.rate_take)) {
            n->chunk_size[i] = (int)random_between(&s->random, 1, CHUNK_RUNS_MAX);
            n->chunk_wait_ms[i] = random_log(&s->random, 1, CHUNK_WAIT_MAX_MS);
        }
    }
}

void node_start(struct sim *s, struct node *n)
{
    const char *kinds[HANDLERS];
    int index = (int)(n - s->nodes);
    int64_t cut_until_us = n->cut_until_us;
    memset(n, 0, offsetof(struct node, inbox));
    memset(&n->n_inbox, 0, sizeof *n - offsetof(struct node, n_inbox));
    n->index = index;
    n->up = true;
    n->incarnation = ++s->last_incarnation;
    n->cut_until_us = cut_until_us;
    n->clock_ms = random_below(&s->random, 1000000);
    n->n_slots = (int)random_between(&s->random, 1, s->plan.n_slots_max);
    draw_handlers(s, n, kinds);
    n->decider = decider_new(n->n_slots, n->n_handlers, kinds, n->pool, 25000, false,
                             random_next(&s->random), node_ms(s, n));
    for (int i = 0; i < n->n_handlers; i++) {
        decider_chunks(n->decider, i, n->chunk_size[i], n->chunk_wait_ms[i]);
        n->decider->handlers[i].start_limit_ms = random_between(&s->random, START_LIMIT_MIN_MS,
                                                                10000);
    }
    n->decider->starts_max = (int)random_between(&s->random, 1, 4);
    node_faulted(s, n, 0);
    TRACE(s, "worker %d: started with %d slots", index, n->n_slots);
    presence_start(s, n);
    consumer_start(s, n);
    round_start(n);
    sim_after(s, PING_US, ping, index, n->incarnation);
    plan_turn(s, n);
}

static void start_again(struct sim *s, int node, int64_t arg)
{
    (void)arg;
    if (!s->nodes[node].up && !s->over) {
        node_start(s, &s->nodes[node]);
    }
}

/* Its memory is gone. */
static void forget(struct sim *s, struct node *n)
{
    for (int i = 0; i < n->n_inbox; i++) {
        free((void *)(uintptr_t)n->inbox[i].event.ids);
        free(n->inbox[i].event.reply);
        free(n->inbox[i].event.progress);
        free(n->inbox[i].event.step);
    }
    n->n_inbox = 0;
    n->up = false;
    decider_free(n->decider);
    n->decider = NULL;
    sim_after(s, random_log(&s->random, 1000, RESTART_AFTER_US), start_again, n->index, 0);
}

void node_kill(struct sim *s, struct node *n, bool unplugged)
{
    if (!n->up) {
        return;
    }
    TRACE(s, "worker %d: %s", n->index, unplugged ? "unplugged" : "killed");
    node_faulted(s, n, 0);
    children_abandon(s, n);
    round_abandon(s, n);
    presence_abandon(s, n, unplugged);
    channel_close(s, n->index);
    forget(s, n);
}

static void exit_well(struct sim *s, struct node *n)
{
    TRACE(s, "worker %d: exits", n->index);
    check_exit(s, n);
    consumer_stop(s, n);
    round_abandon(s, n);
    presence_stop(s, n);
    children_abandon(s, n);
    forget(s, n);
}

void node_stop(struct sim *s, struct node *n)
{
    if (n->up) {
        TRACE(s, "worker %d: SIGTERM", n->index);
        n->stopped_us = n->stopping ? n->stopped_us : s->now_us;
        n->stopping = true;
        node_faulted(s, n, 0);
        node_mail(s, n, &(struct event){.type = EVENT_STOP});
    }
}

static void thaw(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    if (!is_gone(s, node, incarnation) && n->frozen) {
        TRACE(s, "worker %d: thawed", node);
        n->frozen = n->planned = false;
        n->thawed_us = s->now_us;
        n->consumer.planned = false;
        node_faulted(s, n, 0);
        consumer_order(s, n);
        presence_ping(s, n); /* one is overdue, or the session's end has come in meanwhile */
        plan_turn(s, n);
    }
}

void node_freeze(struct sim *s, struct node *n, int64_t us)
{
    if (n->up && !n->frozen) {
        TRACE(s, "worker %d: frozen for %lld ms", n->index, (long long)(us / 1000));
        n->frozen = true;
        node_faulted(s, n, us);
        sim_after(s, us, thaw, n->index, n->incarnation);
    }
}
