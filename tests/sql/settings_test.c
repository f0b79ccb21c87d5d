/* label: e2e */
/* Whatever a role's own settings say, statements mean what they say. */
#include "tests/support/proxy.h"
#include "tests/support/working.h"

#include <stdio.h>

enum { READY_MS = 20000 };

static const char *const hostile[] = {
    "array_nulls = off",
    "standard_conforming_strings = off",
    "backslash_quote = off",
    "bytea_output = escape",
    "extra_float_digits = -15",
    "transform_null_equals = on",
    "default_transaction_isolation = serializable",
    "default_transaction_deferrable = on",
    "row_security = off",
    "exit_on_error = on",
    "idle_session_timeout = 200",
    "statement_timeout = 200",
    "lock_timeout = 1",
    "idle_in_transaction_session_timeout = 1",
    "search_path = nowhere",
    "\"TimeZone\" = 'Asia/Kathmandu'",
    "\"DateStyle\" = 'German, DMY'",
    "\"IntervalStyle\" = 'sql_standard'",
    "client_encoding = 'LATIN1'",
    "xmlbinary = hex",
    "quote_all_identifiers = on",
    "session_replication_role = replica",
    "enable_indexscan = off",
    "enable_indexonlyscan = off",
    "enable_nestloop = off",
    "enable_sort = off",
    "plan_cache_mode = force_custom_plan",
    "jit_above_cost = 0",
    "lc_messages = 'C.UTF-8'",
};

static void make_hostile(struct fixture *fx)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET %s", PQuser(fx->conn), fx->database,
                 hostile[i]);
    }
    if (PQserverVersion(fx->conn) >= 170000) {
        test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET transaction_timeout = 500", PQuser(fx->conn),
                 fx->database);
    }
}

static void test_hostile_settings_of_a_role(void **state)
{
    struct fixture *fx = *state;
    make_hostile(fx);
    struct process *worker = TENON(fx, "worker", "--slots", "2", "--handler", "a=echo '[1.5]'",
                                   "--handler", "b=exit 3", "--handler", "c=sleep 60");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(worker, "event=worker_ready", READY_MS);
    free(TENON_RUN(fx, 0, "enqueue", "a", "{\"n\": 1e2}"));
    await_done(fx, 1);
    assert_true(test_sql_bool(fx, "SELECT result = '[1.5]' AND failures = 0 AND trace IS NULL"
                                  " FROM tenon.history"));
    test_sql(fx, "SELECT tenon.enqueue('b', max_attempts => 1)");
    test_await(fx, READY_MS, "SELECT count(*) = 1 FROM tenon.dead WHERE last_error LIKE '%%3%%'");
    test_sql(fx, "SELECT tenon.enqueue('c')");
    test_await(fx, READY_MS, "SELECT count(*) = 1 FROM tenon.task WHERE start_time IS NOT NULL");
    process_kill(worker);
    test_await(fx, READY_MS, "SELECT count(*) = 1 FROM tenon.task WHERE crashes = 1");
    end_well(cleaner);
}

/* A session that is cut off while it is set up is tried again, also the first one: the role's own
 * limit comes before ours, and to compile even the first statement takes longer. */
static void test_a_session_that_is_cut_off(void **state)
{
    struct fixture *fx = *state;
    if (!test_sql_bool(fx, "SELECT pg_jit_available()")) {
        skip_missing("PostgreSQL's JIT compiler");
    }
    make_hostile(fx);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET statement_timeout = 1", PQuser(fx->conn),
             fx->database);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET jit_optimize_above_cost = 0", PQuser(fx->conn),
             fx->database);
    struct process *worker = TENON(fx, "worker", "--handler", "a=true");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *intake = TENON(fx, "intake", "--from", "q", "--kind", "a");
    process_await_line(worker, "event=waiting_for_database", READY_MS);
    process_await_line(cleaner, "event=database_down", READY_MS);
    process_await_line(intake, "event=database_down", READY_MS);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s RESET statement_timeout", PQuser(fx->conn),
             fx->database);
    process_await_line(worker, "event=worker_ready", READY_MS);
    process_await_line(cleaner, "event=leader", READY_MS);
    process_await_line(intake, "event=intake_started", READY_MS);
    end_well(worker);
    end_well(cleaner);
    end_well(intake);
}

/* A role that may only read is told, and waited for, though it has been said already that the
 * server was away. */
static void test_a_role_that_may_only_read(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    proxy_open(&proxy, fx->database_url);
    proxy_door(&proxy, PROXY_RESETS);
    struct process *worker = TENON(fx, "worker", "--database-url", proxy.url, "--handler",
                                   "a=true");
    process_await_line(worker, "event=waiting_for_database", READY_MS);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET default_transaction_read_only = on",
             PQuser(fx->conn), fx->database);
    proxy_door(&proxy, PROXY_SERVES);
    process_await_line(worker, "read-only", READY_MS);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s RESET default_transaction_read_only",
             PQuser(fx->conn), fx->database);
    process_await_line(worker, "event=worker_ready", READY_MS);
    end_well(worker);
    proxy_close(&proxy);
}

/* A cleaner says why it is not back, though it has said already that its session was lost. */
static void test_a_cleaner_that_may_only_read_says_so(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", READY_MS);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET default_transaction_read_only = on",
             PQuser(fx->conn), fx->database);
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                 "current_database() AND application_name = 'tenon cleaner'");
    process_await_line(cleaner, "event=database_down", READY_MS);
    process_await_line(cleaner, "read-only", READY_MS);
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s RESET default_transaction_read_only",
             PQuser(fx->conn), fx->database);
    process_await_line(cleaner, "event=database_up", READY_MS);
    end_well(cleaner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_hostile_settings_of_a_role),
        WITH_SERVERS(test_a_role_that_may_only_read),
        WITH_SERVERS(test_a_session_that_is_cut_off),
        WITH_DATABASE(test_a_cleaner_that_may_only_read_says_so),
    };
    return RUN_GROUP(tests);
}
