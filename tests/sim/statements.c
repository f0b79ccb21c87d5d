#include "tests/sim/statements.h"

#include "tests/sim/round.h"
#include "tests/sim/sim.h"

#include <string.h>

/* --- tenon.worker --- */

int worker_register(struct sim *s, int node)
{
    int id = ++s->server.n_workers;
    s->server.workers[id] =
        (struct worker_row){.now = WORKER_ALIVE, .node = node, .unlocked_us = s->now_us};
    return id;
}

bool worker_is(const struct sim *s, int worker, enum worker_state state, int64_t session)
{
    const struct worker_row *w = &s->server.workers[worker];
    return (w->changer && w->changer == session ? w->next : w->now) == state;
}

bool worker_lock_is_free(const struct sim *s, int worker)
{
    return s->server.workers[worker].lock == 0;
}

/* workers_declare_dead.sql */
bool worker_declare_dead(struct sim *s, int64_t session, int worker)
{
    struct worker_row *w = &s->server.workers[worker];
    bool ours = (w->now == WORKER_ALIVE || w->now == WORKER_DRAINING) && w->changer == 0 &&
                w->lock == 0;
    if (ours) {
        w->changer = session;
        w->next = WORKER_DEAD;
    }
    return ours;
}

/* --- claims --- */

static bool may_claim(const struct sim *s, const struct row *r, int64_t session, unsigned kinds)
{
    const struct version *v = row_see(r, session);
    return v->state == ROW_TASK && v->start_us == 0 && v->run_at <= server_now(s) &&
           !s->server.paused[v->queue] && (kinds >> v->kind & 1) && row_is_free(r, session);
}

static struct row *claim(struct sim *s, struct row *r, int64_t session, int worker)
{
    check_that(s, row_see(r, session)->start_us == 0, "task %lld is claimed twice",
               (long long)r->id);
    struct version *v = row_change(s, r, session, CHANGE_CLAIM);
    v->start_us = server_now(s);
    v->worker = worker;
    v->claims++;
    v->key = ++s->server.last_key * KEY_CLAIMS + v->claims;
    r->claimed_us[v->claims % CLAIMS_KEPT] = s->now_us;
    return r;
}

/* claim.sql */
struct row *task_claim(struct sim *s, int64_t session, int worker, int64_t id, unsigned kinds)
{
    struct row *r = row_find(s, id);
    bool ok = r && worker_is(s, worker, WORKER_ALIVE, session) && may_claim(s, r, session, kinds);
    return ok ? claim(s, r, session, worker) : NULL;
}

static bool is_before(struct poll_place a, struct poll_place b)
{
    return a.run_at_us != b.run_at_us ? a.run_at_us < b.run_at_us : a.id < b.id;
}

/* poll.sql, one row that it reads: a task that is due, started or not */
struct row *task_read(struct sim *s, int64_t session, size_t queue, int priority,
                      struct poll_place *place)
{
    struct row *best = NULL;
    struct poll_place at = {.run_at_us = INT64_MAX};
    for (int i = 0; !s->server.paused[queue] && i < s->server.n_rows; i++) {
        struct row *r = &s->server.rows[i];
        const struct version *v = row_see(r, session);
        struct poll_place here = {v->run_at, r->id};
        if (v->state == ROW_TASK && (size_t)v->queue == queue && v->priority == priority &&
            v->run_at <= server_now(s) && is_before(*place, here) && is_before(here, at)) {
            best = r;
            at = here;
        }
    }
    *place = best ? at : *place;
    return best;
}

/* --- suspects --- */

static struct row *first_suspect(const struct sim *s, int64_t session, unsigned kinds)
{
    const struct row *best = NULL;
    for (int i = 0; i < s->server.n_rows; i++) {
        const struct row *r = &s->server.rows[i];
        const struct version *v = row_see(r, session);
        if (v->state == ROW_TASK && v->suspect && v->suspect_due <= server_now(s) && !v->start_us &&
            !s->server.paused[v->queue] && (kinds >> v->kind & 1) && row_is_free(r, session) &&
            (!best || v->suspect_due < row_see(best, session)->suspect_due)) {
            best = r;
        }
    }
    return (struct row *)best;
}

static bool may_have_turn(const struct sim *s, int64_t session, int worker, unsigned kinds)
{
    int alive = 0, others = 0;
    for (int i = 1; i <= s->server.n_workers; i++) {
        alive += s->server.workers[i].now == WORKER_ALIVE;
        others += s->server.workers[i].now == WORKER_ALIVE && s->server.workers[i].alone &&
                  i != worker;
    }
    return worker_is(s, worker, WORKER_ALIVE, session) && first_suspect(s, session, kinds) &&
           others < (alive / 2 > 1 ? alive / 2 : 1);
}

