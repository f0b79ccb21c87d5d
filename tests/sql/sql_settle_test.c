/* label: sql */
/* timeout: 240 */
/* long: 1200 */
/* Random schedules of what may happen to tasks with parents, limits and signals (settle_acts.c), by
 * tenon's own statements and in several sessions whose transactions stay open, commit late or roll
 * back; and tenon.settle(), two of them at once. After each act the rows say whether what was let
 * go was allowed to (settle_rules.c); when all is done every task has ended, nothing is left, and
 * the whole of each limit can be had.
 *
 * The same schedules find each of the mutants below: functions of the schema with one rule broken.
 * A failure prints its seed; TEST_SEED=N runs that schedule alone. */
#include "tests/support/settle_acts.h"
#include "tests/support/settle_stage.h"

#include "core/base/now.h"
#include "worker/statements.h"

#include <stdio.h>

enum {
    SCHEDULES = 15,
    SCHEDULES_LONG = 1500,
    MUTANT_SCHEDULES = 150, /* in which a mutant must be found */
    ACTS = 60,
    DRAIN_MS = 60000,
};

/* --- what may happen --- */

static void ask(struct schedule *s, const char *function)
{
    char *broken = test_sql_text(s->fx, "SELECT public.%s", function);
    if (broken) {
        breaks(s, broken);
    }
    free(broken);
}

/* And remember how it is now. */
static void check(struct schedule *s)
{
    ask(s, is_quiet(s) ? "wrong(true)" : "wrong(false)");
}

static void settle_all(struct schedule *s)
{
    do {
        check(s);
    } while (!*s->broken && test_sql_int(s->fx, "SELECT tenon.settle()") > 0);
    check(s);
    ask(s, "stuck()");
}

/* One settles; before its end another does, or something else happens; it commits, or is killed. It
 * sees nothing that has not been committed. */
static void act_settle(struct schedule *s)
{
    PGconn *one = s->sessions[below(s, SESSIONS)].conn;
    PGconn *two = s->sessions[below(s, SESSIONS)].conn;
    if (is_open(one) || is_open(two) || below(s, 2)) {
        act_sql(s, s->fx->conn, "SELECT tenon.settle()");
        return;
    }
    act_sql(s, one, "BEGIN; SELECT tenon.settle()");
    for (int i = below(s, 4); i > 0; i--) {
        act_any_other(s);
        check(s);
    }
    if (!is_open(two)) {
        act_sql(s, two, "SELECT tenon.settle()");
        check(s);
    }
    end_transaction(s, one);
}

static void act_any(struct schedule *s)
{
    if (below(s, 3) == 0) {
        act_settle(s);
    } else {
        act_any_other(s);
    }
    check(s);
}

/* --- the end of a schedule: all ends --- */

static void end_claims(struct schedule *s)
{
    while (s->n_claims > 0) {
        struct held c = s->claims[--s->n_claims];
        (void)held_finish(s->fx, &sql_finish, &c, "{}");
    }
}

static void resume(struct schedule *s)
{
    act_sql(s, s->fx->conn, "UPDATE tenon.limit SET until = now() WHERE until IS NOT NULL");
    act_sql(s, s->fx->conn,
            "SELECT tenon.resume_limit(name) FROM tenon.paused WHERE what = 'limit'");
}

/* An operator sees to what would wait for ever: limits go on, signals that are waited for are sent,
 * dead tasks are retried, and who waits for one that will never be done is cancelled. */
static void help(struct schedule *s)
{
    resume(s);
    act_sql(s, s->fx->conn,
            "WITH n AS MATERIALIZED (SELECT name, tenon.signal(name, '9') AS first FROM (SELECT"
            " DISTINCT signal AS name FROM tenon.waiting WHERE settled) w) INSERT INTO public.sent"
            " SELECT name, '9' FROM n WHERE first");
    act_sql(s, s->fx->conn, "SELECT tenon.retry_where('{\"state\": \"dead\"}')");
    act_sql(
        s, s->fx->conn,
        "SELECT tenon.cancel(w.task) FROM tenon.flow_wait w WHERE w.on_dead = 'wait' AND NOT EXISTS"
        " (SELECT FROM tenon.task t WHERE t.id = w.parent) AND NOT EXISTS (SELECT FROM public.ended"
        " e WHERE e.id = w.parent AND e.outcome = 'done')");
}

/* Handlers of what was cancelled while it ran are over. */
static void end_handlers(struct schedule *s)
{
    act_sql(s, s->fx->conn,
            "UPDATE public.made SET counts = false WHERE counts; UPDATE tenon.limit_task SET"
            " wanted_at = clock_timestamp() WHERE state = 'ending'");
}

/* Nothing can be claimed, now or later, and tenon.settle() has nothing to do. */
static bool is_idle(struct schedule *s)
{
    return test_sql_bool(s->fx,
                         "SELECT NOT EXISTS (SELECT FROM tenon.task WHERE run_at < 'infinity') AND"
                         " NOT EXISTS (SELECT FROM tenon.waiting WHERE until < now() + interval"
                         " '1 hour') AND tenon.limits_due_ms() IS NULL"
                         " AND tenon.first_note(0) IS NULL");
}

