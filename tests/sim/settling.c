#include "tests/sim/settling.h"

#include "tests/sim/sim.h"

#include <stdlib.h>

enum { HOLD_US = 45000000 };

/* --- what is seen --- */

bool mark_is_seen(const struct mark *m, int64_t session)
{
    return m->there && (m->maker == 0 || m->maker == session) &&
           (m->taker == 0 || m->taker != session);
}

void mark_take(struct mark *m, int64_t session)
{
    m->taker = m->taker ? m->taker : session;
}

const struct standing *place_see(const struct place *p, int64_t session)
{
    return session && p->changer == session ? &p->next : &p->now;
}

struct standing *place_change(struct place *p, int64_t session)
{
    p->next = *place_see(p, session);
    p->changer = session;
    return &p->next;
}

struct place *place_find(struct sim *s, int64_t session, int key, int64_t task)
{
    struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_places; i++) {
        struct place *p = &t->places[i];
        if (p->key == key && p->task == task && mark_is_seen(&p->mark, session)) {
            return p;
        }
    }
    return NULL;
}

int ending_see(const struct sim *s, int64_t session, int64_t task)
{
    const struct ending *e = &s->server.settling.endings[task - 1];
    return session && e->changer == session ? e->next : e->now;
}

void ending_set(struct sim *s, int64_t session, int64_t task, int ending)
{
    struct ending *e = &s->server.settling.endings[task - 1];
    e->changer = session;
    e->next = ending;
}

int first_key(const struct sim *s, unsigned keys)
{
    int first = -1;
    for (int k = 0; k < KEYS; k++) {
        const struct rule *rules = s->server.settling.rules;
        if ((keys >> k & 1) && (first < 0 || rules[k].running < rules[first].running)) {
            first = k;
        }
    }
    return first;
}

/* --- the end of a transaction --- */

static void end_mark(struct mark *m, int64_t session, bool commits)
{
    if (m->maker == session) {
        m->maker = 0;
        m->there = commits;
    }
    if (m->taker == session) {
        m->taker = 0;
        m->there = m->there && !commits;
    }
}

static void end_places(struct settling *t, int64_t session, bool commits)
{
    for (int i = 0; i < t->n_places; i++) {
        struct place *p = &t->places[i];
        end_mark(&p->mark, session, commits);
        if (p->changer == session) {
            p->now = commits ? p->next : p->now;
            p->changer = 0;
        }
    }
}

static void end_endings(struct settling *t, int n, int64_t session, bool commits)
{
    for (int i = 0; i < n; i++) {
        struct ending *e = &t->endings[i];
        if (e->changer == session) {
            e->now = commits ? e->next : e->now;
            e->changer = 0;
        }
    }
}

void settling_end(struct sim *s, int64_t session, bool commits)
{
    struct settling *t = &s->server.settling;
    if (!t->used) {
        return;
    }
    for (int i = 0; i < t->n_waits; i++) {
        end_mark(&t->waits[i].mark, session, commits);
    }
    for (int i = 0; i < t->n_notes; i++) {
        end_mark(&t->notes[i].mark, session, commits);
    }
    for (int i = 0; i < t->n_events; i++) {
        end_mark(&t->events[i].mark, session, commits);
    }
    end_places(t, session, commits);
    end_endings(t, s->server.n_rows, session, commits);
    t->settler = t->settler == session ? 0 : t->settler;
}

/* --- rows --- */

/* A place for one more in a table, whose rows begin with their marks. */
static int free_place(const void *rows, size_t size, int *n, int max)
{
    for (int i = 0; i < *n; i++) {
        if (!((const struct mark *)((const char *)rows + (size_t)i * size))->there) {
            return i;
        }
    }
    if (*n == max) {
        abort();
    }
    return (*n)++;
}

static struct mark made_by(int64_t session)
{
    return (struct mark){.there = true, .maker = session};
}

static void wait_add(struct sim *s, int64_t session, int64_t task, int64_t parent)
{
    struct settling *t = &s->server.settling;
    int i = free_place(t->waits, sizeof *t->waits, &t->n_waits, WAITS_MAX);
    t->waits[i] = (struct flow_wait){made_by(session), task, parent};
}

void note_add(struct sim *s, int64_t session, int64_t task, enum flow_act act)
{
    struct settling *t = &s->server.settling;
    int i = free_place(t->notes, sizeof *t->notes, &t->n_notes, NOTES_MAX);
    t->notes[i] = (struct flow_note){made_by(session), task, act};
}

struct limit_event *event_add(struct sim *s, int64_t session, unsigned keys, int64_t task)
{
    struct settling *t = &s->server.settling;
    int i = free_place(t->events, sizeof *t->events, &t->n_events, NOTES_MAX);
    t->events[i] = (struct limit_event){.mark = made_by(session), .task = task, .keys = keys};
    return &t->events[i];
}

void place_add(struct sim *s, int64_t session, const struct row *r, int key, enum line line)
{
    struct settling *t = &s->server.settling;
    const struct version *v = row_see(r, session);
    int i = free_place(t->places, sizeof *t->places, &t->n_places, PLACES_MAX);
    t->places[i] = (struct place){.mark = made_by(session),
                                  .key = key,
                                  .task = r->id,
                                  .now = {line, v->priority, v->wanted_at}};
}

