#include "tests/sim/apps.h"

#include "tests/sim/sim.h"

static void app_ends(struct sim *s, int app, int64_t session)
{
    struct app *a = &s->apps.list[app];
    s->apps.n_left--;
    if (!session_is_open(s, session)) {
        return; /* the server restarted: rolled back */
    }
    if (!a->commits) {
        TRACE(s, "application %d: rolls back", app);
        session_end(s, session);
        return;
    }
    TRACE(s, "application %d: commits", app);
    session_commit(s, session);
    session_end(s, session);
    for (int i = 0; i < a->n_rows; i++) {
        const struct row *r = row_find(s, a->rows[i]);
        check_fresh_later(s, r);
        if (r->now.announced && !random_chance(&s->random, s->plan.rate_forget)) {
            broker_publish(s, r->now.queue, r->id);
        }
    }
}

static void end_later(struct sim *s, int app)
{
    struct app *a = &s->apps.list[app];
    bool late = random_chance(&s->random, s->plan.rate_late);
    int64_t us = late ? random_log(&s->random, 1000, 8000000)
                      : random_log(&s->random, 50, s->plan.hold_us);
    sim_after(s, us, app_ends, app, a->session);
}

/* tenon.publisher_sleeps() */
static void publisher_sleeps(struct sim *s, struct session *x)
{
    if (s->server.sleeper) {
        x->notify = true;
    } else {
        x->shared = true;
    }
}

static void enqueue(struct sim *s, int app)
{
    struct app *a = &s->apps.list[app];
    for (int i = 0; i < a->n_rows; i++) {
        const struct row *r = task_enqueue(s, a->session);
        if (!r) {
            a->n_rows = i;
            break;
        }
        a->rows[i] = r->id;
        TRACE(s, "application %d: enqueues %lld%s%s", app, (long long)r->id,
              r->next.announced ? ", announced" : "", r->next.delayed ? ", delayed" : "");
        if (!r->next.announced) {
            publisher_sleeps(s, session_find(s, a->session));
        } else if (r->next.announced && random_chance(&s->random, s->plan.rate_early)) {
            broker_publish(s, r->next.queue, r->id); /* its message overtakes its commit */
        }
    }
    end_later(s, app);
}

static void app_locks(struct sim *s, int app, int64_t session)
{
    struct app *a = &s->apps.list[app];
    if (!session_is_open(s, session)) {
        s->apps.n_left--;
        return;
    }
    enum answer answer = a->act == APP_CANCEL ? task_cancel(s, session, a->id)
                                              : task_lock(s, session, a->id);
    if (answer == ANSWER_BLOCKED) {
        server_wait(s, app_locks, app, session);
        return;
    }
    TRACE(s, "application %d: %s %lld: %s", app, a->act == APP_CANCEL ? "cancels" : "locks",
          (long long)a->id, answer == ANSWER_YES ? "yes" : "no such task");
    end_later(s, app);
}

static void app_begins(struct sim *s, int app, int64_t arg)
{
    struct app *a = &s->apps.list[app];
    if (!s->server.up) {
        sim_after(s, 500000, app_begins, app, arg);
        return;
    }
    a->session = session_open(s);
    if (a->act == APP_ENQUEUE) {
        enqueue(s, app);
    } else {
        a->id = 1 + random_below(&s->random, s->server.n_rows);
        app_locks(s, app, a->session);
    }
}

static void rubbish(struct sim *s, int queue, int64_t arg)
{
    (void)arg;
    int64_t id = random_chance(&s->random, 2000)
                     ? (int64_t)(random_next(&s->random) >> 1) + 1
                     : 1 + random_below(&s->random, s->server.n_rows + 20);
    broker_publish(s, queue, id);
}

static void plan_app(struct sim *s, enum app_act act, int n_rows)
{
    struct apps *a = &s->apps;
    if (a->n == APPS_MAX) {
        return;
    }
    a->list[a->n] = (struct app){.act = act, .n_rows = n_rows};
    a->list[a->n].commits = !random_chance(&s->random, s->plan.rate_rollback);
    sim_after(s, random_below(&s->random, s->plan.active_us), app_begins, a->n++, 0);
    a->n_left++;
}

void apps_plan(struct sim *s)
{
    struct random *x = &s->random;
    for (int left = s->plan.n_tasks; left > 0;) {
        int n = (int)random_between(x, 1, left < APP_ROWS_MAX ? left : APP_ROWS_MAX);
        n = random_chance(x, 7000) ? 1 : n;
        plan_app(s, APP_ENQUEUE, n);
        left -= n;
    }
    for (int i = 0; i < s->plan.n_tasks; i++) {
        if (random_chance(x, s->plan.rate_cancel)) {
            plan_app(s, APP_CANCEL, 0);
        }
        if (random_chance(x, s->plan.rate_lock)) {
            plan_app(s, APP_LOCK, 0);
        }
        if (random_chance(x, s->plan.rate_hostile)) {
            sim_after(s, random_below(x, s->plan.active_us), rubbish, i % 2, 0);
        }
    }
}
