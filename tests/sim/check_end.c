/* What must hold when the faults are over: all ends, and nothing is left. */
#include "tests/sim/sim.h"

static const struct row *unended_row(struct sim *s)
{
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        if (r->now.state == ROW_TASK || r->locker) {
            return r;
        }
    }
    return NULL;
}

static const struct node *busy_node(struct sim *s)
{
    for (int i = 0; i < s->plan.n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        if (!n->up || n->frozen || n->n_inbox > 0 || n->decider->n_held > 0 || n->stopping) {
            return n;
        }
    }
    return NULL;
}

static int unacked(const struct sim *s)
{
    int sum = 0;
    for (int i = 0; i < s->plan.n_nodes; i++) {
        sum += s->broker.channels[i].n_unacked;
    }
    return sum;
}

bool check_is_quiet(struct sim *s)
{
    return s->healed && s->apps.n_left == 0 && s->broker.n == 0 && unacked(s) == 0 &&
           !unended_row(s) && !busy_node(s) && s->server.up;
}

void check_stuck(struct sim *s)
{
    const struct row *r = unended_row(s);
    const struct node *n = busy_node(s);
    if (r) {
        sim_broken(s, "task %lld never ended: state %d, claims %d, started %d, locked %d",
                   (long long)r->id, (int)r->now.state, r->now.claims, r->now.start_us > 0,
                   r->locker > 0);
    } else if (n) {
        sim_broken(s, "worker %d never came to rest: up %d, holds %d", n->index, n->up,
                   n->up ? n->decider->n_held : 0);
    } else {
        sim_broken(s, "messages stay: %d ready, %d unacked; %d applications", s->broker.n,
                   unacked(s), s->apps.n_left);
    }
}

bool check_all_left(struct sim *s)
{
    for (int i = 0; i < s->plan.n_nodes; i++) {
        if (s->nodes[i].up) {
            return false;
        }
    }
    return true;
}

void check_end(struct sim *s)
{
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        check_that(s, r->now.state != ROW_DONE || journal_find(s, r->id, r->now.claims),
                   "task %lld is done, and claim %d never ran", (long long)r->id, r->now.claims);
        check_that(s, r->now.state != ROW_DEAD || r->now.crashes < 3 || s->plan.faults,
                   "task %lld is dead of crashes without a fault", (long long)r->id);
    }
    check_that(s, s->plan.faults || s->journal.doubled == 0, "%lld runs doubled without a fault",
               (long long)s->journal.doubled);
}
