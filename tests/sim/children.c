#include "tests/sim/children.h"

#include "tests/sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static void begin_runs(struct sim *s, struct node *n, struct child *c);

static struct child *child_find(struct sim *s, int node, int64_t id)
{
    for (int i = 0; i < SLOTS; i++) {
        if (s->nodes[node].children[i].id == id) {
            return &s->nodes[node].children[i];
        }
    }
    return NULL;
}

static int slot_of(const struct node *n, const struct child *c)
{
    return (int)(c - n->children);
}

static void end_run(struct sim *s, struct child *c, struct run *r, enum run_end end, bool bad)
{
    if (r->entry >= 0) {
        journal_end(s, r->entry, end, bad);
    }
    session_end(s, r->session);
    int i = (int)(r - c->runs);
    memmove(r, r + 1, (size_t)(--c->n_runs - i) * sizeof *r);
}

/* --- the end of a child --- */

static void mail_reply(struct sim *s, struct node *n, struct child *c, int64_t id,
                       enum claim_outcome outcome, bool bad)
{
    bool waits = outcome == OUTCOME_SNOOZE || outcome == OUTCOME_WAIT_SIGNAL;
    int64_t delay_ms = waits ? random_log(&s->random, 1, 4000) : -1;
    node_mail(s, n,
              &(struct event){.type = EVENT_REPLY,
                              .slot = slot_of(n, c),
                              .id = id,
                              .outcome = outcome,
                              .reply = bad ? strdup("bad") : NULL,
                              .delay_ms = delay_ms});
}

static void gone(struct sim *s, struct node *n, struct child *c, enum run_end end)
{
    if (!c->pool && c->n_runs > 0) {
        mail_reply(s, n, c, c->runs[0].fence.id, OUTCOME_FAILED, false);
    }
    while (c->n_runs > 0) {
        end_run(s, c, &c->runs[0], end, false);
    }
    node_mail(s, n,
              &(struct event){.type = EVENT_CHILD_GONE,
                              .slot = slot_of(n, c),
                              .exited_well = end == RUN_RETIRED,
                              .text = end == RUN_KILLED ? "killed" : "exited"});
    c->id = 0;
}

static void die(struct sim *s, int node, int64_t id)
{
    struct child *c = child_find(s, node, id);
    if (c) {
        gone(s, &s->nodes[node], c, RUN_KILLED);
    }
}

/* What it breaks of the protocol ends it. */
static void break_off(struct sim *s, struct node *n, struct child *c)
{
    c->dying = true;
    sim_after(s, random_below(&s->random, 3000), die, n->index, c->id);
}

void children_abandon(struct sim *s, struct node *n)
{
    for (int i = 0; i < SLOTS; i++) {
        struct child *c = &n->children[i];
        while (c->id && c->n_runs > 0) {
            struct run *r = &c->runs[0];
            if (r->session && session_is_open(s, r->session) && random_chance(&s->random, 3000)) {
                session_commit(s, r->session); /* it was on its way */
            }
            end_run(s, c, r, RUN_DIED, false);
        }
        *c = (struct child){0};
    }
}

/* --- runs --- */

static struct run *run_find(struct child *c, int64_t entry)
{
    for (int i = 0; c && i < c->n_runs; i++) {
        if (c->runs[i].entry == entry) {
            return &c->runs[i];
        }
    }
    return NULL;
}

static struct child *child_of_entry(struct sim *s, int node, int64_t entry)
{
    for (int i = 0; i < SLOTS; i++) {
        struct child *c = &s->nodes[node].children[i];
        if (c->id && run_find(c, entry)) {
            return c;
        }
    }
    return NULL;
}

/* Asked to end because of this run, a child that does not obey may still answer: too late. */
static bool is_out_of_time(const struct node *n, const struct child *c, int64_t id)
{
    const struct claim *given;
    DL_FOREACH(n->decider->slots[slot_of(n, c)].given, given)
    {
        if (given->id == id && given->out_of_time) {
            return true;
        }
    }
    return false;
}

static void retire(struct sim *s, struct node *n, struct child *c)
{
    if (random_chance(&s->random, 5000)) {
        node_mail(s, n, &(struct event){.type = EVENT_CHILD_RETIRES, .slot = slot_of(n, c)});
    }
    gone(s, n, c, RUN_RETIRED);
}

static enum run_end end_of(const struct node *n, const struct child *c, const struct run *r)
{
    return is_out_of_time(n, c, r->fence.id) ? RUN_KILLED
           : r->outcome == OUTCOME_DONE      ? RUN_DONE
                                             : RUN_FAILED;
}

