/* label: sql */
/* timeout: 300 */
/* long: 2400 */
/* only: all */
/* Two sessions, each with one act of a task's life in a transaction, in every order of their
 * statements: BEGIN, the act, and COMMIT, ROLLBACK or a killed backend.
 *
 * A model with one state says what each act may do. An act that changed something must have been
 * allowed to; one that changed nothing must not have been, unless it leaves locked rows out and the
 * other session overlapped with it. What the database holds at the end is compared with the model:
 * so a task is in one place, no claim is lost, and a claim that was lost changed nothing. */
#include "tests/support/acts.h"
#include "tests/support/partitions.h"
#include "tests/support/polls.h"
#include "tests/support/stepper.h"

#include "cleaner/statements.h"
#include "core/base/now.h"
#include "tests/support/load.h"
#include "worker/statements.h"

#include <stdio.h>

/* --- the stage: one task, and two claims of which one was lost ------------------------------- */

struct stage {
    struct fixture *fx;
    struct stepper sessions[2];
    int lock_timeout_ms;
    enum state begin;
    struct cast cast;
    size_t schedules, blocked, kills, timeouts;
};

static const char stage_function[] =
    "CREATE FUNCTION public.stage(held boolean, over boolean, holder uuid)"
    " RETURNS TABLE (id bigint, key bigint) LANGUAGE plpgsql AS $$"
    "#variable_conflict use_column\n"
    "DECLARE new bigint;"
    "BEGIN"
    " DELETE FROM tenon.task;"
    " new := tenon.enqueue('a', unique_key => 'k');"
    " UPDATE tenon.task t SET claims = 2, delayed = true, run_at = now() - interval '1 s',"
    "  start_time = CASE WHEN held THEN clock_timestamp() - interval '1 hour' END,"
    "  claim_key = CASE WHEN held THEN 17 END,"
    "  worker_id = CASE WHEN held THEN holder END WHERE t.id = new;"
    " IF over THEN PERFORM tenon.cancel(new); END IF;"
    " RETURN QUERY SELECT new, 17::bigint;"
    "END $$";

static void stage_make(struct stage *g)
{
    PGresult *result = PQexecParams(g->fx->conn, "SELECT * FROM public.stage($1, $2, $3)", 3, NULL,
                                    (const char *const[]){g->begin == HELD ? "t" : "f",
                                                          g->begin == CANCELLED ? "t" : "f",
                                                          g->cast.held.worker},
                                    NULL, NULL, 0);
    if (PQntuples(result) != 1) {
        fail_msg("%s", PQresultErrorMessage(result));
    }
    long long key = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    (void)snprintf(g->cast.id, sizeof g->cast.id, "%s", PQgetvalue(result, 0, 0));
    (void)snprintf(g->cast.ids, sizeof g->cast.ids, "{%s}", g->cast.id);
    fence_set(&g->cast.held, g->cast.id, 2, key);
    fence_set(&g->cast.lost, g->cast.id, 1, key + 1);
    PQclear(result);
}

/* --- a schedule ------------------------------------------------------------------------------ */

enum end { COMMITS, ROLLS_BACK, IS_KILLED };
enum { STEP_BEGIN, STEP_ACT, STEP_END, STEPS };

struct part {
    const struct act *act;
    enum end end;
    struct stepper *session;
    int step;          /* what comes next */
    int put_off;       /* turns that came while it waited for a lock */
    bool effective;    /* it changed something */
    bool failed;       /* its statement did, as it may */
    bool was_allowed;  /* when the act was done, by what had committed then */
    bool acted, ended; /* the act was sent; all is over */
    bool overlapped;   /* the other acted before this one ended, and the other way round */
};

struct schedule {
    struct stage *g;
    struct part part[2];
    struct model model; /* what has committed */
    const char *order;  /* "ABABAB" */
    bool any_blocked;
};

static void complain(const struct schedule *s, const char *what)
{
    static const char ends[] = "CRK";
    fail_msg("%s x %s, order %s, ends %c%c, task %s at first, lock_timeout %d: %s",
             s->part[0].act->name, s->part[1].act->name, s->order, ends[s->part[0].end],
             ends[s->part[1].end], state_words[s->g->begin], s->g->lock_timeout_ms, what);
}

static bool was_effective(const struct schedule *s, const struct part *p)
{
    const PGresult *r = p->session->result;
    if (p->act->effect == ENQUEUES) {
        return strcmp(PQgetvalue(r, 0, 0), s->g->cast.id) != 0 && !s->model.new_task;
    }
    if (p->act->st == &sql_finish || p->act->st == &sql_finish_unlocked) {
        return PQntuples(r) == 0; /* they return what they have not done */
    }
    int n = p->act->st == &sql_poll      ? poll_claimed(r)
            : p->act->st == &sql_recover ? PQntuples(r) - 1
                                         : PQntuples(r);
    return p->act->effect != NONE && n > 0;
}

