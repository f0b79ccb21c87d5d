/* The model of tenon.settle_limits(): what has happened at limits, and whom they let go next. */
#include "tests/sim/sim.h"

enum { AGAIN_US = 50000 };

/* --- what has happened --- */

struct events {
    int n;
    struct limit_event *list[NOTES_MAX];
};

static bool is_due(struct sim *s, const struct limit_event *e, int64_t session)
{
    return mark_is_seen(&e->mark, session) && e->at_us <= server_now(s);
}

static void take_events(struct sim *s, int64_t session, struct events *x, unsigned *keys)
{
    struct settling *t = &s->server.settling;
    x->n = 0;
    for (int i = 0; i < t->n_events; i++) {
        struct limit_event *e = &t->events[i];
        if (is_due(s, e, session)) {
            mark_take(&e->mark, session);
            *keys |= e->keys;
            x->list[x->n] = e;
            x->n += e->task != 0;
        }
    }
}

/* Each place of the tasks that the events are about. */
#define EACH_PLACE(s, session, x, e, p)                                                            \
    for (int i_ = 0; i_ < (x)->n; i_++)                                                            \
        for (int k_ = 0; k_ < KEYS; k_++)                                                          \
            if (((e) = (x)->list[i_])->keys >> k_ & 1)                                             \
                if (((p) = place_find((s), (session), k_, (e)->task)))

/* Of what was cancelled while it ran, the handler may still run. */
static void hold(struct sim *s, int64_t session, const struct events *x)
{
    const struct limit_event *e;
    struct place *p;
    EACH_PLACE(s, session, x, e, p)
    {
        if (e->hold_until_us && place_see(p, session)->line == LINE_HELD) {
            struct standing *st = place_change(p, session);
            st->line = LINE_ENDING;
            st->wanted_at = e->hold_until_us;
        }
    }
}

/* A dead one blocks those behind it; what is gone goes. */
static void leave(struct sim *s, int64_t session, const struct events *x)
{
    const struct limit_event *e;
    struct place *p;
    EACH_PLACE(s, session, x, e, p)
    {
        const struct rule *rule = &s->server.settling.rules[p->key];
        enum row_state state = row_see(row_find(s, e->task), session)->state;
        if (rule->strict && !rule->skips_dead && state == ROW_DEAD) {
            place_change(p, session)->line = LINE_DEAD;
        }
        enum line line = place_see(p, session)->line;
        if (line != LINE_ENDING && state != ROW_TASK && (line != LINE_DEAD || state != ROW_DEAD)) {
            mark_take(&p->mark, session);
        }
    }
}

static void enter(struct sim *s, int64_t session, const struct limit_event *e)
{
    const struct row *r = row_find(s, e->task);
    const struct version *v = row_see(r, session);
    for (int k = 0; k < KEYS && v->state == ROW_TASK && v->wanted_at; k++) {
        if ((e->keys >> k & 1) && !place_find(s, session, k, e->task)) {
            place_add(s, session, r, k, LINE_ELSEWHERE);
        }
    }
}

/* What is blocked again waits as its row says, and keeps its place unless it is to wait for its
 * time (tenon.limit_back). */
static void wait_again(struct sim *s, int64_t session, const struct limit_event *e, struct place *p)
{
    const struct version *v = row_see(row_find(s, e->task), session);
    if (v->state != ROW_TASK || !v->wanted_at) {
        return;
    }
    struct standing *st = place_change(p, session);
    int64_t now = server_now(s), was = st->wanted_at, wanted = v->wanted_at;
    st->wanted_at = st->line == LINE_ENDING ? (was > wanted ? was : wanted)
                    : wanted > now          ? wanted
                                            : (was < wanted ? was : wanted);
    st->priority = v->priority;
    st->line = p->key != first_key(s, e->keys) ? LINE_ELSEWHERE
               : st->wanted_at > now           ? LINE_LATER
                                               : LINE_WAITS;
}

static void come_back(struct sim *s, int64_t session, const struct events *x)
{
    const struct limit_event *e;
    struct place *p;
    for (int i = 0; i < x->n; i++) {
        if (x->list[i]->enters) {
            enter(s, session, x->list[i]);
        }
    }
    EACH_PLACE(s, session, x, e, p)
    {
        wait_again(s, session, e, p);
    }
}

/* tenon.limit_came_due() */
static void come_due(struct sim *s, int64_t session, unsigned *keys)
{
    struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_places; i++) {
        struct place *p = &t->places[i];
        const struct standing *st = place_see(p, session);
        if (!mark_is_seen(&p->mark, session) || st->wanted_at > server_now(s)) {
            continue;
        }
        if (st->line == LINE_LATER) {
            place_change(p, session)->line = LINE_WAITS;
            *keys |= 1U << p->key;
        } else if (st->line == LINE_ENDING) {
            mark_take(&p->mark, session);
            *keys |= 1U << p->key;
        }
    }
}

bool settle_limits_begin(struct sim *s, int64_t session)
{
    struct settling *t = &s->server.settling;
    if (t->settler && t->settler != session) {
        return false;
    }
    t->settler = session;
    return true;
}

int settle_limit_ends(struct sim *s, int64_t session, unsigned *ret_keys)
{
    struct events x;
    *ret_keys = 0;
    take_events(s, session, &x, ret_keys);
    hold(s, session, &x);
    leave(s, session, &x);
    come_back(s, session, &x);
    come_due(s, session, ret_keys);
    return *ret_keys != 0;
}