static void answer(struct sim *s, struct node *n, struct child *c, struct run *r)
{
    struct run was = *r;
    bool bad = was.outcome == OUTCOME_DONE && random_chance(&s->random, s->plan.rate_bad) &&
               !s->healed;
    if (c->pipe_closed) {
        journal_end(s, r->entry, RUN_CRASHED, false); /* nobody hears what it says */
        r->mood = MOOD_HANG;
        return;
    }
    end_run(s, c, r, end_of(n, c, r), bad);
    mail_reply(s, n, c, was.fence.id, was.outcome, bad);
    if (was.mood == MOOD_TWICE && c->pool) {
        mail_reply(s, n, c, was.fence.id, was.outcome, false);
        node_child_faulted(s, n);
        break_off(s, n, c);
    }
    if (!c->pool || (c->closing && c->n_runs == 0)) {
        gone(s, n, c, RUN_CRASHED);
    } else if (was.mood == MOOD_ANSWER && random_chance(&s->random, s->plan.rate_retire)) {
        retire(s, n, c);
    } else {
        begin_runs(s, n, c);
    }
}

static void run_ends(struct sim *s, int node, int64_t entry)
{
    struct node *n = &s->nodes[node];
    struct child *c = child_of_entry(s, node, entry);
    struct run *r = run_find(c, entry);
    if (!r || c->dying) {
        return;
    }
    if (r->mood == MOOD_CRASH) {
        node_child_faulted(s, n);
        gone(s, n, c, RUN_CRASHED);
        return;
    }
    if (r->session) {
        bool ok = session_is_open(s, r->session);
        if (ok) {
            session_commit(s, r->session);
        }
        /* it may not hear of its own commit */
        r->outcome = ok && !random_chance(&s->random, s->plan.rate_cut) ? OUTCOME_DONE
                                                                        : OUTCOME_FAILED;
    }
    answer(s, n, c, r);
}

/* It closed its stdin or stdout, and can neither be given more nor answer. */
static void closes_pipes(struct sim *s, int node, int64_t id)
{
    struct node *n = &s->nodes[node];
    struct child *c = child_find(s, node, id);
    if (c && c->ready && !c->dying && !c->pipe_closed) {
        c->pipe_closed = true;
        node_child_faulted(s, n);
        node_mail(s, n, &(struct event){.type = EVENT_CHILD_PIPE_CLOSED, .slot = slot_of(n, c)});
    }
}

/* tenon.finish(), inside the handler's own transaction. */
static void run_finishes(struct sim *s, int node, int64_t entry)
{
    struct child *c = child_of_entry(s, node, entry);
    struct run *r = run_find(c, entry);
    if (!r || c->dying) {
        return;
    }
    if (!s->server.up) {
        r->outcome = OUTCOME_FAILED;
        run_ends(s, node, entry);
        return;
    }
    r->session = session_is_open(s, r->session) ? r->session : session_open(s);
    enum answer done = task_finish(s, r->session, r->fence, false);
    if (done == ANSWER_BLOCKED) {
        server_wait(s, run_finishes, node, entry);
        return;
    }
    if (done == ANSWER_NONE) { /* the claim is no longer valid */
        session_end(s, r->session);
        r->session = 0;
        r->outcome = OUTCOME_FAILED;
    }
    sim_after(s, random_log(&s->random, 100, s->plan.hold_us), run_ends, node, entry);
}

static enum mood draw_mood(struct sim *s)
{
    const struct plan *p = &s->plan;
    return s->healed                                  ? MOOD_ANSWER
           : random_chance(&s->random, p->rate_crash) ? MOOD_CRASH
           : random_chance(&s->random, p->rate_hang)  ? MOOD_HANG
           : random_chance(&s->random, p->rate_twice) ? MOOD_TWICE
                                                      : MOOD_ANSWER;
}

static enum claim_outcome draw_outcome(struct sim *s)
{
    const struct plan *p = &s->plan;
    return random_chance(&s->random, p->rate_failed)  ? OUTCOME_FAILED
           : random_chance(&s->random, p->rate_later) ? OUTCOME_SNOOZE
           : random_chance(&s->random, p->rate_later) ? OUTCOME_WAIT_SIGNAL
           : random_chance(&s->random, p->rate_dead)  ? OUTCOME_DEAD
                                                      : OUTCOME_DONE;
}

/* How far it is, and sometimes that it needs more time. */
static void run_says(struct sim *s, int node, int64_t entry)
{
    struct node *n = &s->nodes[node];
    struct child *c = child_of_entry(s, node, entry);
    struct run *r = run_find(c, entry);
    char digits[16];
    if (!r || !c->pool || c->dying || c->pipe_closed) {
        return;
    }
    (void)snprintf(digits, sizeof digits, "%d", ++r->said);
    int64_t extend_ms = random_chance(&s->random, 2000) ? random_log(&s->random, 1, 60000) : 0;
    node_mail(s, n,
              &(struct event){.type = EVENT_PROGRESS,
                              .slot = slot_of(n, c),
                              .id = r->fence.id,
                              .progress = strdup(digits),
                              .extend_ms = extend_ms});
    if (random_chance(&s->random, 7000)) {
        sim_after(s, random_log(&s->random, 100, s->plan.run_us), run_says, node, entry);
    }
}

