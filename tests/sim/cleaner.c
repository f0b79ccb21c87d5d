#include "tests/sim/cleaner.h"

#include "tests/sim/sim.h"

#include <string.h>

enum {
    ROW_BLOCKS = 100, /* so that a pass has pieces */
    GRACE_US = 60000000,
    DUE_SOON_MS = 20,
    IDLE_LIMIT_US = 30000000,
};

static const int64_t period_ms[CHORES] = {1000, 60000, 60000, 60000, 60000};

static void cleaner_turn(struct sim *s, int cleaner, int64_t turn);

/* One turn is planned at a time. */
static void plan_turn(struct sim *s, struct cleaner *c, int64_t at_us)
{
    c->turn = ++s->last_turn;
    sim_at(s, at_us, cleaner_turn, c->index, c->turn);
}

static int64_t cleaner_ms(const struct sim *s, const struct cleaner *c)
{
    return s->now_us / 1000 + c->clock_ms;
}

void cleaner_hurry(struct sim *s, struct cleaner *c, enum chore chore, int64_t wait_ms)
{
    int64_t at_ms = cleaner_ms(s, c) + wait_ms;
    c->next_ms[chore] = c->next_ms[chore] < at_ms ? c->next_ms[chore] : at_ms;
}

static void hurry(struct sim *s, struct cleaner *c, enum chore chore)
{
    cleaner_hurry(s, c, chore, 0);
}

static void publish(struct sim *s, const struct row *r)
{
    broker_publish(s, r->now.queue, r->id);
}

static void keep_row(struct cleaner *c, const struct row *r)
{
    if (c->n_rows < OFFERS_MAX) {
        c->rows[c->n_rows++] = r->id;
    }
}

/* --- the leader, and fresh rows --- */

static void try_to_lead(struct sim *s, struct cleaner *c)
{
    if (c->leader || s->server.leader) {
        return;
    }
    int64_t last = 0;
    for (int i = 0; i < s->server.n_rows; i++) {
        last = s->server.rows[i].now.state == ROW_TASK ? i + 1 : last;
    }
    s->server.leader = c->session;
    c->leader = true;
    c->leads_since_us = s->now_us;
    c->due_us = server_now(s);
    c->notified = c->reread = false;
    memset(c->seen, 0, sizeof c->seen);
    watermark_start(&c->watermark, last ? last : s->server.n_rows);
    pace_start(&c->pace, cleaner_ms(s, c));
    judge_forget(c->judge);
    pass_want(&c->pass);
    hurry(s, c, CHORE_RECOVER);
    TRACE(s, "cleaner %d: leads from id %lld on", c->index, (long long)c->watermark.id);
}

static bool someone_enqueues(const struct sim *s)
{
    for (int i = 0; i < SESSIONS_MAX; i++) {
        if (s->server.sessions[i].id && s->server.sessions[i].shared) {
            return true;
        }
    }
    return false;
}

/* fresh_lock.sql, fresh_unlock.sql */
static bool sleeper_lock(struct sim *s, struct cleaner *c)
{
    if (c->act == PACE_UNLOCK && s->server.sleeper == c->session) {
        s->server.sleeper = 0;
    }
    if (c->act != PACE_LOCK || s->server.sleeper || someone_enqueues(s)) {
        return false;
    }
    s->server.sleeper = c->session;
    return true;
}

static void read_fresh(struct sim *s, struct cleaner *c)
{
    int64_t gaps[WATERMARK_GAPS_MAX];
    int64_t now_ms = cleaner_ms(s, c);
    c->act = pace_plan(&c->pace, c->notified, now_ms);
    c->notified = false;
    size_t n = watermark_ask(&c->watermark, now_ms, c->act != PACE_READ || c->reread, gaps);
    c->granted = sleeper_lock(s, c);
    server_snapshot(s, &c->snapshot);
    for (size_t i = 0; i < n; i++) {
        const struct row *r = row_find(s, gaps[i]);
        if (r && r->now.state == ROW_TASK) {
            keep_row(c, r);
        }
    }
    for (int64_t id = c->watermark.id + 1; id <= s->server.n_rows; id++) {
        if (s->server.rows[id - 1].now.state == ROW_TASK) {
            keep_row(c, &s->server.rows[id - 1]);
        }
    }
}