/* --- letting go --- */

static bool counts(struct sim *s, int64_t session, const struct place *p)
{
    enum line line = place_see(p, session)->line;
    bool starts = s->mutant != MUTANT_COUNTS_RUNNING ||
                  row_see(row_find(s, p->task), session)->start_us != 0;
    return line == LINE_ENDING || (line == LINE_HELD && starts);
}

static int room(struct sim *s, int64_t session, int key)
{
    const struct settling *t = &s->server.settling;
    int left = t->rules[key].running;
    for (int i = 0; i < t->n_places; i++) {
        const struct place *p = &t->places[i];
        left -= p->key == key && mark_is_seen(&p->mark, session) && counts(s, session, p);
    }
    return left;
}

static bool is_before(const struct settling *t, int64_t session, const struct place *a,
                      const struct place *b)
{
    const struct standing *x = place_see(a, session), *y = place_see(b, session);
    if (t->rules[a->key].strict) {
        return a->task < b->task;
    }
    return x->priority != y->priority     ? x->priority > y->priority
           : x->wanted_at != y->wanted_at ? x->wanted_at < y->wanted_at
                                          : a->task < b->task;
}

/* Who is next; of a strict key the lowest id there is, and nobody if that one does not wait. */
static struct place *head_of(struct sim *s, int64_t session, int key)
{
    struct settling *t = &s->server.settling;
    bool strict = t->rules[key].strict && s->mutant != MUTANT_LEAVES_PLACE;
    struct place *best = NULL;
    for (int i = 0; i < t->n_places; i++) {
        struct place *p = &t->places[i];
        if (p->key == key && mark_is_seen(&p->mark, session) &&
            (strict || place_see(p, session)->line == LINE_WAITS) &&
            (!best || is_before(t, session, p, best))) {
            best = p;
        }
    }
    return best && place_see(best, session)->line == LINE_WAITS ? best : NULL;
}

/* Which of its keys does not let a task go; -1: all do. */
static int stopped_by(struct sim *s, int64_t session, const struct row *r)
{
    for (int k = 0; k < KEYS; k++) {
        const struct settling *t = &s->server.settling;
        bool first = true, strict = t->rules[k].strict && s->mutant != MUTANT_LEAVES_PLACE;
        for (int i = 0; i < t->n_places && strict; i++) {
            const struct place *p = &t->places[i];
            first = first && !(p->key == k && p->task < r->id && mark_is_seen(&p->mark, session));
        }
        if ((r->keys >> k & 1) && (room(s, session, k) <= 0 || !first)) {
            return k;
        }
    }
    return -1;
}

/* It waits in the line of the key that stopped it. */
static void move_to(struct sim *s, int64_t session, struct place *from, int key)
{
    struct place *to = place_find(s, session, key, from->task);
    if (to && to != from) {
        place_change(to, session)->line = LINE_WAITS;
        place_change(from, session)->line = LINE_ELSEWHERE;
        (void)event_add(s, session, 1U << key | 1U << from->key, 0);
    }
}

/* ret: it was let go */
static bool admit(struct sim *s, int64_t session, struct place *head)
{
    struct row *r = row_find(s, head->task);
    int key = stopped_by(s, session, r);
    if (key >= 0) {
        move_to(s, session, head, key);
        return false;
    }
    const struct version *v = row_see(r, session);
    if (v->state != ROW_TASK || !v->wanted_at || !settle_unblock(s, r, session)) {
        event_add(s, session, 1U << head->key, 0)->at_us = server_now(s) + AGAIN_US;
        return false;
    }
    for (int k = 0; k < KEYS; k++) {
        struct place *p = r->keys >> k & 1 ? place_find(s, session, k, r->id) : NULL;
        if (p) {
            place_change(p, session)->line = LINE_HELD;
        }
    }
    return true;
}

int settle_limit_admit(struct sim *s, int64_t session, unsigned keys)
{
    int n = 0;
    for (int k = 0; k < KEYS; k++) {
        struct place *head;
        while ((keys >> k & 1) && room(s, session, k) > 0 && (head = head_of(s, session, k)) &&
               admit(s, session, head)) {
            n++;
        }
    }
    return n;
}

/* --- when --- */

/* watch.sql, and tenon.limits_due_ms() */
int64_t settle_due_ms(struct sim *s)
{
    const struct settling *t = &s->server.settling;
    int64_t due = INT64_MAX, now = server_now(s);
    for (int i = 0; i < t->n_notes; i++) {
        due = mark_is_seen(&t->notes[i].mark, 0) ? 0 : due;
    }
    for (int i = 0; i < t->n_events; i++) {
        const struct limit_event *e = &t->events[i];
        due = mark_is_seen(&e->mark, 0) && e->at_us < due ? e->at_us : due;
    }
    for (int i = 0; i < t->n_places; i++) {
        const struct place *p = &t->places[i];
        bool later = p->now.line == LINE_LATER || p->now.line == LINE_ENDING;
        due = mark_is_seen(&p->mark, 0) && later && p->now.wanted_at < due ? p->now.wanted_at : due;
    }
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct version *v = &s->server.rows[i].now;
        bool may = v->state == ROW_TASK && !v->start_us && v->start_before;
        due = may && v->start_before < due ? v->start_before : due;
    }
    return due == INT64_MAX ? due : due <= now ? 0 : (due - now) / 1000 + 1;
}