/* The act was answered: what did it do, and was it allowed to? */
static void take_act(struct schedule *s, struct part *p)
{
    const char *state = stepper_state(p->session);
    p->was_allowed = model_allows(&s->model, p->act->effect, p->act->stale);
    p->failed = *state != '\0';
    if (p->failed) {
        bool lost = act_may_raise(p->act, state);
        bool late = s->g->lock_timeout_ms > 0 && strcmp(state, "55P03") == 0;
        s->g->timeouts += late;
        if (!lost && !late) {
            complain(s, PQresultErrorMessage(p->session->result));
        }
        if (late) {
            p->was_allowed = false; /* nothing is expected of it */
        }
        return;
    }
    p->effective = was_effective(s, p);
    if (p->effective && !p->was_allowed) {
        complain(s, p == &s->part[0] ? "the first was not allowed" : "the second was not allowed");
    }
}

static void send_step(struct schedule *s, struct part *p)
{
    const char *params[ACT_PARAMS_MAX];
    if (p->step == STEP_BEGIN) {
        stepper_send(p->session, "BEGIN");
    } else if (p->step == STEP_END) {
        stepper_send(p->session, p->end == COMMITS ? "COMMIT" : "ROLLBACK");
    } else {
        int n = act_params(p->act, &s->g->cast, params);
        stepper_send_prepared(p->session, p->act->st, params, n);
    }
}

/* A step was answered. */
static void take_step(struct schedule *s, struct part *p)
{
    if (p->step == STEP_ACT) {
        take_act(s, p);
    } else if (*stepper_state(p->session)) {
        complain(s, PQresultErrorMessage(p->session->result));
    }
    if (p->step == STEP_END) {
        p->ended = true;
        if (p->end == COMMITS && p->effective) {
            model_apply(&s->model, p->act->effect);
        }
    }
    p->step++;
}

static void kill_part(struct schedule *s, struct part *p)
{
    stepper_kill(p->session, s->g->fx->conn);
    s->g->kills++;
    p->ended = true;
    p->put_off = 0;
    p->step = STEPS;
}

static void do_step(struct schedule *s, struct part *p)
{
    struct part *other = &s->part[p == &s->part[0]];
    if (p->step == STEP_END && p->end == IS_KILLED) {
        kill_part(s, p);
        return;
    }
    if (p->step == STEP_ACT) {
        p->acted = true;
        p->overlapped = other->overlapped = other->acted && !other->ended;
    }
    send_step(s, p);
    if (stepper_settle(p->session, s->g->fx->conn)) {
        take_step(s, p);
    } else {
        s->any_blocked = true;
    }
}

/* Let one that waited go on, if it can. */
static void let_go_on(struct schedule *s, struct part *p)
{
    if (p->session->busy && stepper_settle(p->session, s->g->fx->conn)) {
        take_step(s, p);
    }
    while (!p->session->busy && p->put_off > 0) {
        p->put_off--;
        do_step(s, p);
    }
}

static void take_turn(struct schedule *s, struct part *p)
{
    struct part *other = &s->part[p == &s->part[0]];
    if (!p->session->busy) {
        do_step(s, p);
    } else if (p->step == STEP_ACT && p->end == IS_KILLED) {
        kill_part(s, p); /* while it waits */
    } else {
        p->put_off++;
    }
    let_go_on(s, other);
}

/* An act without an effect: there was nothing to do, or it left the row out, as it may. */
static void check_idle(const struct schedule *s, const struct part *p)
{
    const struct part *other = &s->part[p == &s->part[0]];
    bool excused = (p->act->skips_locked && p->overlapped) ||
                   (act_skips_marked(p->act) && other->acted);
    if (p->act->effect != NONE && p->step == STEPS && p->end != IS_KILLED && !p->effective &&
        p->was_allowed && !excused) {
        complain(s, p == &s->part[0] ? "the first did nothing" : "the second did nothing");
    }
}

static const char look_at_task[] =
    "SELECT count(*) || ' ' || min(state) || ' ' || min(claims) || ' ' || min(failures) || ' ' ||"
    " min(crashes) || ' ' || (SELECT count(*) FROM tenon.task WHERE unique_key = 'k')"
    " || coalesce(' ' || (SELECT worker_id FROM tenon.task WHERE id = $1), '')"
    " FROM tenon.tasks WHERE id = $1";