static void drain(struct schedule *s)
{
    int idle = 0;
    int64_t until_ms = patience_end_ms(DRAIN_MS);
    while (!*s->broken && test_sql_int(s->fx, "SELECT count(*) FROM tenon.task") > 0) {
        settle_all(s);
        act_claim(s);
        for (int64_t n = test_sql_int(s->fx, "SELECT count(*) FROM tenon.ready"); n > 0; n--) {
            act_claim(s);
        }
        idle = s->n_claims == 0 && is_idle(s) ? idle + 1 : 0;
        if (s->n_claims == 0) {
            help(s);
            end_handlers(s);
        }
        end_claims(s);
        if (idle == 3 || now_ms() > until_ms) {
            char *why = test_sql_text(s->fx, "SELECT id || ' never ended: ' || tenon.why(id) FROM"
                                             " tenon.task ORDER BY id LIMIT 1");
            breaks(s, why);
            free(why);
        }
    }
}

/* One of the batch's tasks that did not go well is retried, so that the batch ends once more. */
static void end_again(struct schedule *s)
{
    settle_all(s);
    act_sql(
        s, s->fx->conn,
        "WITH m AS MATERIALIZED (SELECT id FROM tenon.flow_task WHERE flow = %lld AND state IN"
        " ('dead', 'cancelled', 'expired') ORDER BY id LIMIT 1), r AS MATERIALIZED (SELECT id,"
        " tenon.retry_where(jsonb_build_object('ids', id)) FROM m), w AS (DELETE FROM public.wait w"
        " USING r WHERE w.task = r.id) UPDATE public.made m SET parents = NULL, counts = false"
        " FROM r WHERE m.id = r.id",
        s->flow);
    drain(s);
}

static void check_nothing_left(struct schedule *s)
{
    static const char *const tables[] = {"flow_wait",
                                         "flow_note",
                                         "limit_event",
                                         "limit_task WHERE state <> 'dead'",
                                         "limit_turn WHERE active",
                                         "waiting"};
    resume(s);
    end_handlers(s);
    settle_all(s);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        int64_t n = test_sql_int(s->fx, "SELECT count(*) FROM tenon.%s", tables[i]);
        if (n > 0) {
            char what[100];
            (void)snprintf(what, sizeof what, "%lld rows are left in tenon.%s", (long long)n,
                           tables[i]);
            breaks(s, what);
        }
    }
    ask(s, "leaks()");
    if (!test_sql_bool(s->fx,
                       "SELECT state = 'ended' AND end_task IS NOT NULL AND num_nonnulls("
                       "done_task, dead_task) > 0 FROM tenon.flows WHERE id = %lld",
                       s->flow)) {
        breaks(s, "the batch has not ended, or its callbacks are missing");
    }
}

/* --- schedules --- */

static void begin(struct schedule *s)
{
    struct fixture *fx = s->fx;
    test_sql(fx, "SELECT public.clear()");
    worker_make(fx, s->worker);
    s->flow = (long long)
        test_sql_int(fx, "SELECT tenon.batch(on_done => 'b', on_dead => 'mail', on_end => 'a')");
    sessions_open(s);
}

/* ret: false and s->broken: a rule was */
static bool run_schedule(struct schedule *s)
{
    s->random = s->seed * 0x9E3779B97F4A7C15 + 1;
    begin(s);
    acts_begin(s);
    for (int i = 0; i < ACTS && !*s->broken; i++) {
        act_any(s);
    }
    sessions_close(s);
    act_sql(s, s->fx->conn, "SELECT tenon.close(%lld)", s->flow);
    drain(s);
    end_again(s);
    if (!*s->broken) {
        check_nothing_left(s);
    }
    return !*s->broken;
}

/* ret: the number of the schedule that broke a rule, `n`: none did */
static int run_schedules(struct fixture *fx, uint64_t seed, int n, char broken[1000])
{
    for (int i = 0; i < n; i++) {
        struct schedule s = {.fx = fx, .seed = seed + (uint64_t)i, .says = n == 1};
        if (!run_schedule(&s)) {
            memcpy(broken, s.broken, sizeof s.broken);
            return i;
        }
    }
    return n;
}

