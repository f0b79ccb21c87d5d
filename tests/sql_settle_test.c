/* label: sql */
/* timeout: 240 */
/* long: 1200 */
/* Random schedules of what may happen to tasks with parents and limits, by tenon's own statements
 * and in several sessions: enqueue, claim, every end, cancel, retry, delete, and tenon.settle(),
 * two of them at once, committed or rolled back. After each act the rows say whether what was let
 * go was allowed to; when all is done every task has ended and nothing is left. The simulation
 * (tests/sim) holds a model of tenon.settle() to the same rules.
 *
 * The same schedules find each of the mutants below: functions of the schema with one rule broken.
 * A failure prints its seed; TEST_SEED=N runs that schedule alone. */
#include "tests/support/held.h"
#include "tests/support/settle_stage.h"

#include "core/now.h"
#include "worker/statements.h"

#include <stdio.h>

enum {
    SCHEDULES = 15,
    SCHEDULES_LONG = 1500,
    MUTANT_SCHEDULES = 150, /* in which a mutant must be found */
    ACTS = 50,
    SESSIONS = 3,
    CLAIMS_MAX = 200,
    DRAIN_MS = 60000,
};

struct schedule {
    struct fixture *fx;
    uint64_t seed, random;
    PGconn *sessions[SESSIONS];
    char worker[UUID_BYTES];
    long long flow;
    int n_claims;
    struct held claims[CLAIMS_MAX];
    bool says; /* each act */
    char broken[1000];
};

static int below(struct schedule *s, int n)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return n > 0 ? (int)((s->random * 0x2545F4914F6CDD1D) >> 33) % n : 0;
}

static void breaks(struct schedule *s, const char *what)
{
    if (!*s->broken) {
        (void)snprintf(s->broken, sizeof s->broken, "%s", what);
    }
}

/* --- sessions --- */

static bool is_open(PGconn *conn)
{
    return PQtransactionStatus(conn) != PQTRANS_IDLE;
}

/* Errors that are part of it: a row is locked, a deadlock, a flow that has ended. */
static bool may_fail(const char *state)
{
    return strcmp(state, "55P03") == 0 || strcmp(state, "40P01") == 0 ||
           strcmp(state, "55000") == 0;
}

/* ret: it was done. What failed is rolled back, with all of its transaction. */
static bool run_sql(struct schedule *s, PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (s->says) {
        print_message("  %d%s %s: %s\n", PQbackendPID(conn), is_open(conn) ? "*" : "", sql,
                      state                    ? PQresultErrorMessage(result)
                      : PQntuples(result) == 1 ? PQgetvalue(result, 0, 0)
                                               : "");
    }
    if (state && !may_fail(state)) {
        breaks(s, PQresultErrorMessage(result));
    }
    bool ok = state == NULL;
    PQclear(result);
    if (PQtransactionStatus(conn) == PQTRANS_INERROR) {
        PQclear(PQexec(conn, "ROLLBACK"));
    }
    return ok;
}

#define ACT(s, conn, ...)                                                                          \
    do {                                                                                           \
        char sql_[1000];                                                                           \
        (void)snprintf(sql_, sizeof sql_, __VA_ARGS__);                                            \
        (void)run_sql((s), (conn), sql_);                                                          \
    } while (0)

/* One that may be in a transaction, or begin one. */
static PGconn *any_session(struct schedule *s)
{
    PGconn *conn = s->sessions[below(s, SESSIONS)];
    if (!is_open(conn) && below(s, 3) == 0) {
        (void)run_sql(s, conn, "BEGIN");
    }
    return conn;
}

static void end_transaction(struct schedule *s, PGconn *conn)
{
    if (is_open(conn)) {
        (void)run_sql(s, conn, below(s, 4) > 0 ? "COMMIT" : "ROLLBACK");
    }
}

/* --- acts --- */

static void act_enqueue(struct schedule *s)
{
    static const char *const keys[] = {"NULL",  "NULL",        "'{n:1}'", "'{n:2}'",
                                       "'{o}'", "'{n:1,n:2}'", "'{p}'",   "'{o,n:2}'"};
    static const char *const on_dead[] = {"wait", "run", "cancel"};
    bool child = below(s, 3) == 0;
    char after[200] = "NULL";
    const char *dead = on_dead[below(s, 3)];
    if (child) {
        (void)snprintf(after, sizeof after,
                       "nullif(ARRAY(SELECT id FROM public.made ORDER BY id DESC OFFSET %d LIMIT"
                       " %d), '{}')",
                       below(s, 4), 1 + below(s, 3));
    }
    ACT(s, any_session(s),
        "WITH p AS MATERIALIZED (SELECT %s::bigint[] AS ids), n AS MATERIALIZED (SELECT"
        " tenon.enqueue('a', flow => %lld, after => p.ids, on_parent_dead => CASE WHEN p.ids IS NOT"
        " NULL THEN '%s' END, limit_keys => %s, priority => %d, delay => '%d ms') AS id, p.ids FROM"
        " p) INSERT INTO public.made SELECT n.id, n.ids, '%s' FROM n",
        after, s->flow, dead, keys[below(s, 8)], 4 + below(s, 2), below(s, 5) ? 0 : 1, dead);
}

