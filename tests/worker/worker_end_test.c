/* label: e2e */
/* timeout: 120 */
/* How a worker ends, and what it refuses to start with. */
#include "tests/support/working.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drains(struct fixture *fx, int signal)
{
    test_sql(
        fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 700}') FROM generate_series(1, "
            "10)");
    struct process *p = pool_worker(fx, "2", "1");
    journal_await_started(fx, 2, LIMIT_MS);
    process_signal(p, signal);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    struct journal j;
    journal_read(fx, &j);
    for (size_t i = 0; i < j.n; i++) {
        assert_true(j.runs[i].end_ns > 0); /* what ran, ended */
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), (int64_t)j.n);
    journal_clear(&j);
    assert_true(test_sql_bool(
        fx,
        "SELECT bool_and(start_time IS NULL AND failures = 0 AND crashes = 0) FROM tenon.task"));
    assert_true(test_sql_bool(
        fx, "SELECT bool_and(state = 'left' AND ended_at IS NOT NULL) FROM tenon.worker"));
}

static void test_sigterm_drains(void **state)
{
    drains(*state, SIGTERM);
}

/* By its row: it hears of it at once, and the audit has it. */
static void test_an_operator_drains_it(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 700}')"
                 " FROM generate_series(1, 10)");
    struct process *p = pool_worker(fx, "2", "1");
    journal_await_started(fx, 2, LIMIT_MS);
    assert_true(test_sql_bool(fx, "SELECT tenon.drain(id, 'a new kernel') FROM tenon.worker"));
    assert_false(test_sql_bool(fx, "SELECT tenon.drain(id) FROM tenon.worker"));
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "event=drain_told"), 1);
    struct journal j;
    journal_read(fx, &j);
    assert_true(j.n < 10);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), (int64_t)j.n);
    journal_clear(&j);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 AND bool_and(what->>'why' = 'a new kernel')"
                                  " FROM tenon.audit WHERE act = 'drain'"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(state = 'left' AND version <> '')"
                                  " FROM tenon.worker"));
}

/* The end of its terminal, for instance. */
static void test_sighup_drains(void **state)
{
    drains(*state, SIGHUP);
}

static void test_what_outlasts_the_drain_is_given_back(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')");
    struct process *p = TENON(fx, "worker", "--slots", "1", "--drain-limit", "200ms", "--handler",
                              handler(h, "a=pool:exec %s 1", "pool"));
    journal_await_started(fx, 1, LIMIT_MS);
    end_well(p);
    assert_true(test_sql_bool(
        fx, "SELECT start_time IS NULL AND failures = 0 AND crashes = 0 AND run_at <= now() FROM "
            "tenon.task"));
}

/* Its session says that it lives: a row that somebody has locked is no reason to give that up. */
static void test_a_drain_waits_for_its_locked_row(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 6000}')");
    struct process *p = pool_worker(fx, "1", "1");
    journal_await_started(fx, 1, LIMIT_MS);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT FROM tenon.worker FOR UPDATE");
    process_signal(p, SIGTERM);
    journal_await_ended(fx, 1, LIMIT_MS);
    assert_int_equal(process_lines(p, "event=presence_lost"), 0);
    PQfinish(other);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "event=presence_lost"), 0);
}

static void test_a_second_sigterm_stops_at_once(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')");
    struct process *p = pool_worker(fx, "1", "1");
    journal_await_started(fx, 1, LIMIT_MS);
    process_signal(p, SIGTERM);
    process_await_line(p, "event=draining", LIMIT_MS);
    end_well(p);
    assert_true(test_sql_bool(fx, "SELECT start_time IS NULL AND failures = 0 FROM tenon.task"));
}

static void test_sigterm_while_the_database_is_away_is_no_failure(void **state)
{
    struct fixture *fx = *state;
    const char *const args[] = {"worker", "--handler", "a=true", NULL};
    const char *const env[] = {"TENON_DATABASE_URL=postgresql://127.0.0.1:1/none", NULL};
    struct process *p = tenon_spawn(fx, args, env);
    process_await_line(p, "event=waiting_for_database", LIMIT_MS);
    end_well(p);
    assert_int_equal(process_lines(p, "event=worker_failed"), 0);
}

