/* label: e2e */
/* timeout: 120 */
/* What an idle system asks of PostgreSQL: a worker and two cleaners, after some work, and who waits
 * for a task that does not end. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <signal.h>
#include <stdlib.h>

enum {
    LIMIT_MS = 30000,
    STOP_MS = 10000,
    WATCHED_S = 10,
    OFTEN_MAX = WATCHED_S + 1, /* one a second, the window's both ends included */
    ALL_MAX = 5 * WATCHED_S,   /* worker 1.2 a second, leader 1.4, the other cleaner 1 */
    WAITER_MAX = 2,            /* one in ten seconds, the window's both ends included */
    ALL_MIN = 2 * WATCHED_S,   /* with fewer, nobody was watched */
};

/* The leader sleeps: it holds the sleeper's lock. */
static const char asleep[] =
    "SELECT EXISTS (SELECT FROM tenon.lock JOIN tenon.setting ON key = sleeper_key WHERE counts)";

/* Every 20 ms: what each session of the database has begun last. Only of those that are idle: while
 * a statement runs, its Bind and its Execute have a query_start each, and on a busy machine both
 * would be seen. Statements that are sent together count as one, by the last of them. Watched from
 * another database, so that this does not count. */
static const char watch[] =
    "DO $$ DECLARE begun timestamptz := clock_timestamp(); BEGIN"
    " CREATE TEMP TABLE seen (pid integer, query text, query_start timestamptz,"
    "                         UNIQUE (pid, query_start));"
    " WHILE clock_timestamp() < begun + interval '%d s' LOOP"
    "   INSERT INTO seen SELECT pid, query, query_start FROM pg_stat_activity"
    "   WHERE datname = '%s' AND backend_type = 'client backend' AND state <> 'active'"
    "   AND query_start BETWEEN begun AND begun + interval '%d s' ON CONFLICT DO NOTHING;"
    "   PERFORM pg_stat_clear_snapshot(), pg_sleep(0.02);"
    " END LOOP; END $$";

static void check_often(struct fixture *fx)
{
    assert_in_range(sql_int(fx->maintenance, "SELECT count(*) FROM seen"), ALL_MIN, ALL_MAX);
    char *busiest = sql_text(fx->maintenance,
                             "SELECT count(*) || ' times: ' || substring(query FROM '(?n)^.+$')"
                             " FROM seen GROUP BY pid, query ORDER BY count(*) DESC LIMIT 1");
    print_message("in %d s at most %s\n", WATCHED_S, busiest);
    if (strtol(busiest, NULL, 10) > OFTEN_MAX) {
        fail_msg("more often than once a second, in %d s %s", WATCHED_S, busiest);
    }
    free(busiest);
}

/* It has asked before it is watched, and is there all the time. */
static void check_waiter(struct fixture *fx, struct process *waiter)
{
    assert_in_range(sql_int(fx->maintenance,
                            "SELECT count(*) FROM seen WHERE query ~ 'tenon.await'"),
                    0, WAITER_MAX);
    assert_false(process_is_gone(waiter));
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.task WHERE awaited");
    assert_int_equal(process_wait(waiter, STOP_MS), 1);
}

static void test_an_idle_system_asks_little(void **state)
{
    struct fixture *fx = *state;
    struct process *worker = TENON(fx, "worker", "--handler", "mail=exec true");
    struct process *first = TENON(fx, "cleaner");
    process_await_line(first, "event=leader", LIMIT_MS);
    struct process *second = TENON(fx, "cleaner");
    process_await_line(second, "event=cleaner_started", LIMIT_MS);
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('mail') FROM generate_series(1, 20)");
    test_sql(fx, "SELECT tenon.enqueue('mail', delay => '1 hour')");
    test_sql(fx, "SELECT tenon.set_schedule('s', every => '1 hour', kind => 'mail')");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 20, count(*) FROM tenon.history");
    struct process *waiter = TENON(fx, "wait", "21");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1, count(*) FROM tenon.task WHERE awaited");
    test_await(fx, LIMIT_MS, "%s", asleep);
    sql_run(fx->maintenance, watch, WATCHED_S, fx->database, WATCHED_S);
    check_often(fx);
    check_waiter(fx, waiter);
    struct process *const all[] = {worker, first, second};
    for (size_t i = 0; i < 3; i++) {
        process_signal(all[i], SIGTERM);
        assert_int_equal(process_wait(all[i], STOP_MS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_an_idle_system_asks_little),
    };
    return RUN_GROUP(tests);
}