/* A flow in one call: parent and child in one transaction. */
static void act_enqueue_flow(struct schedule *s)
{
    static const char *const keys[] = {"", ", \"limit_keys\": [\"n:1\"]",
                                       ", \"limit_keys\": [\"o\"]"};
    ACT(s, any_session(s),
        "WITH f AS MATERIALIZED (SELECT tenon.flow('{\"tasks\": [{\"name\": \"x\", \"kind\": \"a\""
        "%s}, {\"kind\": \"a\", \"after\": [\"x\"]%s}]}'::jsonb) AS id) SELECT public.made_by(f.id)"
        " FROM f",
        keys[below(s, 3)], keys[below(s, 3)]);
}

/* `order` by which one of the table is chosen by chance; 0: there is none. */
static long long any_id(struct schedule *s, const char *from)
{
    int64_t n = test_sql_int(s->fx, "SELECT count(*) FROM %s", from);
    return n == 0 ? 0
                  : (long long)test_sql_int(s->fx,
                                            "SELECT id FROM %s ORDER BY id OFFSET %d LIMIT"
                                            " 1",
                                            from, below(s, (int)n));
}

static void act_claim(struct schedule *s)
{
    long long id = any_id(s, "tenon.ready");
    if (id && s->n_claims < CLAIMS_MAX &&
        held_take(s->fx, s->worker, id, &s->claims[s->n_claims])) {
        s->n_claims += 1;
        if (s->says) {
            print_message("  task %lld is claimed\n", id);
        }
    }
}

static void act_end(struct schedule *s)
{
    static const char *const reasons[] = {"failed",  "failed", "dead",      "later",
                                          "crashed", "dead",   "timed_out", "released"};
    if (s->n_claims == 0) {
        return;
    }
    int i = below(s, s->n_claims), how = below(s, 16);
    struct held c = s->claims[i];
    s->claims[i] = s->claims[--s->n_claims];
    if (how >= 8) {
        (void)held_finish(s->fx, &sql_finish_unlocked, &c, "{\"result\": 1}");
    } else {
        free(held_requeue(s->fx, &c, reasons[how], "oops", below(s, 4) ? "0" : "1"));
    }
    if (s->says) {
        print_message("  the claim of %lld ends: %s\n", (long long)c.id,
                      how >= 8 ? "done" : reasons[how]);
    }
    /* locked, and so as it was: it is still ours */
    if (test_sql_bool(s->fx,
                      "SELECT count(*) > 0 FROM tenon.task WHERE id = %lld AND claims = %d"
                      " AND start_time IS NOT NULL",
                      (long long)c.id, c.claims)) {
        s->claims[s->n_claims++] = c;
    }
}

static void act_cancel(struct schedule *s)
{
    long long id = any_id(s, "tenon.task");
    ACT(s, any_session(s),
        "WITH m AS (UPDATE public.made m SET counts = true FROM tenon.task t WHERE t.id = m.id AND"
        " t.id = %lld AND t.start_time IS NOT NULL AND t.limit_keys IS NOT NULL) SELECT"
        " tenon.cancel(%lld)",
        id, id);
}

static void act_expire(struct schedule *s)
{
    ACT(s, any_session(s),
        "UPDATE tenon.task SET start_before = clock_timestamp() WHERE id = %lld AND start_time IS"
        " NULL",
        any_id(s, "tenon.task"));
}

static void act_retry(struct schedule *s)
{
    long long id = any_id(s, "tenon.tasks WHERE state IN ('dead', 'cancelled', 'expired') AND NOT"
                             " EXISTS (SELECT FROM tenon.task t WHERE t.id = tasks.id)");
    if (id) { /* it waits for nobody any more */
        ACT(s, any_session(s),
            "WITH r AS MATERIALIZED (SELECT tenon.retry('{\"ids\": %lld}') AS n) UPDATE public.made"
            " m SET parents = NULL, counts = false FROM r WHERE m.id = %lld AND r.n = 1",
            id, id);
    }
}

static void act_delete(struct schedule *s)
{
    long long id = any_id(s, "tenon.dead");
    if (id) {
        ACT(s, any_session(s), "SELECT tenon.delete('{\"ids\": %lld}')", id);
    }
}

static void act_any_other(struct schedule *s);

/* One settles; before its end another does, or something else happens; it commits, or is killed. */
static void act_settle(struct schedule *s)
{
    PGconn *one = s->sessions[below(s, SESSIONS)], *two = s->sessions[below(s, SESSIONS)];
    if (is_open(one) || is_open(two) || below(s, 2)) {
        ACT(s, s->fx->conn, "SELECT tenon.settle()");
        return;
    }
    ACT(s, one, "BEGIN; SELECT tenon.settle()");
    for (int i = below(s, 4); i > 0; i--) {
        act_any_other(s);
    }
    if (two != one) {
        ACT(s, two, "SELECT tenon.settle()");
    }
    end_transaction(s, one);
}

static void act_end_transaction(struct schedule *s)
{
    end_transaction(s, s->sessions[below(s, SESSIONS)]);
}