static void take_fresh(struct sim *s, struct cleaner *c)
{
    enum pace_news news = PACE_NOTHING;
    bool delayed = false;
    int64_t now_ms = cleaner_ms(s, c);
    watermark_snapshot(&c->watermark, &c->snapshot);
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct row *r = row_find(s, c->rows[i]);
        if (!watermark_see(&c->watermark, r->id, now_ms)) {
            continue;
        }
        c->seen[r->id] = true;
        news = r->now.announced && news != PACE_ROWS ? PACE_ANNOUNCED : PACE_ROWS;
        delayed = delayed || r->now.delayed;
        if (!r->now.announced && row_is_ready(s, r)) {
            publish(s, r);
        }
    }
    c->reread = !c->reread && (c->act != PACE_READ || c->pace.asleep) &&
                watermark_has_ended(&c->watermark, now_ms);
    c->next_ms[CHORE_FRESH] = pace_done(&c->pace, c->act, c->granted, news, c->reread, now_ms);
    if (delayed) {
        hurry(s, c, CHORE_DUE);
    }
}

/* --- due.sql, due_next.sql --- */

static void take_due(struct sim *s, struct cleaner *c)
{
    int64_t now = server_now(s);
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        if (row_is_ready(s, r) && r->now.delayed && r->now.run_at > c->due_us) {
            keep_row(c, r);
        }
    }
    c->due_us = now;
}

/* In how many milliseconds the first delayed row after `after_us` is due, but within a period. */
static int64_t due_in_ms(struct sim *s, int64_t after_us)
{
    int64_t wait_ms = period_ms[CHORE_DUE];
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct version *v = &s->server.rows[i].now;
        if (v->state == ROW_TASK && v->delayed && v->run_at > after_us) {
            int64_t ms = (v->run_at - server_now(s)) / 1000 + 1;
            wait_ms = ms < wait_ms ? ms : wait_ms;
        }
    }
    return wait_ms;
}

static void tell_due(struct sim *s, struct cleaner *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct row *r = row_find(s, c->rows[i]);
        if (row_is_ready(s, r)) {
            publish(s, r);
        }
    }
    int64_t wait_ms = due_in_ms(s, c->due_us);
    c->next_ms[CHORE_DUE] = cleaner_ms(s, c) + (wait_ms < DUE_SOON_MS ? DUE_SOON_MS : wait_ms);
}

/* --- the dead --- */

/* Nobody has it who lives, or it is late: why it is taken; NULL = it is not. */
static const char *reason_to_take(const struct sim *s, const struct version *v)
{
    if (v->state != ROW_TASK || !v->start_us) {
        return NULL;
    }
    enum worker_state state = s->server.workers[v->worker].now;
    bool late = v->start_us + v->timeout_ms * 1000 < server_now(s) - GRACE_US;
    return state != WORKER_ALIVE && state != WORKER_DRAINING ? "crashed"
           : late                                            ? "timed_out"
                                                             : NULL;
}

/* recover.sql: a piece of the pass. */
static void recover(struct sim *s, struct cleaner *c)
{
    int64_t first = c->pass.block / ROW_BLOCKS, end = first + PASS_PIECE_BLOCKS / ROW_BLOCKS;
    for (int64_t i = first; i < s->server.n_rows && i < end; i++) {
        struct row *r = &s->server.rows[i];
        const struct version *v = row_see(r, c->session);
        const char *reason = reason_to_take(s, v);
        struct fence f = {r->id, v->key};
        if (reason && task_requeue(s, c->session, f, reason, -1) != REQUEUE_MISSED) {
            TRACE(s, "cleaner %d: recovers task %lld, %s", c->index, (long long)r->id, reason);
            r->by_cleaner = true;
            keep_row(c, r);
        }
    }
}

static void go_on_recovering(struct sim *s, struct cleaner *c)
{
    if (c->n_rows > 0) {
        hurry(s, c, CHORE_DUE);
    }
    pass_read(&c->pass, s->server.n_rows * (int64_t)ROW_BLOCKS);
    if (c->pass.goes_on) {
        hurry(s, c, CHORE_RECOVER);
    }
}

static void declare_dead(struct sim *s, struct cleaner *c, int worker)
{
    if (worker_declare_dead(s, c->session, worker)) {
        TRACE(s, "cleaner %d: worker row %d is dead", c->index, worker);
        check_declare_dead(s, c, worker);
        node_faulted(s, &s->nodes[s->server.workers[worker].node], 0);
        c->declared = true;
    }
}

/* workers.sql, and workers_declare_dead.sql for all that are. */
static void check_workers(struct sim *s, struct cleaner *c)
{
    int dead[WORKERS_MAX];
    int64_t now_ms = cleaner_ms(s, c);
    for (int i = 1; i <= s->server.n_workers; i++) {
        enum worker_state state = s->server.workers[i].now;
        if ((state == WORKER_ALIVE || state == WORKER_DRAINING) && worker_lock_is_free(s, i)) {
            judge_lock_is_free(c->judge, i, now_ms);
        }
    }
    for (int n = judge_end(c->judge, now_ms, dead); n > 0; n--) {
        declare_dead(s, c, dead[n - 1]);
    }
}