/* The next step, or some of them at once. */
static void run_steps(struct sim *s, int node, int64_t entry)
{
    struct node *n = &s->nodes[node];
    struct child *c = child_of_entry(s, node, entry);
    struct run *r = run_find(c, entry);
    if (!r || !c->pool || c->dying || c->pipe_closed) {
        return;
    }
    do {
        struct event e = {.type = EVENT_STEP, .slot = slot_of(n, c), .id = r->fence.id};
        (void)snprintf(e.name, sizeof e.name, "%d", ++r->steps);
        e.step = strdup(e.name);
        node_mail(s, n, &e);
    } while (random_chance(&s->random, 3000));
    if (random_chance(&s->random, 5000)) {
        sim_after(s, random_log(&s->random, 100, s->plan.run_us), run_steps, node, entry);
    }
}

/* A step that its child is told of is there, whatever dies. */
void child_tell_step(struct sim *s, struct node *n, int64_t id, int number)
{
    const struct row *r = row_find(s, id);
    check_that(s, r && r->now.steps >= number,
               "worker %d says that step %d of task %lld is recorded, and it is not", n->index,
               number, (long long)id);
}

static void begin_run(struct sim *s, struct node *n, struct run *r)
{
    check_alone(s, n);
    r->entry = journal_start(s, n, r->worker, r->fence);
    r->mood = draw_mood(s);
    r->outcome = draw_outcome(s);
    int64_t us = random_log(&s->random, 100, s->plan.run_us);
    if (random_chance(&s->random, s->plan.rate_say)) {
        sim_after(s, random_below(&s->random, us), run_says, n->index, r->entry);
    }
    if (random_chance(&s->random, s->plan.rate_say)) {
        sim_after(s, random_below(&s->random, us), run_steps, n->index, r->entry);
    }
    if (r->mood == MOOD_HANG) {
        node_child_faulted(s, n);
        return;
    }
    bool own = r->mood == MOOD_ANSWER && random_chance(&s->random, s->plan.rate_own_finish);
    sim_after(s, us, own ? run_finishes : run_ends, n->index, r->entry);
}

static void begin_runs(struct sim *s, struct node *n, struct child *c)
{
    int running = 0;
    for (int i = 0; i < c->n_runs && running < c->width && !c->dying; i++, running++) {
        if (c->runs[i].entry < 0) {
            begin_run(s, n, &c->runs[i]);
        }
    }
}

static void child_works(struct sim *s, int node, int64_t id)
{
    struct child *c = child_find(s, node, id);
    if (c && !c->dying) {
        begin_runs(s, &s->nodes[node], c);
    }
}

/* --- its life --- */

static void says_hello(struct sim *s, int node, int64_t id)
{
    struct node *n = &s->nodes[node];
    struct child *c = child_find(s, node, id);
    if (!c || c->dying) {
        return;
    }
    if (random_chance(&s->random, s->plan.rate_no_hello) && !s->healed) {
        node_child_faulted(s, n);
        if (random_chance(&s->random, 5000)) {
            gone(s, n, c, RUN_CRASHED);
        }
        return;
    }
    int size = n->chunk_size[c->handler];
    int room = size > 0 ? size : (int)random_between(&s->random, 1, s->plan.room_max);
    c->ready = true;
    if (random_chance(&s->random, s->plan.rate_pipe_closed) && !s->healed) {
        sim_after(s, random_log(&s->random, 1, 5000) * 1000, closes_pipes, node, id);
    }
    c->width = (int)random_between(&s->random, 1, room);
    node_mail(s, n,
              &(struct event){.type = EVENT_CHILD_READY,
                              .slot = slot_of(n, c),
                              .room = room,
                              .hears_stop = random_chance(&s->random, s->plan.rate_hears)});
}

static void add_run(struct sim *s, struct node *n, struct child *c, const struct claim *task)
{
    int said = task->progress ? (int)strtol(task->progress, NULL, 10) : 0;
    int steps = task->steps ? (int)strtol(task->steps, NULL, 10) : 0;
    check_give(s, n, task);
    check_that(s, c->n_runs < RUNS_MAX, "a child of worker %d got more than its room", n->index);
    if (c->n_runs < RUNS_MAX) {
        c->runs[c->n_runs++] = (struct run){.fence = {task->id, task->key},
                                            .worker = n->worker,
                                            .said = said,
                                            .steps = steps,
                                            .entry = -1};
    }
    sim_after(s, random_below(&s->random, 300), child_works, n->index, c->id);
}