static void (*const others[])(struct schedule *) = {
    act_enqueue, act_enqueue, act_enqueue, act_enqueue_flow, act_claim,           act_claim,
    act_claim,   act_end,     act_end,     act_end,          act_cancel,          act_expire,
    act_retry,   act_delete,  act_claim,   act_end,          act_end_transaction,
};

static void act_any_other(struct schedule *s)
{
    others[below(s, sizeof others / sizeof *others)](s);
}

/* And remember how it is now. */
static void check(struct schedule *s)
{
    char *broken = test_sql_text(s->fx, "SELECT public.wrong()");
    if (broken) {
        breaks(s, broken);
    }
    free(broken);
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

static void settle_all(struct schedule *s)
{
    do {
        check(s);
    } while (!*s->broken && test_sql_int(s->fx, "SELECT tenon.settle()") > 0);
    check(s);
}

/* An operator sees to what would wait for ever: dead tasks are retried, and who waits for one that
 * will never be done is cancelled. */
static void help(struct schedule *s)
{
    ACT(s, s->fx->conn, "SELECT tenon.retry('{\"state\": \"dead\"}')");
    ACT(s, s->fx->conn,
        "SELECT tenon.cancel(w.task) FROM tenon.flow_wait w WHERE w.on_dead = 'wait' AND NOT EXISTS"
        " (SELECT FROM tenon.task t WHERE t.id = w.parent) AND NOT EXISTS (SELECT FROM public.ended"
        " e WHERE e.id = w.parent AND e.outcome = 'done')");
}

/* Handlers of what was cancelled while it ran are over. */
static void end_handlers(struct schedule *s)
{
    ACT(s, s->fx->conn,
        "UPDATE public.made SET counts = false WHERE counts; UPDATE tenon.limit_task SET"
        " wanted_at = clock_timestamp() WHERE state = 'ending'");
}

/* Nothing can be claimed, now or later, and tenon.settle() has nothing to do. */
static bool is_idle(struct schedule *s)
{
    return test_sql_bool(s->fx, "SELECT NOT EXISTS (SELECT FROM tenon.task WHERE run_at <"
                                " 'infinity') AND tenon.limits_due_ms() IS NULL");
}

static void drain(struct schedule *s)
{
    int idle = 0;
    int64_t until_ms = now_ms() + DRAIN_MS;
    while (!*s->broken && test_sql_int(s->fx, "SELECT count(*) FROM tenon.task") > 0) {
        settle_all(s);
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

static void check_nothing_left(struct schedule *s)
{
    static const char *const tables[] = {"flow_wait", "flow_note", "limit_event",
                                         "limit_task WHERE state <> 'dead'"};
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
    for (int i = 0; i < SESSIONS; i++) {
        s->sessions[i] = sql_connect(fx->database_url);
        sql_run(s->sessions[i], "SET lock_timeout = '20 ms'; SET deadlock_timeout = '10 ms'");
    }
}

/* ret: false and s->broken: a rule was */
static bool run_schedule(struct schedule *s)
{
    s->random = s->seed * 0x9E3779B97F4A7C15 + 1;
    begin(s);
    for (int i = 0; i < ACTS && !*s->broken; i++) {
        act_any(s);
    }
    for (int i = 0; i < SESSIONS; i++) {
        end_transaction(s, s->sessions[i]);
        PQfinish(s->sessions[i]);
    }
    ACT(s, s->fx->conn, "SELECT tenon.close(%lld)", s->flow);
    drain(s);
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
    {14, "a child that comes while its parent ends leaves no note",
     "tenon.join_flow(bigint[],bigint,bigint[],bigint[],text)",
     "INSERT INTO tenon.flow_note (flow, task) SELECT flow, i FROM unnest(ids) i;", ""},
    {6, "the first parent that ends unblocks a child",
     "tenon.end_waits(bigint[],bigint[],bigint[],integer)",
     "AND (SELECT w.parent FROM tenon.flow_wait w WHERE w.task = t.id ORDER BY w.parent DESC LIMIT"
     " 1) IS NULL",
     ""},
    {13, "a dead parent counts as done", "tenon.note_ends(bigint[],timestamp with time zone)",
     "SELECT 2, 'dead', NULL", "SELECT 2, 'done', NULL"},
    {2, "what was let go does not count", "tenon.limit_rooms(text[],text[])",
     "l.state IN ('held', 'ending')) h", "l.state = 'ending') h"},
    {15, "a task that waits for its time loses its place", "tenon.limit_heads(tenon.limit_room[])",
     "AND l.key = r.key ORDER BY l.task_id LIMIT 1) h",
     "AND l.key = r.key AND l.state = 'waits' ORDER BY l.task_id LIMIT 1) h"},
    {1, "an end gives nothing back", "tenon.task_ended()", "IF OLD.limit_keys IS NOT NULL THEN",
     "IF false THEN"},
    {1, "what is cancelled while it runs counts no more", "tenon.cancel(bigint)",
     "g.limit_keys IS NOT NULL AND g.start_time IS NOT NULL", "false"},
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