static void test_bad_input_is_refused(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *args[8];
        const char *says;
    } cases[] = {
        {{"worker"}, "no handler is given"},
        {{"worker", "--handler", "a"}, "KIND=COMMAND"},
        {{"worker", "--handler", "a b=true"}, "is not allowed"},
        {{"worker", "--handler", "a=true", "--handler", "a=true"}, "two handlers"},
        {{"worker", "--handler", "a=true", "--slots", "0"}, "slots"},
        {{"worker", "--handler", "a=true", "--slots", "1001"}, "slots"},
        {{"worker", "--handler", "a=true", "--amqp-url", "http://x"}, "amqp"},
        {{"worker", "--handlers", "/nonexistent"}, "/nonexistent"},
        {{"worker", "--handler", "a=true", "--database-url", "postgresql://%zz"}, "URL"},
        {{"worker", "--handler", "a=true", "--run-one", "b", "/dev/null"}, "kind"},
        {{"worker", "--handler", "a=true", "--run-one", "a", "/dev/null"}, "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = tenon_spawn(fx, cases[i].args, NULL);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log, cases[i].says);
        free(log);
    }
}

static void test_no_schema_says_run_tenon_setup(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
    struct process *p = TENON(fx, "worker", "--handler", "a=true");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, "run tenon setup");
    free(log);
}

/* Somebody set a newer tenon up that breaks this one, and then the session ends. */
static void test_a_breaking_schema_stops_a_running_worker(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')");
    struct process *p = pool_worker(fx, "1", "1");
    journal_await_started(fx, 1, LIMIT_MS);
    test_sql(fx, "INSERT INTO tenon.migration (version, name, breaking) VALUES (99, 'new', true)");
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE datname = current_database() AND application_name LIKE '%%presence'");
    assert_int_equal(process_wait(p, LIMIT_MS), 3);
    process_await_line(p, "install a newer tenon", LIMIT_MS);
    assert_int_equal(process_lines(p, "event=worker_failed"), 1);
    /* for the cleaner it is a worker that died */
    assert_true(test_sql_bool(fx, "SELECT start_time IS NOT NULL AND w.state = 'alive'"
                                  " FROM tenon.task JOIN tenon.worker w ON w.id = worker_id"));
}

/* A worker of 40 slots, each of which takes several descriptors, under a limit of 110 of them. */
static struct process *worker_limited(struct fixture *fx, const char *ulimit)
{
    char text[64], h[256];
    (void)snprintf(text, sizeof text, "%s; exec \"$0\" \"$@\"", ulimit);
    const char *const argv[] = {"sh",
                                "-c",
                                text,
                                tenon_program,
                                "worker",
                                "--slots",
                                "40",
                                "--handler",
                                "b=ulimit -Sn",
                                "--handler",
                                handler(h, "a=pool:exec %s 1", "pool"),
                                NULL};
    return process_spawn(fx, argv, NULL);
}

static void test_a_soft_limit_of_descriptors_is_raised(void **state)
{
    struct fixture *fx = *state;
    int64_t asks = test_sql_int(fx, "SELECT tenon.enqueue('b')");
    struct process *p = worker_limited(fx, "ulimit -Sn 110");
    test_await(fx, LIMIT_MS, "SELECT result = '110' FROM tenon.history WHERE id = %lld",
               (long long)asks); /* for the handler it is as it was */
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')"
                 " FROM generate_series(1, 40)");
    journal_await_started(fx, 40, LIMIT_MS);
    process_signal(p, SIGTERM);
    end_well(p);
}

static void test_a_hard_limit_of_descriptors_is_told(void **state)
{
    struct fixture *fx = *state;
    struct process *p = worker_limited(fx, "ulimit -n 110");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    process_await_line(p, "--slots 40 needs 300 file descriptors", LIMIT_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_sigterm_drains),
        WITH_SERVERS(test_an_operator_drains_it),
        WITH_SERVERS(test_sighup_drains),
        WITH_SERVERS(test_what_outlasts_the_drain_is_given_back),
        WITH_SERVERS(test_a_drain_waits_for_its_locked_row),
        WITH_SERVERS(test_a_second_sigterm_stops_at_once),
        WITH_DATABASE(test_sigterm_while_the_database_is_away_is_no_failure),
        WITH_SERVERS(test_a_breaking_schema_stops_a_running_worker),
        WITH_DATABASE(test_a_soft_limit_of_descriptors_is_raised),
        WITH_DATABASE(test_a_hard_limit_of_descriptors_is_told),
        WITH_SERVERS(test_bad_input_is_refused),
        WITH_DATABASE(test_no_schema_says_run_tenon_setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