/* --- watch.sql --- */

static bool has_suspect(const struct sim *s)
{
    for (int i = 1; i <= s->server.n_workers; i++) {
        enum worker_state state = s->server.workers[i].now;
        if ((state == WORKER_ALIVE || state == WORKER_DRAINING) && worker_lock_is_free(s, i)) {
            return true;
        }
    }
    return false;
}

static bool has_fresh(const struct sim *s, const struct cleaner *c)
{
    for (int64_t id = c->watermark.id + 1; id <= s->server.n_rows; id++) {
        if (s->server.rows[id - 1].now.state == ROW_TASK) {
            return true;
        }
    }
    return false;
}

/* Who has something to do. */
static void watch(struct sim *s, struct cleaner *c)
{
    if (has_suspect(s)) {
        hurry(s, c, CHORE_WORKERS);
    }
    if (c->leader && (has_fresh(s, c) || c->watermark.n > 0)) {
        hurry(s, c, CHORE_FRESH);
    }
    if (c->leader) {
        cleaner_hurry(s, c, CHORE_DUE, due_in_ms(s, c->due_us));
    }
}

/* --- turns --- */

static void begin_chore(struct sim *s, struct cleaner *c, enum chore chore)
{
    c->chore = chore;
    c->n_rows = 0;
    c->declared = false;
    c->asked_us = s->now_us;
    switch (chore) {
    case CHORE_WATCH:
        watch(s, c);
        try_to_lead(s, c);
        break;
    case CHORE_FRESH:
        read_fresh(s, c);
        break;
    case CHORE_DUE:
        take_due(s, c);
        break;
    case CHORE_WORKERS:
        check_workers(s, c);
        break;
    case CHORE_RECOVER:
        if (!c->pass.goes_on) {
            pass_want(&c->pass);
        }
        recover(s, c);
        break;
    case CHORES:
        break;
    }
}

static void end_chore(struct sim *s, struct cleaner *c)
{
    c->next_ms[c->chore] = cleaner_ms(s, c) + period_ms[c->chore];
    switch (c->chore) {
    case CHORE_FRESH:
        take_fresh(s, c);
        break;
    case CHORE_DUE:
        tell_due(s, c);
        break;
    case CHORE_WORKERS:
        if (c->declared) {
            pass_want(&c->pass);
            hurry(s, c, CHORE_RECOVER);
        }
        int64_t next_ms = judge_next_ms(c->judge, cleaner_ms(s, c));
        c->next_ms[CHORE_WORKERS] = next_ms < c->next_ms[CHORE_WORKERS] ? next_ms
                                                                        : c->next_ms[CHORE_WORKERS];
        break;
    case CHORE_RECOVER:
        go_on_recovering(s, c);
        break;
    case CHORE_WATCH:
    case CHORES:
        break;
    }
}

static bool is_void(const struct sim *s, int cleaner, int64_t life)
{
    return !s->cleaners[cleaner].up || s->cleaners[cleaner].life != life;
}

static void connect_again(struct sim *s, struct cleaner *c, int64_t after_us)
{
    c->life++;
    c->leader = false;
    c->session = 0;
    c->busy = false;
    plan_turn(s, c, s->now_us + after_us);
}

static void chore_answered(struct sim *s, int cleaner, int64_t life)
{
    struct cleaner *c = &s->cleaners[cleaner];
    if (is_void(s, cleaner, life)) {
        return;
    }
    if (c->frozen) {
        sim_after(s, 50000, chore_answered, cleaner, life);
        return;
    }
    c->busy = false;
    end_chore(s, c);
    if (c->notified) { /* it came meanwhile */
        hurry(s, c, CHORE_FRESH);
    }
    plan_turn(s, c, s->now_us);
}

static void chore_commits(struct sim *s, int cleaner, int64_t life)
{
    struct cleaner *c = &s->cleaners[cleaner];
    if (c->life == life && session_is_open(s, c->session)) {
        session_commit(s, c->session);
        sim_after(s, sim_hop(s), chore_answered, cleaner, life);
    } else if (!is_void(s, cleaner, life)) {
        connect_again(s, c, random_log(&s->random, 100, 3000) * 1000);
    }
}

