/* label: e2e */
/* timeout: 240 */
/* long: 600 */
/* only: all */
/* Flows and batches with real workers and cleaners, which are killed all the time while PostgreSQL
 * crashes now and then: every task starts after the ends of its parents, and each callback comes
 * and is done exactly once. A thousand flows, chains, and the commands. TEST_SEED=N strikes again
 * as a run did that printed it. */
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include "core/base/now.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCHES = 30,
    BATCHES_LONG = 400,
    MEMBERS = 8,
    KILL_EVERY_MS = 150, /* on average */
    CRASH_EVERY = 10,    /* strikes */
    ENDS_LIMIT_MS = 120000,
    FLOWS = 1000,
    EACH = 9, /* children of the parent of such a flow */
};

/* The diamond of 3 levels, and a batch of tasks of which every second one has a parent; one in
 * eight of them dies. */
#define MAKE                                                                                       \
    "SELECT tenon.flow('{\"tasks\": [{\"name\": \"a\", \"kind\": \"a\"},"                          \
    " {\"name\": \"b\", \"kind\": \"a\", \"depends_on\": [\"a\"]},"                                \
    " {\"name\": \"c\", \"kind\": \"a\", \"depends_on\": [\"a\"]},"                                \
    " {\"name\": \"d\", \"kind\": \"a\", \"depends_on\": [\"b\", \"c\"]}]}')"

static struct process *start_worker(struct fixture *fx)
{
    char a[256], done[256], dead[256], end[256];
    return TENON(fx, "worker", "--slots", "3", "--handler", handler(a, "a=pool:exec %s 2", "pool"),
                 "--handler", handler(done, "on_done=pool:exec %s 1", "pool"), "--handler",
                 handler(dead, "on_dead=pool:exec %s 1", "pool"), "--handler",
                 handler(end, "on_end=pool:exec %s 1", "pool"));
}

/* A batch whose tasks come in several transactions, while others of them run already. */
static void make_batch(struct fixture *fx, int i)
{
    int64_t f = test_sql_int(fx, "SELECT tenon.batch('on_done', 'on_dead', 'on_end',"
                                 " '{\"do\": \"sleep\", \"ms\": 100}')");
    int64_t last = 0;
    for (int k = 0; k < MEMBERS; k++) {
        last =
            test_sql_int(fx,
                         "SELECT tenon.enqueue('a', '{%s}', flow => %lld, depends_on => '{%.0lld}',"
                         " on_parent_dead => 'run')",
                         (i * MEMBERS + k) % 16 == 5 ? "\"do\": \"dead\"" : "", (long long)f,
                         (long long)(k % 2 == 1 ? last : 0));
    }
    test_sql(fx, "SELECT tenon.close(%lld)", (long long)f);
}

struct stage {
    struct fixture *fx;
    struct process *workers[2], *cleaners[2];
    unsigned random;
};

/* Kill one of the workers, start another. */
static void strike_worker(struct stage *s)
{
    int which = rand_r(&s->random) % 2;
    process_kill(s->workers[which]);
    s->workers[which] = start_worker(s->fx);
}

static void strike(struct stage *s, int i)
{
    (void)poll(NULL, 0, rand_r(&s->random) % (2 * KILL_EVERY_MS)); /* a bounded number of strikes */
    int which = rand_r(&s->random) % 2;
    if (i % CRASH_EVERY == CRASH_EVERY / 2) {
        server_crash(s->fx);
    } else if (rand_r(&s->random) % 3 == 0) {
        process_kill(s->cleaners[which]);
        s->cleaners[which] = TENON(s->fx, "cleaner");
    } else {
        strike_worker(s);
    }
}

/* Most batches end when the last dead worker has been recovered: strike while callbacks run. */
static void strike_at_callbacks(struct stage *s, int n)
{
    for (int i = 0; i < n && test_sql_bool(s->fx, "SELECT EXISTS (TABLE tenon.task)"); i++) {
        test_await(s->fx, ENDS_LIMIT_MS,
                   "SELECT EXISTS (SELECT FROM tenon.task WHERE kind LIKE 'on%%' AND start_time >"
                   " clock_timestamp() - interval '50 ms') OR NOT EXISTS (TABLE tenon.task)");
        strike_worker(s);
    }
}

static void assert_none(struct fixture *fx, const char *what, const char *sql)
{
    int64_t n = test_sql_int(fx, "SELECT count(*) FROM (%s) x", sql);
    if (n > 0) {
        fail_msg("%s: %lld times", what, (long long)n);
    }
}

static void assert_after_parents(struct fixture *fx)
{
    assert_none(fx, "a task started before its parent's end",
                "SELECT FROM tenon.flow_task c JOIN tenon.tasks t ON t.id = c.id"
                " CROSS JOIN unnest(c.parents) p JOIN tenon.tasks v ON v.id = p"
                " WHERE t.start_time < v.end_time OR v.end_time IS NULL");
}

