#include "tests/sim/server.h"

#include "tests/sim/sim.h"

#include <string.h>

void server_start(struct sim *s)
{
    s->server.up = true;
    s->server.up_since_us = s->now_us;
}

int64_t server_now(const struct sim *s)
{
    return s->now_us + s->server.clock_us;
}

/* --- sessions --- */

struct session *session_find(struct sim *s, int64_t id)
{
    struct session *x = &s->server.sessions[id % SESSIONS_MAX];
    return id > 0 && x->id == id ? x : NULL;
}

bool session_is_open(const struct sim *s, int64_t id)
{
    return id > 0 && s->server.sessions[id % SESSIONS_MAX].id == id;
}

int64_t session_open(struct sim *s)
{
    int64_t id = s->server.last_session;
    do {
        id++;
    } while (s->server.sessions[id % SESSIONS_MAX].id != 0);
    s->server.last_session = id;
    s->server.sessions[id % SESSIONS_MAX] = (struct session){.id = id};
    return id;
}

static void wake_waiters(struct sim *s)
{
    struct server *v = &s->server;
    for (int i = 0; i < v->n_waiters; i++) {
        sim_after(s, random_below(&s->random, 200), v->waiters[i].act, v->waiters[i].who,
                  v->waiters[i].arg);
    }
    v->n_waiters = 0;
}

void server_wait(struct sim *s, moment_act *act, int who, int64_t arg)
{
    struct server *v = &s->server;
    for (int i = 0; i < v->n_waiters; i++) {
        if (v->waiters[i].act == act && v->waiters[i].who == who && v->waiters[i].arg == arg) {
            return;
        }
    }
    if (v->n_waiters < WAITERS_MAX) {
        v->waiters[v->n_waiters++] = (struct waiter){.act = act, .who = who, .arg = arg};
    }
}

static void commit_row(struct sim *s, struct row *r)
{
    if (r->changed) {
        check_commit(s, r);
        r->now = r->next;
        r->changed_us = s->now_us;
        r->committed_us = r->committed_us ? r->committed_us : s->now_us;
        r->changed = false;
    }
    r->locker = 0;
}

static void transaction_ended(struct sim *s, struct session *x)
{
    x->shared = x->notify = false;
    wake_waiters(s);
}

void session_commit(struct sim *s, int64_t id)
{
    struct session *x = session_find(s, id);
    bool notify = x->notify;
    for (int i = 0; i < s->server.n_rows; i++) {
        if (s->server.rows[i].locker == id) {
            commit_row(s, &s->server.rows[i]);
        }
    }
    for (int i = 1; i <= s->server.n_workers; i++) {
        struct worker_row *w = &s->server.workers[i];
        if (w->changer == id) {
            w->now = w->next;
            w->changer = 0;
        }
    }
    transaction_ended(s, x);
    if (notify) {
        cleaner_notify(s);
    }
}

void session_rollback(struct sim *s, int64_t id)
{
    struct session *x = session_find(s, id);
    for (int i = 0; i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        if (r->locker == id) {
            r->locker = 0;
            r->changed = false;
        }
    }
    for (int i = 1; i <= s->server.n_workers; i++) {
        if (s->server.workers[i].changer == id) {
            s->server.workers[i].changer = 0;
        }
    }
    transaction_ended(s, x);
}

void session_end(struct sim *s, int64_t id)
{
    if (!session_is_open(s, id)) {
        return;
    }
    session_rollback(s, id);
    for (int i = 1; i <= s->server.n_workers; i++) {
        if (s->server.workers[i].lock == id) {
            s->server.workers[i].lock = 0;
            s->server.workers[i].unlocked_us = s->now_us;
        }
    }
    s->server.leader = s->server.leader == id ? 0 : s->server.leader;
    s->server.sleeper = s->server.sleeper == id ? 0 : s->server.sleeper;
    session_find(s, id)->id = 0;
}

/* --- the server itself --- */

static void server_up(struct sim *s, int who, int64_t arg)
{
    (void)who;
    (void)arg;
    TRACE(s, "server: up");
    s->server.up = true;
    s->server.up_since_us = s->now_us;
}

void server_restart(struct sim *s, int64_t down_us)
{
    TRACE(s, "server: down for %lld ms", (long long)(down_us / 1000));
    s->server.up = false;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        session_end(s, s->server.sessions[i].id);
    }
    for (int i = 0; i < s->plan.n_nodes; i++) {
        round_cut(s, &s->nodes[i], sim_hop(s));
        node_faulted(s, &s->nodes[i], down_us);
    }
    if (random_chance(&s->random, 3000)) { /* a failover: another machine's clock */
        s->server.clock_us += random_between(&s->random, -2000000, 2000000);
    }
    sim_after(s, down_us, server_up, 0, 0);
}

/* --- rows --- */

struct row *row_find(struct sim *s, int64_t id)
{
    return id >= 1 && id <= s->server.n_rows ? &s->server.rows[id - 1] : NULL;
}

const struct version *row_see(const struct row *r, int64_t session)
{
    return r->changed && r->locker == session ? &r->next : &r->now;
}

bool row_is_free(const struct row *r, int64_t session)
{
    return r->locker == 0 || r->locker == session;
}

struct version *row_change(struct sim *s, struct row *r, int64_t session, enum change change)
{
    (void)s;
    r->next = *row_see(r, session);
    r->locker = session;
    r->changed = true;
    r->change = change;
    r->by_cleaner = false;
    return &r->next;
}

bool row_is_ready(const struct sim *s, const struct row *r)
{
    return r->now.state == ROW_TASK && r->now.start_us == 0 && r->now.run_at <= server_now(s) &&
           !s->server.paused[r->now.queue];
}

/* --- snapshots --- */

/* Into an ascending list. */
static void note_running(struct snapshot *s, int64_t transaction)
{
    size_t at = s->n;
    while (at > 0 && s->running[at - 1] > transaction) {
        at--;
    }
    if ((at > 0 && s->running[at - 1] == transaction) || s->n == WATERMARK_RUNNING_MAX) {
        return;
    }
    memmove(&s->running[at + 1], &s->running[at], (s->n - at) * sizeof *s->running);
    s->running[at] = transaction;
    s->n++;
}

/* A session is its transaction here: those that have inserted and are open are in progress. */
void server_snapshot(const struct sim *s, struct snapshot *ret)
{
    ret->n = 0;
    ret->xmax = ret->next = s->server.last_session + 1;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        if (r->changed && r->change == CHANGE_INSERT) {
            note_running(ret, r->locker);
        }
    }
}