/* Of a handler whose first child has not said hello, one at a time; of all, as many as there are
 * processors, and of each handler one more that may hang. */
static void check_starts(struct sim *s, const struct node *n, int handler)
{
    int of_all = 0, of_this = 0;
    bool any_ready = false;
    for (int i = 0; i < n->n_slots; i++) {
        const struct child *c = &n->children[i];
        bool starts = c->id && c->pool && !c->ready && !c->dying;
        of_all += starts;
        of_this += starts && c->handler == handler;
        any_ready = any_ready || (c->id && c->ready && c->handler == handler);
    }
    check_that(s, of_all <= n->decider->starts_max + n->n_handlers,
               "worker %d starts %d children at a time", n->index, of_all);
    check_that(s, of_this <= 1 || any_ready || n->starts_well[handler],
               "worker %d starts %d children of a handler that has none", n->index, of_this);
}

void child_spawn(struct sim *s, struct node *n, int slot, int handler, const struct claim *task)
{
    struct child *c = &n->children[slot];
    check_that(s, c->id == 0, "worker %d spawns into slot %d, which has a child", n->index, slot);
    if (random_chance(&s->random, s->plan.rate_no_start) && !s->healed) {
        node_child_faulted(s, n);
        node_hear(s, n,
                  &(struct event){.type = EVENT_CHILD_GONE,
                                  .slot = slot,
                                  .failed_start = true,
                                  .text = "no such file"});
        return;
    }
    *c = (struct child){.id = ++s->last_child,
                        .pool = n->pool[handler],
                        .handler = handler,
                        .width = 1,
                        .deaf = random_chance(&s->random, s->plan.rate_deaf) && !s->healed};
    if (task) {
        add_run(s, n, c, task);
        return;
    }
    check_starts(s, n, handler);
    bool is_slow = random_chance(&s->random, s->plan.rate_slow_start) && !s->healed;
    int64_t after_us = is_slow ? random_between(&s->random, 50000, 15000000)
                               : random_log(&s->random, 500, 50000);
    sim_after(s, after_us, says_hello, n->index, c->id);
}

void child_give(struct sim *s, struct node *n, int slot, const struct claim *task, int count)
{
    struct child *c = &n->children[slot];
    if (!c->id || c->dying) {
        return; /* its end is on the way to the loop */
    }
    check_call(s, n, c, task, count);
    for (; count > 0; count--, task = task->next) {
        add_run(s, n, c, task);
    }
}

void child_close(struct sim *s, struct node *n, int slot)
{
    struct child *c = &n->children[slot];
    c->closing = true;
    if (c->id && c->n_runs == 0 && !c->dying) {
        c->dying = true;
        sim_after(s, random_log(&s->random, 100, 20000), die, n->index, c->id);
    }
}

/* Told to stop a task, or all (0), it answers what it obeys for, or nothing. */
void child_tell_stop(struct sim *s, struct node *n, int slot, int64_t id)
{
    struct child *c = &n->children[slot];
    for (int i = c->n_runs; c->id && !c->dying && !c->deaf && i-- > 0;) {
        struct run was = c->runs[i];
        if ((id == 0 || was.fence.id == id) && was.entry >= 0 && was.mood != MOOD_TWICE &&
            !was.session && !c->pipe_closed && random_chance(&s->random, 7000)) {
            c->runs[i].outcome = OUTCOME_FAILED;
            end_run(s, c, &c->runs[i], end_of(n, c, &c->runs[i]), false);
            mail_reply(s, n, c, was.fence.id, OUTCOME_RELEASED, false);
        }
    }
}

/* Asked to end, it may still answer what it has. */
static void obey(struct sim *s, struct node *n, struct child *c)
{
    if (random_chance(&s->random, 3000)) {
        for (int i = c->n_runs; i-- > 0;) {
            struct run was = c->runs[i];
            if (was.entry >= 0 && was.mood == MOOD_ANSWER && !was.session) {
                c->runs[i].outcome = OUTCOME_DONE;
                end_run(s, c, &c->runs[i], end_of(n, c, &c->runs[i]), false);
                mail_reply(s, n, c, was.fence.id, OUTCOME_DONE, false);
            }
        }
    }
    c->dying = true;
    sim_after(s, random_log(&s->random, 100, 100000), die, n->index, c->id);
}

void child_signal(struct sim *s, struct node *n, int slot, int signal)
{
    struct child *c = &n->children[slot];
    TRACE(s, "worker %d: signal %d to slot %d", n->index, signal, slot);
    if (!c->id) {
        return;
    }
    if (signal == SIGKILL) {
        c->dying = true;
        sim_after(s, random_log(&s->random, 50, 5000), die, n->index, c->id);
        return;
    }
    check_term(s, n, slot);
    if (!c->deaf && !c->dying) {
        obey(s, n, c);
    }
}