/* By the journal: one run is the one that was finished, all others were of workers that died. */
static void assert_callbacks_ran(struct fixture *fx)
{
    struct journal j;
    journal_read(fx, &j);
    journal_store(fx, &j);
    journal_clear(&j);
    assert_none(fx, "a callback was not done",
                "SELECT FROM tenon.tasks WHERE kind LIKE 'on%%' AND state <> 'done'");
    assert_none(fx, "a callback was done without a run, or with two",
                "SELECT FROM tenon.history c WHERE c.kind LIKE 'on%%' AND (SELECT count(*) FROM"
                " run r WHERE r.id = c.id AND r.claims = c.claims AND r.end_us > 0) <> 1");
    assert_none(
        fx, "a callback ran once more, and no worker had died",
        "SELECT FROM tenon.history c JOIN run r USING (id) WHERE c.kind LIKE 'on%%' AND"
        " r.claims <> c.claims AND NOT EXISTS (SELECT FROM tenon.attempt a WHERE a.task_id ="
        " r.id AND a.claims = r.claims AND a.outcome = 'crashed')");
    print_message("%lld callbacks, %lld runs of them\n",
                  (long long)test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE kind LIKE"
                                              " 'on%%'"),
                  (long long)test_sql_int(fx, "SELECT count(*) FROM tenon.history JOIN run"
                                              " USING (id) WHERE kind LIKE 'on%%'"));
}

static void check(struct fixture *fx, int batches)
{
    assert_after_parents(fx);
    assert_callbacks_ran(fx);
    assert_none(fx, "a callback is missing, or there twice",
                "SELECT f.id FROM tenon.flow f WHERE f.on_end IS NOT NULL AND"
                " (SELECT array_agg(t.kind ORDER BY t.kind) FROM tenon.tasks t"
                " WHERE t.payload ->> 'flow' = f.id::text) IS DISTINCT FROM ARRAY[CASE WHEN EXISTS"
                " (SELECT FROM tenon.flow_task m WHERE m.flow = f.id AND m.state = 'dead')"
                " THEN 'on_dead' ELSE 'on_done' END, 'on_end']");
    assert_none(fx, "a callback started before an end of its batch",
                "SELECT FROM tenon.tasks c JOIN tenon.flow_task m ON m.flow::text = c.payload ->>"
                " 'flow' JOIN tenon.tasks t ON t.id = m.id WHERE c.start_time < t.end_time");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow WHERE ended_at IS NOT NULL"),
                     2 * batches);
    assert_int_equal(test_sql_int(fx, "SELECT (SELECT count(*) FROM tenon.flow_wait) + (SELECT"
                                      " count(*) FROM tenon.flow_note)"),
                     0);
}

