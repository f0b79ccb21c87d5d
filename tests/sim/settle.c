/* The model of tenon.settle(): what expires, and what follows from the ends of parents. Each
 * function is one moment, and changes are seen when the session commits. */
#include "tests/sim/sim.h"

#include <string.h>

/* tenon.unblock(), of one task */
bool settle_unblock(struct sim *s, struct row *r, int64_t session)
{
    if (!row_is_free(r, session)) {
        return false;
    }
    struct version *v = row_change(s, r, session, CHANGE_UNBLOCK);
    v->run_at = v->wanted_at > server_now(s) ? v->wanted_at : server_now(s);
    v->wanted_at = 0;
    v->delayed = true;
    if (v->suspect) {
        v->suspect_due = v->run_at;
        v->run_at = NEVER_US;
    }
    r->unblocked_us = s->now_us;
    return true;
}

int settle_expired(struct sim *s, int64_t session)
{
    int n = 0;
    for (int i = 0; i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        const struct version *v = row_see(r, session);
        if (v->state == ROW_TASK && !v->start_us && v->start_before &&
            v->start_before <= server_now(s) && row_is_free(r, session)) {
            row_change(s, r, session, CHANGE_EXPIRE)->state = ROW_EXPIRED;
            settling_ended(s, r, session);
            n++;
        }
    }
    return n;
}

/* --- flows --- */

/* What one call has before it, by row. */
struct flows {
    bool noted[ROWS_MAX], touched[ROWS_MAX], doomed[ROWS_MAX];
};

static bool is_blocked(struct sim *s, int64_t session, int64_t task)
{
    const struct version *v = row_see(row_find(s, task), session);
    return v->state == ROW_TASK && v->wanted_at;
}

/* How the tasks stand, as their own rows say (tenon.note_ends). */
static void note_ends(struct sim *s, int64_t session, const struct flows *f)
{
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        enum row_state state = row_see(r, session)->state;
        bool gone = state == ROW_DELETED || state == ROW_NONE;
        if (f->noted[i] && gone && !ending_see(s, session, r->id)) {
            ending_set(s, session, r->id, ROW_DONE); /* as if no history had been kept */
        } else if (f->noted[i] && !gone) {
            ending_set(s, session, r->id, state == ROW_TASK ? ROW_NONE : (int)state);
        }
    }
}

static bool is_over(struct sim *s, int64_t session, const struct flow_wait *w)
{
    int ending = ending_see(s, session, w->parent);
    return ending == ROW_DONE || (ending && row_find(s, w->task)->on_dead != ON_DEAD_WAIT);
}

/* Waits that are over go, of which the notes tell. */
static int end_waits(struct sim *s, int64_t session, struct flows *f)
{
    struct settling *t = &s->server.settling;
    int n = 0;
    for (int i = 0; i < t->n_waits; i++) {
        struct flow_wait *w = &t->waits[i];
        if (!mark_is_seen(&w->mark, session) || !is_over(s, session, w) ||
            !(f->noted[w->parent - 1] || f->noted[w->task - 1])) {
            continue;
        }
        mark_take(&w->mark, session);
        f->touched[w->task - 1] = true;
        if (ending_see(s, session, w->parent) != ROW_DONE &&
            row_find(s, w->task)->on_dead == ON_DEAD_CANCEL) {
            f->doomed[w->task - 1] = true;
        }
        n++;
    }
    return n;
}

static bool still_waits(struct sim *s, int64_t session, int64_t task)
{
    const struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_waits && s->mutant != MUTANT_FIRST_PARENT; i++) {
        if (t->waits[i].task == task && mark_is_seen(&t->waits[i].mark, session)) {
            return true;
        }
    }
    return false;
}

static void cancel(struct sim *s, int64_t session, struct row *r)
{
    row_change(s, r, session, CHANGE_CANCEL)->state = ROW_CANCELLED;
    settling_ended(s, r, session);
}

/* ret: how many */
static int take_notes(struct sim *s, int64_t session, struct flows *f)
{
    struct settling *t = &s->server.settling;
    int n = 0;
    for (int i = 0; i < t->n_notes; i++) {
        struct flow_note *x = &t->notes[i];
        if (!mark_is_seen(&x->mark, session)) {
            continue;
        }
        f->noted[x->task - 1] = true;
        f->touched[x->task - 1] = f->touched[x->task - 1] || x->act == NOTE_UNBLOCK;
        f->doomed[x->task - 1] = f->doomed[x->task - 1] || x->act == NOTE_CANCEL;
        mark_take(&x->mark, session);
        n++;
    }
    return n;
}

/* A task that is locked is noted once more. ret: how many are: that is no progress */
static int follow(struct sim *s, int64_t session, const struct flows *f)
{
    int n_locked = 0;
    for (int i = 0; i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        bool goes = f->touched[i] && !f->doomed[i] && !still_waits(s, session, r->id);
        if (!(goes || f->doomed[i]) || !is_blocked(s, session, r->id)) {
            continue;
        }
        if (goes && r->keys) {
            queue_limits(s, r, session);
        } else if (!row_is_free(r, session)) {
            note_add(s, session, r->id, goes ? NOTE_UNBLOCK : NOTE_CANCEL);
            n_locked++;
        } else if (goes) {
            (void)settle_unblock(s, r, session);
        } else {
            cancel(s, session, r);
        }
    }
    return n_locked;
}

/* Those that have ended wait for nobody. */
static void forget_waits(struct sim *s, int64_t session, const struct flows *f)
{
    struct settling *t = &s->server.settling;
    for (int i = 0; i < t->n_waits; i++) {
        struct flow_wait *w = &t->waits[i];
        if (f->noted[w->task - 1] && mark_is_seen(&w->mark, session) &&
            ending_see(s, session, w->task)) {
            mark_take(&w->mark, session);
        }
    }
}

int settle_flows(struct sim *s, int64_t session)
{
    struct settling *t = &s->server.settling;
    struct flows f;
    if (t->settler && t->settler != session && s->mutant != MUTANT_TWO_SETTLE) {
        return 0; /* SKIP LOCKED */
    }
    memset(&f, 0, sizeof f);
    int n = take_notes(s, session, &f);
    if (n == 0) {
        return 0;
    }
    t->settler = session;
    note_ends(s, session, &f);
    n += end_waits(s, session, &f);
    n -= follow(s, session, &f);
    forget_waits(s, session, &f);
    return n;
}
