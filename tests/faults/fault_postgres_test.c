/* label: fault */
/* timeout: 150 */
/* long: 400 */
/* What becomes of tasks when PostgreSQL restarts, crashes, refuses or hangs. A private PostgreSQL;
 * two workers, a cleaner and two producers go on through all of it. The verdict comes from the
 * producers' own table and the handlers' journal. With TEST_LONG set the locks last longer, and
 * after each restart a cleaner lives long enough to declare somebody dead. */
#include "tests/support/fleet.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    CONNECTIONS = 40, /* max_connections from the first restart on */
    RECOVERY_MS = 10000,
    EXHAUSTED_MS = 2000,
    CHECK_LIMIT_MS = 40000,
};

static struct fleet all;

static int start_all(void **state)
{
    void *fixture = NULL;
    server_open("postgres");
    if (fixture_setup_database(&fixture) != 0) {
        return -1;
    }
    struct fixture *fx = all.fx = fixture;
    server_vhost(fx, "fault_postgres");
    declare(fx);
    test_sql(fx, "ALTER SYSTEM SET max_connections = %d", CONNECTIONS);
    fleet_start(&all, fx);
    *state = &all;
    return 0;
}

/* All that was placed has run, once; and nobody was declared dead for the server's faults. */
static void check(const char *fault, int64_t recovery_ms)
{
    struct load_counts counts;
    load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    assert_int_equal(process_lines(all.cleaner, "event=worker_dead"), 0);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.worker WHERE state = 'dead'"),
                     0);
    print_message("%s: %lld ms to the next start; %lld placed, lost 0, rolled back 0, doubled 0\n",
                  fault, (long long)recovery_ms, (long long)counts.placed);
}

static void assert_soon(int64_t recovery_ms, int64_t at_most_ms)
{
    if (recovery_ms > at_most_ms) {
        fail_msg("%lld ms until a task started, allowed were %lld", (long long)recovery_ms,
                 (long long)at_most_ms);
    }
}

/* --- the server goes and comes --- */

static void restart(const char *fault, int signal)
{
    load_await_running(all.fx, 2);
    server_signal(server_postmaster(), signal);
    server_do("start");
    server_reconnect(all.fx);
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    assert_soon(recovery_ms, 6000);
    if (load_is_long()) {
        fleet_await_judge(&all); /* whoever lost his lock for good would be declared dead now */
    }
    check(fault, recovery_ms);
}

static void test_fast_restart(void **state)
{
    (void)state;
    restart("fast restart", SIGINT);
    assert_int_equal(test_sql_int(all.fx, "SELECT current_setting('max_connections')::int"),
                     CONNECTIONS);
}

static void test_immediate_restart(void **state)
{
    (void)state;
    restart("immediate restart", SIGQUIT);
}

static void test_postmaster_killed(void **state)
{
    (void)state;
    restart("kill -9 of the postmaster", SIGKILL);
}

/* --- one session goes --- */

static void await_sessions(const char *name, int64_t but_not)
{
    test_await(all.fx, RECOVERY_MS,
               "SELECT count(*) = %d, count(*) FROM pg_stat_activity "
               "WHERE application_name = '%s' AND pid <> %lld",
               FLEET_WORKERS, name, (long long)but_not);
}

static void terminate(const char *name, const char *fault)
{
    await_sessions(name, 0); /* what was lost before is noticed by the next ping */
    load_await_running(all.fx, 2);
    int64_t since_ns = load_now_ns();
    int64_t pid = test_sql_int(
        all.fx, "SELECT pid FROM pg_stat_activity WHERE application_name = '%s' LIMIT 1", name);
    test_sql(all.fx, "SELECT pg_terminate_backend(%lld)", (long long)pid);
    await_sessions(name, pid);
    check(fault, load_await_start(all.fx, since_ns, RECOVERY_MS));
}

/* Thirty of them in a row, so that they strike between any two steps of a round. */
static void test_round_backends_killed(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    for (int i = 0; i < 30; i++) {
        test_sql(all.fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                         "WHERE application_name = 'tenon worker' ORDER BY random() LIMIT 1");
        (void)load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    }
    terminate("tenon worker", "a round's backend killed");
    for (int i = 0; i < FLEET_WORKERS; i++) {
        assert_true(process_lines(all.workers[i], "event=round_works") > 0);
    }
}

/* By a cleaner that is old enough to judge: the worker has its lock again before that one looks
 * twice. */