static void check_end(const struct schedule *s)
{
    const struct model *m = &s->model;
    const struct stage *g = s->g;
    char want[160];
    const char *holder = m->state == HELD    ? g->cast.held.worker
                         : m->state == TAKEN ? g->cast.claimer
                                             : "";
    (void)snprintf(want, sizeof want, "1 %s %d %d %d %d%s%s", state_words[m->state], m->claims,
                   m->failures, m->crashes, !state_is_over(m->state) || m->new_task,
                   *holder ? " " : "", holder);
    const char *const params[] = {g->cast.id};
    PGresult *result = PQexecParams(g->fx->conn, look_at_task, 1, NULL, params, NULL, NULL, 0);
    const char *got = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "";
    if (strcmp(got, want) != 0) {
        char text[600];
        (void)snprintf(text, sizeof text,
                       "(places state claims failures crashes key holder) %s,"
                       " not %s%s",
                       got, want, PQresultErrorMessage(result));
        complain(s, text);
    }
    PQclear(result);
}

static void schedule_run(struct schedule *s)
{
    struct stage *g = s->g;
    stage_make(g);
    s->model = (struct model){.state = g->begin, .claims = 2};
    for (int i = 0; i < 2; i++) {
        if (!g->sessions[i].conn) {
            stepper_open(&g->sessions[i], g->fx->database_url, g->lock_timeout_ms);
        }
        s->part[i].session = &g->sessions[i];
        stepper_prepare(&g->sessions[i], s->part[i].act->st); /* that may meet a lock as well */
    }
    for (const char *who = s->order; *who; who++) {
        take_turn(s, &s->part[*who == 'B']);
    }
    for (int i = 0; i < 2; i++) {
        let_go_on(s, &s->part[i]);
    }
    if (!s->part[0].ended || !s->part[1].ended) {
        complain(s, "they wait for each other");
    }
    check_idle(s, &s->part[0]);
    check_idle(s, &s->part[1]);
    check_end(s);
    g->schedules++;
    g->blocked += s->any_blocked;
}

/* --- a partition that is made, and one that is dropped --------------------------------------- */

static void partitions_stage(struct stage *g, const struct part part[2])
{
    for (int i = part[0].act == part[1].act; i < 2; i++) {
        if (part[i].act->st == &sql_history) {
            partition_begun(g->fx, "history", "9 days");
        } else if (act_is_of_partitions(part[i].act)) {
            test_sql(g->fx, "DO $$ BEGIN EXECUTE 'DROP TABLE IF EXISTS tenon.history_' ||"
                            " (SELECT last_value + 1 FROM tenon.history_part); END $$");
        }
    }
}

/* What was not done is done later by the same means. */
static void partitions_mend(struct schedule *s)
{
    struct fixture *fx = s->g->fx;
    while (!test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL")) {
    }
    test_sql(fx, "SELECT tenon.make_partitions()");
    char *parts = partitions_of(fx, "history"); /* one that took rows till now stays */
    if (strcmp(parts, "0 2") != 0 && strcmp(parts, "1 2") != 0) {
        complain(s, "the partitions are not what they should be");
    }
    free(parts);
}

/* --- all schedules --------------------------------------------------------------------------- */

/* Every order of three steps each. BEGIN takes neither a snapshot nor a lock, so those that differ
 * only in its place do the same: of the twenty, the first six are left. In the first two, B rolls
 * back or is killed while it waits for A, or while A waits for it; in the next two A does. */
static const char *const all_orders[] = {"AABBBA", "BBAABA", "AABBAB", "BBAAAB", "AAABBB",
                                         "BBBAAA", "AABABB", "ABAABB", "ABABAB", "ABABBA",
                                         "ABBAAB", "ABBABA", "ABBBAA", "BAAABB", "BAABAB",
                                         "BAABBA", "BABAAB", "BABABA", "BABBAA", "BBABAA"};
enum { ALL_ORDERS = 20, DIFFERENT_ORDERS = 6 };

static void pair_run(struct stage *g, const struct act *a, const struct act *b, enum end end_a,
                     enum end end_b)
{
    bool parts = act_is_of_partitions(a) || act_is_of_partitions(b);
    bool both_commit = end_a == COMMITS && end_b == COMMITS;
    int from = end_a == COMMITS ? 0 : 2;
    int orders = both_commit ? DIFFERENT_ORDERS : 2;
    if (load_is_long()) {
        from = 0, orders = ALL_ORDERS;
    }
    for (int i = from; i < from + orders; i++) {
        struct schedule s = {.g = g,
                             .order = all_orders[i],
                             .part = {{.act = a, .end = end_a}, {.act = b, .end = end_b}}};
        if (parts) {
            partitions_stage(g, s.part);
        }
        schedule_run(&s);
        if (parts) {
            partitions_mend(&s);
        }
    }
}