static void connect_now(struct sim *s, struct cleaner *c)
{
    if (!s->server.up) {
        connect_again(s, c, random_log(&s->random, 100, 3000) * 1000);
        return;
    }
    c->session = session_open(s);
    judge_start(c->judge, cleaner_ms(s, c));
    for (int i = 0; i < CHORES; i++) {
        c->next_ms[i] = cleaner_ms(s, c);
    }
}

static int due_chore(const struct sim *s, const struct cleaner *c, int64_t *ret_next_ms)
{
    *ret_next_ms = INT64_MAX;
    for (int i = 0; i < CHORES; i++) {
        if (i != CHORE_WATCH && !c->leader) {
            continue;
        }
        if (c->next_ms[i] <= cleaner_ms(s, c)) {
            return i;
        }
        *ret_next_ms = c->next_ms[i] < *ret_next_ms ? c->next_ms[i] : *ret_next_ms;
    }
    return -1;
}

/* ret: there is a session */
static bool has_session(struct sim *s, struct cleaner *c)
{
    if (c->session && !session_is_open(s, c->session)) {
        connect_again(s, c, random_log(&s->random, 100, 3000) * 1000);
        return false;
    }
    if (!c->session) {
        connect_now(s, c);
    }
    return c->session != 0;
}

static void cleaner_turn(struct sim *s, int cleaner, int64_t turn)
{
    struct cleaner *c = &s->cleaners[cleaner];
    int64_t next_ms;
    if (!c->up || c->turn != turn || c->busy) {
        return;
    }
    if (c->frozen) {
        plan_turn(s, c, s->now_us + 50000);
        return;
    }
    if (!has_session(s, c)) {
        return;
    }
    int chore = due_chore(s, c, &next_ms);
    if (chore < 0) {
        plan_turn(s, c, (next_ms - c->clock_ms) * 1000);
        return;
    }
    int64_t stall_us = s->server.stalled_until_us - s->now_us;
    c->busy = true;
    begin_chore(s, c, (enum chore)chore);
    sim_after(s, random_below(&s->random, 500) + (stall_us > 0 ? stall_us : 0), chore_commits,
              cleaner, c->life);
}

void cleaner_notify(struct sim *s)
{
    for (int i = 0; i < s->plan.n_cleaners; i++) {
        struct cleaner *c = &s->cleaners[i];
        if (c->up && c->leader) {
            c->notified = true;
            hurry(s, c, CHORE_FRESH);
            if (!c->busy) {
                plan_turn(s, c, s->now_us + sim_hop(s));
            }
        }
    }
}

/* --- its life --- */

void cleaner_start(struct sim *s, struct cleaner *c)
{
    int64_t life = c->life;
    struct judge *judge = c->judge ? c->judge : judge_new();
    memset(c, 0, offsetof(struct cleaner, watermark));
    c->judge = judge;
    c->index = (int)(c - s->cleaners);
    c->up = true;
    c->clock_ms = random_below(&s->random, 1000000);
    c->life = life;
    connect_again(s, c, random_below(&s->random, 10000));
}

static void start_again(struct sim *s, int cleaner, int64_t arg)
{
    (void)arg;
    if (!s->cleaners[cleaner].up) {
        cleaner_start(s, &s->cleaners[cleaner]);
    }
}

void cleaner_kill(struct sim *s, struct cleaner *c, int64_t down_us)
{
    if (c->up) {
        TRACE(s, "cleaner %d: killed", c->index);
        c->up = false;
        session_end(s, c->session);
        sim_after(s, down_us, start_again, c->index, 0);
    }
}

void cleaner_cut(struct sim *s, struct cleaner *c)
{
    TRACE(s, "cleaner %d: its session breaks", c->index);
    session_end(s, c->session);
    if (c->up && !c->busy) {
        plan_turn(s, c, s->now_us + sim_hop(s));
    }
}

static void thaw(struct sim *s, int cleaner, int64_t life)
{
    (void)life;
    s->cleaners[cleaner].frozen = false;
    s->cleaners[cleaner].leads_since_us = s->now_us;
}

/* The server ends a session that is idle for too long. */
static void idle_check(struct sim *s, int cleaner, int64_t session)
{
    struct cleaner *c = &s->cleaners[cleaner];
    if (c->frozen && c->session == session && s->now_us - c->asked_us >= IDLE_LIMIT_US) {
        session_end(s, session);
    }
}

void cleaner_freeze(struct sim *s, struct cleaner *c, int64_t us)
{
    if (c->up && !c->frozen) {
        TRACE(s, "cleaner %d: frozen for %lld ms", c->index, (long long)(us / 1000));
        c->frozen = true;
        sim_after(s, us, thaw, c->index, c->life);
        sim_after(s, IDLE_LIMIT_US + 1, idle_check, c->index, c->session);
    }
}