static void test_under_kill(void **state)
{
    struct fixture *fx = *state;
    int n = getenv("TEST_LONG") ? BATCHES_LONG : BATCHES;
    const char *given = getenv("TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)now_us();
    test_sql(fx, "INSERT INTO tenon.kind (name, max_crashes) SELECT k, 100"
                 " FROM unnest('{a,on_done,on_dead,on_end}'::text[]) k");
    struct stage s = {fx, {start_worker(fx), start_worker(fx)}, {TENON(fx, "cleaner")}, seed};
    s.cleaners[1] = TENON(fx, "cleaner");
    print_message("%d strikes from seed %u\n", n, seed);
    for (int i = 0; i < n; i++) {
        test_sql(fx, MAKE);
        make_batch(fx, i);
        strike(&s, i);
    }
    strike_at_callbacks(&s, n / 2);
    test_await(fx, ENDS_LIMIT_MS,
               "SELECT NOT EXISTS (SELECT FROM tenon.task) AND NOT EXISTS (SELECT FROM"
               " tenon.flow_note), (SELECT string_agg(id || ' ' || kind || ' ' || state, ', ')"
               " FROM tenon.tasks WHERE end_time IS NULL)");
    check(fx, n);
    for (int i = 0; i < 2; i++) {
        end_well(s.workers[i]);
        end_well(s.cleaners[i]);
    }
}

static int start_postgres(void **state)
{
    return server_fixture_setup(state, "flow");
}

static void test_a_thousand_flows(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = pool_worker(fx, "16", "8");
    test_sql(fx,
             "SELECT tenon.flow(d.flow) FROM generate_series(1, %d), (SELECT jsonb_build_object("
             "'tasks', '{\"name\": \"p\", \"kind\": \"a\"}'::jsonb || jsonb_agg("
             "'{\"kind\": \"a\", \"depends_on\": [\"p\"]}'::jsonb)) AS flow FROM generate_series("
             "1, %d)) d",
             FLOWS, EACH);
    test_await(fx, ENDS_LIMIT_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow_task WHERE parents <> '{}'"),
                     FLOWS * EACH);
    assert_after_parents(fx);
    assert_each_ran_once(fx, (size_t)FLOWS * (1 + EACH));
    end_well(worker);
    end_well(cleaner);
}

/* Each link of a chain, and a thousand children of one task, by themselves, and with RabbitMQ or
 * without it: no poll's second between them. */
static void run_chain(struct fixture *fx, const char *broker)
{
    enum { LINKS = 60, CHILDREN = 1000 };
    char h[256];
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", broker);
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = TENON(fx, "worker", "--amqp-url", broker, "--slots", "2", "--handler",
                                   handler(h, "a=pool:exec %s 10", "pool"));
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    test_sql(fx,
             "SELECT tenon.flow(jsonb_build_object('tasks', (SELECT jsonb_agg(jsonb_build_object("
             "'name', 'l' || i, 'kind', 'a', 'depends_on', CASE WHEN i = 1 THEN '[]'::jsonb ELSE"
             " jsonb_build_array('l' || i - 1) END)) FROM generate_series(1, %d) i)))",
             LINKS);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    /* not at once, but a link in much less than the second that a poll takes */
    assert_true(test_sql_bool(fx, "SELECT max(finished_at) - min(finished_at) < interval '20 s'"
                                  " FROM tenon.history"));
    test_sql(fx,
             "SELECT tenon.flow(jsonb_build_object('tasks', jsonb_build_array('{\"name\": \"p\","
             " \"kind\": \"a\"}'::jsonb) || (SELECT jsonb_agg('{\"kind\": \"a\", \"depends_on\":"
             " [\"p\"]}'::jsonb) FROM generate_series(1, %d))))",
             CHILDREN);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    test_sql(fx, "TRUNCATE tenon.history");
    end_well(worker);
    end_well(cleaner);
}

static void test_a_chain(void **state)
{
    struct fixture *fx = *state;
    run_chain(fx, fx->amqp_url);
    run_chain(fx, "none");
}

/* --- the commands ----------------------------------------------------------------------------- */

#define SAYS(fx, out, ...) TENON_SAYS(fx, 0, out, "", __VA_ARGS__)

#define FAILS(fx, code, log, ...) TENON_SAYS(fx, code, "", log, __VA_ARGS__)

static void test_commands(void **state)
{
    struct fixture *fx = *state;
    SAYS(fx, "no flows", "flow", "list");
    test_sql(fx, "SELECT tenon.flow('nightly'); SELECT tenon.batch(on_end => 'b')");
    SAYS(fx, "1\n", "enqueue", "a", "--flow", "1");
    SAYS(fx, "2\n", "enqueue", "b", "--flow", "1", "--depends-on", "1", "--on-parent-dead", "run");
    SAYS(fx, "3\n", "enqueue", "c", "--flow", "1", "--depends-on", "1,2");
    SAYS(fx, "\n   1  nightly  running      3        2        1", "flow", "list");
    SAYS(fx, "--cursor 2", "flow", "list", "--limit", "1");
    SAYS(fx, "nightly", "flow", "list", "--cursor", "2");
    SAYS(fx,
         "\n1     -     a     ready    \n  2   -     b     blocked  \n  3   -     c     blocked  2",
         "flow", "1");
    SAYS(fx, "tasks          3: 2 blocked, 1 waiting", "flow", "1");
    SAYS(fx, "\"parents\" : [1,2]}]}", "flow", "1", "--json");
    SAYS(fx, "\"shown\": 3,", "flow", "1", "--json", "--limit", "3");
    SAYS(fx, "\"shown\": 2,", "flow", "1", "--json", "--limit", "2");
    SAYS(fx, "(the first 2 of 3 tasks: --limit shows more, and tenon list --flow 1 all)", "flow",
         "1", "--limit", "2");
    char *whole = TENON_RUN(fx, 0, "flow", "1", "--limit", "3");
    assert_null(strstr(whole, "of 3 tasks"));
    free(whole);
    SAYS(fx, "It waits for 2 parents: 1 (a, ready), 2 (b, blocked).", "why", "3");
    SAYS(fx, "\nflow           1\n", "show", "3");
    SAYS(fx, "\"why\" : \"waits_for_parents\"", "show", "3", "--json");
    SAYS(fx, "blocked", "list", "--state", "blocked");
    SAYS(fx, "\"blocked\":2", "status", "--json");
    SAYS(fx, "flow 2 closed", "flow", "close", "2");
    SAYS(fx, "flow 2 was not open", "flow", "close", "2");
    SAYS(fx, "{\"flow\" : 1, \"cancelled\" : 3}", "flow", "cancel", "1", "--json");
    FAILS(fx, 1, "there is no flow 9", "flow", "9");
    FAILS(fx, 1, "there is no flow 9; tenon flow list", "flow", "cancel", "9");
    FAILS(fx, 2, "\"x\" is not the number of a flow", "flow", "x");
    FAILS(fx, 2, "an argument is missing: tenon flow cancel ID", "flow", "cancel");
    FAILS(fx, 2, "unexpected argument: tenon flow list", "flow", "list", "1");
    FAILS(fx, 2, "--depends-on", "enqueue", "a", "--flow", "1", "--depends-on", "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_thousand_flows),
        WITH_SERVERS(test_a_chain),
        WITH_SERVERS(test_commands),
        /* the last: what follows would meet its server */
        cmocka_unit_test_setup_teardown(test_under_kill, start_postgres, server_fixture_teardown),
    };
    return RUN_GROUP(tests);
}