/* Would the schedule show anything new? */
static bool ends_matter(const struct stage *g, const struct act *a, const struct act *b,
                        const enum end ends[2])
{
    bool rolls_back = ends[0] == ROLLS_BACK || ends[1] == ROLLS_BACK;
    bool killed = ends[0] == IS_KILLED || ends[1] == IS_KILLED;
    bool waits = !a->skips_locked || !b->skips_locked;
    if (g->lock_timeout_ms > 0) {
        return waits && !killed && (load_is_long() || !rolls_back);
    }
    return !killed || load_is_long() || (g->begin == HELD && !a->stale && !b->stale);
}

static void ends_run(struct stage *g, const struct act *a, const struct act *b)
{
    static const enum end ends[][2] = {{COMMITS, COMMITS},
                                       {COMMITS, ROLLS_BACK},
                                       {ROLLS_BACK, COMMITS},
                                       {COMMITS, IS_KILLED},
                                       {IS_KILLED, COMMITS}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends_matter(g, a, b, ends[i])) {
            pair_run(g, a, b, ends[i][0], ends[i][1]);
        }
    }
}

/* Partitions are the history's: in the short variant they meet what writes it. */
static bool parts_matter(const struct stage *g, const struct act *a, const struct act *b)
{
    if (!load_is_long()) {
        return g->begin == HELD && act_writes_history(a) && act_writes_history(b);
    }
    return g->begin == HELD || (!act_is_fenced(a) && !act_is_fenced(b));
}

static bool pair_matters(const struct stage *g, const struct act *a, const struct act *b)
{
    if (act_is_of_partitions(a) || act_is_of_partitions(b)) {
        return parts_matter(g, a, b);
    }
    if (g->begin == CANCELLED) {
        return a == b && a->effect == ENQUEUES;
    }
    if (g->begin == READY) { /* every fence is of a claim that was lost */
        return !(act_is_fenced(a) && act_is_fenced(b)) && !a->stale && !b->stale;
    }
    return !(a->stale && b->stale);
}

static void pairs_run(struct stage *g)
{
    for (int i = 0; i < ACTS; i++) {
        for (int j = i; j < ACTS; j++) {
            if (pair_matters(g, &acts[i], &acts[j])) {
                ends_run(g, &acts[i], &acts[j]);
            }
        }
        test_sql(g->fx, "VACUUM tenon.task");
    }
}

/* How many there are, so that a rule above that leaves too many out is seen. */
struct counts {
    size_t schedules, kills, timeouts; /* at least */
};

static void interleave(void **state, enum state begin, int lock_timeout_ms, struct counts usual,
                       struct counts all)
{
    struct counts least = load_is_long() ? all : usual;
    struct stage g = {.fx = *state, .begin = begin, .lock_timeout_ms = lock_timeout_ms};
    test_sql(g.fx, "%s", stage_function);
    worker_make(g.fx, g.cast.claimer);
    worker_make(g.fx, g.cast.held.worker);
    memcpy(g.cast.lost.worker, g.cast.held.worker, UUID_BYTES);
    test_sql(g.fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now() WHERE id = '%s'",
             g.cast.held.worker);
    int64_t begin_ms = now_ms();
    pairs_run(&g);
    print_message("task %s at first, lock_timeout %d ms: %zu schedules, of which %zu met a lock;"
                  " %zu kills, %zu timeouts; %lld ms\n",
                  state_words[begin], lock_timeout_ms, g.schedules, g.blocked, g.kills, g.timeouts,
                  (long long)(now_ms() - begin_ms));
    assert_in_range(g.schedules, least.schedules, SIZE_MAX);
    assert_in_range(g.kills, least.kills, SIZE_MAX);
    assert_in_range(g.timeouts, least.timeouts, SIZE_MAX);
    assert_true(lock_timeout_ms > 0 || g.blocked > 0);
    stepper_close(&g.sessions[0]);
    stepper_close(&g.sessions[1]);
}

static void test_of_a_running_task(void **state)
{
    interleave(state, HELD, 0, (struct counts){2000, 410, 0}, (struct counts){15300, 6360, 0});
}

static void test_of_a_ready_task(void **state)
{
    interleave(state, READY, 0, (struct counts){540, 0, 0}, (struct counts){5560, 2300, 0});
}

static void test_of_a_key_that_is_free(void **state)
{
    interleave(state, CANCELLED, 0, (struct counts){10, 0, 0}, (struct counts){840, 410, 0});
}

/* As in production: who must wait for a lock gives up and repeats later. */
static void test_with_a_lock_timeout(void **state)
{
    interleave(state, HELD, 3, (struct counts){612, 0, 80}, (struct counts){5340, 0, 560});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_of_a_running_task),
        WITH_DATABASE(test_of_a_ready_task),
        WITH_DATABASE(test_of_a_key_that_is_free),
        WITH_DATABASE(test_with_a_lock_timeout),
    };
    return RUN_GROUP(tests);
}