static void test_any_order(void **state)
{
    struct fixture *fx = *state;
    char broken[1000];
    const char *given = getenv("TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)now_us() % 1000000000;
    int n = given ? 1 : getenv("TEST_LONG") ? SCHEDULES_LONG : SCHEDULES;
    settle_stage(fx);
    print_message("%d schedules from seed %llu\n", n, (unsigned long long)seed);
    int i = run_schedules(fx, seed, n, broken);
    if (i < n) {
        fail_msg("%s (TEST_SEED=%llu)", broken, (unsigned long long)seed + (unsigned)i);
    }
}

/* --- mutants --- */

/* `seed`: a schedule that found it, from which the search goes on. */
struct mutant {
    uint64_t seed;
    const char *name, *function, *from, *to;
};

static const struct mutant mutants[] = {
    {20, "a child that comes while its parent ends leaves no note",
     "tenon.join_flow(bigint[],bigint,bigint[],bigint[],text)",
     "INSERT INTO tenon.flow_note (flow, task) SELECT flow, i FROM unnest(ids) i;", ""},
    {9, "the first parent that ends unblocks a child",
     "tenon.end_waits(bigint[],bigint[],bigint[],bigint[],integer)",
     "AND (SELECT w.parent FROM tenon.flow_wait w WHERE w.task = ANY (ARRAY[t.id]) ORDER BY w.task"
     " DESC, w.parent DESC LIMIT 1) IS NULL",
     ""},
    {13, "a dead parent counts as done",
     "tenon.record_flow_ends(bigint[],timestamp with time zone)", "SELECT 2, 'dead', NULL",
     "SELECT 2, 'done', NULL"},
    {2, "a batch that ends again has its callback again", "tenon.end_flow(tenon.flow)",
     "AND f.end_task IS NULL", ""},
    {3, "what was let go does not count", "tenon.limit_rooms(text[],text[])",
     "l.state IN ('held', 'ending')) h", "l.state = 'ending') h"},
    {19, "a task that waits for its time loses its place", "tenon.limit_heads(tenon.limit_room[])",
     "AND l.key = r.key ORDER BY l.task_id LIMIT 1) h",
     "AND l.key = r.key AND l.state = 'waits' ORDER BY l.task_id LIMIT 1) h"},
    {1, "an end gives nothing back",
     "tenon.record_end(bigint,text,timestamp with time zone,text,bigint,timestamp with time zone,"
     "bigint,text[],boolean,integer,integer,boolean,boolean)",
     "IF limit_keys IS NOT NULL THEN", "IF false THEN"},
    {9, "what is cancelled while it runs counts no more",
     "tenon.record_end(bigint,text,timestamp with time zone,text,bigint,timestamp with time zone,"
     "bigint,text[],boolean,integer,integer,boolean,boolean)",
     "was_cancelled AND start_time IS NOT NULL", "false"},
    {4, "what was let go and has not started does not count against a rate",
     "tenon.limit_used(text,timestamptz)", "coalesce(t.start_time > $2, true)",
     "t.start_time > $2"},
    {4, "a start counts until its task ends", "tenon.limit_settle_ends(tenon.limit_event[])",
     "IF EXISTS (SELECT FROM tenon.limit r WHERE r.max_starts IS NOT NULL) THEN", "IF false THEN"},
    {2, "two take from one rate at once", "tenon.take_limit(text,integer)",
     "ORDER BY l.name FOR NO KEY UPDATE;", ";"},
    {2, "tasks are let go while somebody takes", "tenon.limit_rooms(text[],text[])",
     "AND l.name <> ALL (mine)", "AND false"},
    {2, "a pause of a part before the colon holds nothing back", "tenon.limit_rule(text)",
     "p.name IN (k.key, k.part)", "p.name = k.key"},
    {3, "a key that was full takes no part again", "tenon.limit_take_part(text,tenon.limit_room[])",
     "active = true", "active = t.active"},
    {5, "who begins to wait when his signal has been settled is not looked at",
     "tenon.settle_signals(integer)", "WHERE NOT w.settled AND", "WHERE false AND"},
    {3, "who was woken does not wait for his limits",
     "tenon.end_wait(bigint,timestamp with time zone)", "IF t.limit_keys IS NOT NULL THEN",
     "IF false THEN"},
};

/* ret: the function as it was */
static char *plant(struct fixture *fx, const struct mutant *m)
{
    char *was = test_sql_text(fx, "SELECT pg_get_functiondef('%s'::regprocedure)", m->function);
    char *at = strstr(was, m->from);
    if (!at) {
        fail_msg("%s: %s does not contain \"%s\" any more: make the mutant anew", m->name,
                 m->function, m->from);
    }
    test_sql(fx, "%.*s%s%s", (int)(at - was), was, m->to, at + strlen(m->from));
    return was;
}

static void test_mutants(void **state)
{
    struct fixture *fx = *state;
    char broken[1000];
    settle_stage(fx);
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        char *was = plant(fx, &mutants[i]);
        int n = run_schedules(fx, mutants[i].seed, MUTANT_SCHEDULES, broken);
        if (n == MUTANT_SCHEDULES) {
            fail_msg("%d schedules do not find the mutant: %s", n, mutants[i].name);
        }
        print_message("found by schedule %d: %s: %s\n", (int)mutants[i].seed + n, mutants[i].name,
                      broken);
        test_sql(fx, "%s", was);
        free(was);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_any_order),
        WITH_DATABASE(test_mutants),
    };
    return RUN_GROUP(tests);
}