static struct row *claim_alone(struct sim *s, int64_t session, int worker, unsigned kinds)
{
    struct row *r = first_suspect(s, session, kinds);
    if (!r || !worker_is(s, worker, WORKER_ALIVE, session) || !s->server.workers[worker].alone) {
        return NULL;
    }
    int64_t due = row_see(r, session)->suspect_due;
    (void)claim(s, r, session, worker);
    r->next.run_at = due;
    r->next.alone_claims = r->next.claims;
    return r;
}

void alone_answer(struct sim *s, struct request *r)
{
    if (r->ask_alone == ALONE_ASK_TURN) {
        r->has_turn = may_have_turn(s, r->session, r->worker, r->kinds);
    } else if (r->ask_alone == ALONE_ASK_CLAIM) {
        const struct row *row = claim_alone(s, r->session, r->worker, r->kinds);
        if (row) {
            r->claimed_ids[r->n_claimed] = row->id;
            r->claimed[r->n_claimed++] = row->next;
        }
    }
}

void alone_commit(struct sim *s, const struct request *r)
{
    if (r->has_turn || r->ask_alone == ALONE_ASK_OVER) {
        s->server.workers[r->worker].alone = r->has_turn;
    }
}

/* --- what is fenced --- */

static bool fence_holds(const struct sim *s, const struct version *v, struct fence f)
{
    if (s->mutant == MUTANT_NO_FENCE) {
        return v->state == ROW_TASK;
    }
    return v->state == ROW_TASK && v->key == f.key;
}

/* progress.sql. The server may do at last what a session that broke has left behind; and a lock may
 * go between this statement and the one that requeues the task. */
enum write_state task_progress(struct sim *s, const struct request *from, const struct said *p)
{
    struct row *r = row_find(s, p->fence.id);
    if (!r || !fence_holds(s, row_see(r, from->session), p->fence)) {
        return WRITE_MISSED;
    }
    if (!row_is_free(r, from->session)) {
        r->late = true;
        return WRITE_MISSED;
    }
    check_fence(s, r, from->session, p->fence);
    struct version *v = row_change(s, r, from->session, CHANGE_SAY);
    r->late = r->late || (from->alone && p->said > 0 && p->said < v->said);
    v->said = p->said > 0 ? p->said : v->said;
    v->timeout_ms = p->timeout_ms > v->timeout_ms ? p->timeout_ms : v->timeout_ms;
    return WRITE_WRITTEN;
}

/* step.sql */
enum write_state task_step(struct sim *s, int64_t session, struct fence f, int number)
{
    struct row *r = row_find(s, f.id);
    if (!r || !fence_holds(s, row_see(r, session), f) || !row_is_free(r, session)) {
        return WRITE_MISSED;
    }
    check_fence(s, r, session, f);
    struct version *v = row_change(s, r, session, CHANGE_SAY);
    check_that(s, number <= v->steps + 1, "step %d of task %lld is recorded after step %d", number,
               (long long)f.id, v->steps);
    v->steps = number > v->steps ? number : v->steps;
    return WRITE_WRITTEN;
}

/* finish.sql, finish_unlocked.sql, and tenon.finish() */
enum answer task_finish(struct sim *s, int64_t session, struct fence f, bool unlocked)
{
    struct row *r = row_find(s, f.id);
    if (!r || !fence_holds(s, row_see(r, session), f)) {
        return ANSWER_NONE;
    }
    if (!row_is_free(r, session)) {
        return unlocked ? ANSWER_NONE : ANSWER_BLOCKED;
    }
    check_fence(s, r, session, f);
    row_change(s, r, session, CHANGE_FINISH)->state = ROW_DONE;
    return ANSWER_YES;
}

enum { MAX_CRASHES = 3 };

static int64_t retry_delay_us(struct sim *s, int failures)
{
    int64_t f = failures;
    return (f * f * f * f + 15) * 1000000 + random_below(&s->random, 10 * f * 1000000);
}

static bool requeue_dead(struct version *v, const char *reason)
{
    bool failed = strcmp(reason, "failed") == 0 || strcmp(reason, "timed_out") == 0;
    bool crashed = strcmp(reason, "crashed") == 0;
    v->failures += failed;
    v->crashes += crashed;
    if (crashed) {
        int mark = v->said * 1000 + v->steps;
        v->in_a_row = v->in_a_row > 0 && v->mark == mark ? v->in_a_row + 1 : 1;
        v->mark = mark;
    }
    bool was_alone = v->alone_claims == v->claims;
    return strcmp(reason, "dead") == 0 || (crashed && was_alone && v->in_a_row >= MAX_CRASHES) ||
           (failed && v->failures >= v->max_attempts);
}