static void test_presence_backend_killed(void **state)
{
    (void)state;
    fleet_await_judge(&all);
    terminate("tenon worker presence", "a presence's backend killed");
}

/* --- the server refuses and hangs --- */

static void test_table_locked(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    PGconn *locker = sql_connect(all.fx->database_url);
    sql_run(locker, "BEGIN; LOCK TABLE tenon.task IN ACCESS EXCLUSIVE MODE");
    sql_run(locker, "SELECT pg_sleep(%d)", load_is_long() ? 30 : 5);
    /* what waited or failed meanwhile is no fault of the task's */
    sql_run(locker, "COMMIT");
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    assert_soon(recovery_ms, 6000);
    PQfinish(locker);
    check("tenon.task locked ACCESS EXCLUSIVE", recovery_ms);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.tasks WHERE failures > 0"),
                     0);
}

static int64_t sessions(const char *name)
{
    return sql_int(all.fx->conn,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%s'", name);
}

static void take_slots(PGconn *held[CONNECTIONS], int *n)
{
    while (*n < CONNECTIONS) {
        PGconn *conn = PQconnectdb(all.fx->database_url);
        if (PQstatus(conn) != CONNECTION_OK) {
            PQfinish(conn);
            return;
        }
        held[(*n)++] = conn;
    }
}

/* Every slot is somebody else's, also those of sessions that are ended now, for EXHAUSTED_MS
 * without a break. A slot is free only some time after its session is gone, and tenon may be the
 * first to take it: then all begins again. */
static void exhaust(PGconn *held[CONNECTIONS], int *n)
{
    int64_t since_ms = now_ms(), deadline_ms = since_ms + 2 * RECOVERY_MS;
    while (now_ms() < since_ms + EXHAUSTED_MS) {
        if (sessions("tenon %%") > 0) {
            assert_true(now_ms() < deadline_ms);
            test_sql(all.fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                             "WHERE application_name LIKE 'tenon %%'");
            since_ms = now_ms();
        }
        take_slots(held, n);
        (void)poll(NULL, 0, 20);
    }
}

static void test_connections_exhausted(void **state)
{
    (void)state;
    PGconn *held[CONNECTIONS] = {0};
    int n = 0;
    load_await_running(all.fx, 2);
    exhaust(held, &n);
    while (n > 0) {
        PQfinish(held[--n]);
    }
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    assert_soon(recovery_ms, 8000);
    check("connections exhausted", recovery_ms);
}

/* Statements that take too long are cancelled by the server (57014): here by hand, as soon as one
 * is seen; with TEST_LONG by statement_timeout. */
static void test_statements_cancelled(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    test_sql(all.fx, "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
                     "IF current_setting('application_name') = 'tenon worker' THEN "
                     "PERFORM pg_sleep(20); END IF; RETURN NEW; END$$;"
                     "CREATE TRIGGER slow BEFORE UPDATE ON tenon.task FOR EACH ROW "
                     "EXECUTE FUNCTION public.slow()");
    const char *met = load_is_long() ? "due to statement timeout" : "due to user request";
    size_t before = fleet_lines(&all, met);
    for (int64_t end_ms = now_ms() + (load_is_long() ? 40000 : 1500); now_ms() < end_ms;) {
        if (!load_is_long()) {
            test_sql(all.fx, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                             "WHERE wait_event = 'PgSleep'");
        }
        (void)poll(NULL, 0, 20);
    }
    assert_true(fleet_lines(&all, met) > before);
    /* the lock that DROP needs is held by what sleeps */
    test_sql(all.fx, "ALTER FUNCTION public.slow() RENAME TO gone; CREATE FUNCTION public.slow() "
                     "RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'");
    test_sql(all.fx,
             "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    test_sql(all.fx, "DROP TRIGGER slow ON tenon.task");
    int64_t recovery_ms = load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
    assert_soon(recovery_ms, 6000);
    check("statements cancelled", recovery_ms);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.tasks WHERE failures > 0"),
                     0);
}

/* --- and in the end --- */

static void test_all_ends_well(void **state)
{
    (void)state;
    load_stop(&all.load);
    check("in the end", 0);
    fleet_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_restart),
        cmocka_unit_test(test_immediate_restart),
        cmocka_unit_test(test_postmaster_killed),
        cmocka_unit_test(test_round_backends_killed),
        cmocka_unit_test(test_presence_backend_killed),
        cmocka_unit_test(test_table_locked),
        cmocka_unit_test(test_connections_exhausted),
        cmocka_unit_test(test_statements_cancelled),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, fleet_close);
}
