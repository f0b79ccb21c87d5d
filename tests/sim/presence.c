#include "tests/sim/presence.h"

#include "tests/sim/sim.h"

enum { IDLE_LIMIT_US = 30000000, ANSWER_LIMIT_US = 20000000, PING_US = 5000000 };

static void come_back(struct sim *s, int node, int64_t incarnation);

static bool is_gone(struct sim *s, int node, int64_t incarnation)
{
    return !s->nodes[node].up || s->nodes[node].incarnation != incarnation;
}

/* The server ends a session that asked nothing for so long. */
static void idle_check(struct sim *s, int node, int64_t session)
{
    struct presence *p = &s->nodes[node].presence;
    if (!session_is_open(s, session)) {
        return;
    }
    int64_t asked_us = p->session == session ? p->pinged_us : 0;
    if (s->now_us - asked_us >= IDLE_LIMIT_US) {
        TRACE(s, "server: presence of worker %d was idle", node);
        session_end(s, session);
    } else {
        sim_at(s, asked_us + IDLE_LIMIT_US, idle_check, node, session);
    }
}

static void come_back_after(struct sim *s, struct node *n, int64_t us)
{
    sim_after(s, us, come_back, n->index, n->incarnation);
}

static void pause_and_come_back(struct sim *s, struct node *n)
{
    struct presence *p = &n->presence;
    p->pause_ms = p->pause_ms == 0 ? 100 : 2 * p->pause_ms < 5000 ? 2 * p->pause_ms : 5000;
    come_back_after(s, n, (p->pause_ms / 2 + random_below(&s->random, p->pause_ms)) * 1000);
}

static void present_again(struct sim *s, struct node *n, bool renewed)
{
    struct presence *p = &n->presence;
    p->held = true;
    p->busy = p->drained = false;
    p->pause_ms = 0;
    p->pinged_us = s->now_us;
    node_mail_presence(s, n, true, renewed);
}

static void establish(struct sim *s, struct node *n)
{
    struct presence *p = &n->presence;
    struct worker_row *w = &s->server.workers[p->worker];
    if (p->worker && w->changer) { /* the row is locked: presence_renew.sql gives up */
        pause_and_come_back(s, n);
        return;
    }
    bool renewed = !p->worker || !(w->now == WORKER_ALIVE || w->now == WORKER_DRAINING);
    bool first = !p->worker;
    if (renewed) {
        p->worker = worker_register(s, n->index);
    }
    s->server.workers[p->worker].lock = p->session;
    s->server.workers[p->worker].locked_us = s->now_us;
    present_again(s, n, renewed && !first);
}

static void come_back(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    struct presence *p = &n->presence;
    if (is_gone(s, node, incarnation)) {
        return;
    }
    if (n->frozen) {
        come_back_after(s, n, 100000);
        return;
    }
    if (!s->server.up || s->now_us < n->cut_until_us) {
        pause_and_come_back(s, n);
        return;
    }
    if (!session_is_open(s, p->session)) {
        p->session = session_open(s);
        p->pinged_us = s->now_us;
        sim_after(s, IDLE_LIMIT_US, idle_check, node, p->session);
    }
    establish(s, n);
}

void presence_start(struct sim *s, struct node *n)
{
    n->presence = (struct presence){.busy = true};
    come_back_after(s, n, sim_hop(s));
}

static void ping_failed(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    if (is_gone(s, node, incarnation)) {
        return;
    }
    TRACE(s, "worker %d: presence is lost", node);
    n->presence.held = false;
    if (s->now_us >= n->cut_until_us) {
        session_end(s, n->presence.session);
    } /* else the server ends it when it was idle for long enough */
    n->presence.session = 0;
    node_mail_presence(s, n, false, false);
    pause_and_come_back(s, n);
}

static void ping_arrived(struct sim *s, int node, int64_t incarnation)
{
    struct node *n = &s->nodes[node];
    struct presence *p = &n->presence;
    if (is_gone(s, node, incarnation)) {
        return;
    }
    if (s->now_us < n->cut_until_us) {
        int64_t told_us = s->now_us + ANSWER_LIMIT_US;
        /* retransmitted when the network is there again */
        bool late = n->cut_until_us < told_us;
        sim_at(s, late ? n->cut_until_us : told_us, late ? ping_arrived : ping_failed, node,
               incarnation);
        return;
    }
    struct worker_row *w = &s->server.workers[p->worker];
    if (!session_is_open(s, p->session) || (w->now != WORKER_ALIVE && w->now != WORKER_DRAINING)) {
        ping_failed(s, node, incarnation);
        return;
    }
    if (p->drain && !p->drained && w->changer == 0) {
        w->now = WORKER_DRAINING;
        p->drained = true;
    }
    p->pinged_us = s->now_us;
    p->busy = false;
}

/* Word is left; the thread sees it when it is not busy. */
void presence_ping(struct sim *s, struct node *n)
{
    struct presence *p = &n->presence;
    if (p->held && !p->busy) {
        p->busy = true;
        int64_t stall_us = s->server.stalled_until_us - s->now_us;
        sim_after(s, sim_hop(s) + (stall_us > 0 ? stall_us : 0), ping_arrived, n->index,
                  n->incarnation);
    }
}

void presence_stop(struct sim *s, struct node *n)
{
    struct presence *p = &n->presence;
    if (p->held && session_is_open(s, p->session) && s->now_us >= n->cut_until_us) {
        struct worker_row *w = &s->server.workers[p->worker];
        if (w->changer == 0 && (w->now == WORKER_ALIVE || w->now == WORKER_DRAINING)) {
            w->now = WORKER_LEFT;
        }
    }
    session_end(s, p->session);
}

void presence_abandon(struct sim *s, struct node *n, bool unplugged)
{
    if (!unplugged) {
        session_end(s, n->presence.session);
    } /* else the server ends it when it was idle long enough */
}