static bool any_place(const struct sim *s, int key, int64_t task)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_places; i++) {
        if (t->places[i].mark.there && t->places[i].key == key && t->places[i].task == task) {
            return true;
        }
    }
    return false;
}

/* tenon.queue_limits() */
void queue_limits(struct sim *s, struct row *r, int64_t session)
{
    const struct version *v = row_see(r, session);
    bool there = false;
    for (int k = 0; k < KEYS; k++) {
        if (!(r->keys >> k & 1)) {
            continue;
        }
        if (any_place(s, k, r->id)) {
            there = true;
        } else {
            place_add(s, session, r, k,
                      k != first_key(s, r->keys)     ? LINE_ELSEWHERE
                      : v->wanted_at > server_now(s) ? LINE_LATER
                                                     : LINE_WAITS);
        }
    }
    (void)event_add(s, session, r->keys, 0);
    if (there) {
        event_add(s, session, r->keys, r->id)->enters = true;
    }
    session_find(s, session)->settles = true;
}

/* --- what other statements leave --- */

static bool is_own_new(const struct row *r, int64_t session)
{
    return r->changed && r->locker == session && r->change == CHANGE_INSERT;
}

/* tenon.check_parents(), tenon.join_flow(); ret: it waits for some */
static bool join_flow(struct sim *s, struct row *r, int64_t session)
{
    bool waits = false, look = false;
    for (int i = 0; i < r->n_parents; i++) {
        int ending = ending_see(s, 0, r->parents[i]);
        if (ending == ROW_DONE || (ending && r->on_dead == ON_DEAD_RUN)) {
            continue;
        }
        wait_add(s, session, r->id, r->parents[i]);
        waits = true;
        look = look || !is_own_new(row_find(s, r->parents[i]), session);
    }
    if (look && s->mutant != MUTANT_NO_CHILDS_NOTE) {
        note_add(s, session, r->id, NOTE_LOOK);
        session_find(s, session)->settles = true;
    }
    return waits;
}

static void draw_links(struct sim *s, struct row *r, int64_t session)
{
    struct random *x = &s->random;
    if (random_chance(x, s->plan.rate_keys)) {
        r->keys = 1U << random_below(x, KEYS);
        r->keys |= random_chance(x, 3000) ? 1U << random_below(x, KEYS) : 0;
    }
    int n = random_chance(x, s->plan.rate_child) ? (int)random_between(x, 1, PARENTS_MAX) : 0;
    r->on_dead = (enum on_dead)random_below(x, 3);
    for (int i = 0; i < n && r->id > 1; i++) {
        int64_t parent = r->id - random_log(x, 1, r->id - 1);
        bool twice = false;
        for (int j = 0; j < r->n_parents; j++) {
            twice = twice || r->parents[j] == parent;
        }
        if (!twice && row_see(row_find(s, parent), session)->state != ROW_NONE) {
            r->parents[r->n_parents++] = parent;
        }
    }
}

void settling_join(struct sim *s, struct row *r, int64_t session)
{
    struct version *v = &r->next;
    if (!s->server.settling.used) {
        return;
    }
    draw_links(s, r, session);
    if (random_chance(&s->random, s->plan.rate_expires)) {
        v->start_before = v->run_at + random_log(&s->random, 10, 60000) * 1000;
    }
    bool waits = join_flow(s, r, session);
    if (waits || r->keys) {
        v->wanted_at = v->run_at;
        v->run_at = NEVER_US;
        v->delayed = v->announced = false;
    }
    if (r->keys && !waits) {
        queue_limits(s, r, session);
    }
}

/* tenon.requeue(): its next start must be let go again. */
void settling_requeued(struct sim *s, const struct row *r, int64_t session)
{
    if (r->keys && s->mutant != MUTANT_FORGETS_REQUEUE) {
        (void)event_add(s, session, r->keys, r->id);
        session_find(s, session)->settles = true;
    }
}

/* tenon.note_ended() */
void settling_ended(struct sim *s, const struct row *r, int64_t session)
{
    if (s->server.settling.used) {
        note_add(s, session, r->id, NOTE_LOOK);
        if (r->keys) {
            (void)event_add(s, session, r->keys, r->id);
        }
        session_find(s, session)->settles = true;
    }
}

void settling_cancelled(struct sim *s, const struct row *r, int64_t session)
{
    if (r->keys && r->now.start_us && s->mutant != MUTANT_FREES_AT_CANCEL) {
        event_add(s, session, r->keys, r->id)->hold_until_us = server_now(s) + HOLD_US;
    }
    settling_ended(s, r, session);
}

/* tenon.limited_deleted() */
void settling_deleted(struct sim *s, const struct row *r, int64_t session)
{
    if (r->keys) {
        (void)event_add(s, session, r->keys, r->id);
        session_find(s, session)->settles = true;
    }
}

/* tenon.retry_ids() */
void settling_retried(struct sim *s, struct row *r, int64_t session)
{
    note_add(s, session, r->id, NOTE_LOOK);
    if (r->keys) {
        r->next.wanted_at = r->next.run_at;
        r->next.run_at = NEVER_US;
        r->next.delayed = false;
        queue_limits(s, r, session);
    }
}