/* Its next crash may be its last. ret: it is blocked now */
static bool suspect(struct version *v, const char *reason)
{
    bool by_itself = strcmp(reason, "snooze") == 0 || strcmp(reason, "wait_signal") == 0;
    v->suspect = !by_itself && v->in_a_row >= MAX_CRASHES - 1;
    v->suspect_due = NEVER_US;
    v->alone_claims = 0;
    return v->suspect;
}

/* tenon.requeue(); no signal ever comes, and so to wait for one is to be late */
enum requeue_state task_requeue(struct sim *s, int64_t session, struct fence f, const char *reason,
                                int64_t delay_ms)
{
    struct row *r = row_find(s, f.id);
    if (!r || !fence_holds(s, row_see(r, session), f) || !row_is_free(r, session)) {
        return REQUEUE_MISSED;
    }
    check_fence(s, r, session, f);
    struct version *v = row_change(s, r, session, CHANGE_BACK);
    if (requeue_dead(v, reason)) {
        v->state = ROW_DEAD;
        return REQUEUE_DEAD;
    }
    bool failed = strcmp(reason, "failed") == 0 || strcmp(reason, "timed_out") == 0;
    v->start_us = v->key = 0;
    v->worker = 0;
    bool is_suspect = suspect(v, reason);
    bool keeps_place = strcmp(reason, "released") == 0 && delay_ms < 0;
    if (keeps_place && !is_suspect) {
        return REQUEUE_READY;
    }
    v->delayed = true;
    v->run_at = keeps_place ? v->run_at
                            : server_now(s) + (delay_ms >= 0 ? delay_ms * 1000
                                               : failed      ? retry_delay_us(s, v->failures)
                                                             : 0);
    if (is_suspect) {
        v->suspect_due = v->run_at;
        v->run_at = NEVER_US;
        return REQUEUE_BLOCKED;
    }
    return strcmp(reason, "wait_signal") == 0 ? REQUEUE_BLOCKED
           : v->run_at <= server_now(s)       ? REQUEUE_READY
                                              : REQUEUE_WAITS;
}

/* verify.sql */
enum verdict task_verify(struct sim *s, int64_t session, struct fence f, int64_t *ret_timeout_ms)
{
    const struct row *r = row_find(s, f.id);
    const struct version *v = r ? row_see(r, session) : NULL;
    if (!v || v->key != f.key) {
        return VERDICT_LOST;
    }
    *ret_timeout_ms = v->timeout_ms;
    return v->state == ROW_TASK                           ? VERDICT_MINE
           : v->state == ROW_DONE || v->state == ROW_DEAD ? VERDICT_ENDED
                                                          : VERDICT_CANCELLED;
}

/* --- applications --- */

struct row *task_enqueue(struct sim *s, int64_t session)
{
    const struct plan *p = &s->plan;
    struct random *x = &s->random;
    if (s->server.n_rows == ROWS_MAX) {
        return NULL;
    }
    struct row *r = &s->server.rows[s->server.n_rows++];
    *r = (struct row){.id = s->server.n_rows, .last_run = -1, .inserted_us = s->now_us};
    struct version *v = row_change(s, r, session, CHANGE_INSERT);
    v->state = ROW_TASK;
    v->run_at = server_now(s);
    v->timeout_ms = random_log(x, 500, 60000) + p->run_us / 1000 * (p->faults ? 1 : 20);
    v->max_attempts = (int)random_between(x, 1, 3);
    v->priority = (int)random_between(x, 3, 5);
    v->queue = (int)random_below(x, 2);
    v->kind = (int)random_below(x, 2);
    if (random_chance(x, p->rate_delayed)) {
        v->delayed = true;
        v->run_at += random_log(x, 1, 5000) * 1000;
    }
    v->announced = !v->delayed && random_chance(x, p->rate_announced);
    return r;
}

enum answer task_lock(struct sim *s, int64_t session, int64_t id)
{
    struct row *r = row_find(s, id);
    if (!r || row_see(r, session)->state != ROW_TASK) {
        return ANSWER_NONE;
    }
    if (!row_is_free(r, session)) {
        return ANSWER_BLOCKED;
    }
    r->locker = session;
    return ANSWER_YES;
}

/* tenon.cancel() */
enum answer task_cancel(struct sim *s, int64_t session, int64_t id)
{
    enum answer answer = task_lock(s, session, id);
    if (answer == ANSWER_YES) {
        row_change(s, row_find(s, id), session, CHANGE_CANCEL)->state = ROW_CANCELLED;
    }
    return answer;
}
