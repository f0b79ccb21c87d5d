/* label: fault */
/* timeout: 180 */
/* only: all */
/* What an administrator does to a live system: VACUUM FULL, REINDEX CONCURRENTLY, pg_dump and
 * restore, logical replication of the application's own table, settings of a role. A private
 * PostgreSQL; two workers, a cleaner and two producers go on through all of it. */
#include "tests/support/fleet.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <stdio.h>

enum { RECOVERY_MS = 10000, CHECK_LIMIT_MS = 40000, COMMAND_MS = 60000 };

static struct fleet all;

static int start_all(void **state)
{
    void *fixture = NULL;
    server_open("postgres");
    if (fixture_setup_database(&fixture) != 0) {
        return -1;
    }
    struct fixture *fx = all.fx = fixture;
    server_vhost(fx, "fault_admin");
    declare(fx);
    test_sql(fx, "ALTER SYSTEM SET wal_level = logical");
    server_do("restart");
    server_reconnect(fx);
    fleet_start(&all, fx);
    *state = &all;
    return 0;
}

static void check(const char *what)
{
    struct load_counts counts;
    load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    assert_int_equal(process_lines(all.cleaner, "event=worker_dead"), 0);
    print_message("%s: %lld placed, lost 0, rolled back 0, doubled 0\n", what,
                  (long long)counts.placed);
}

static void test_tables_rewritten(void **state)
{
    static const char *const commands[] = {
        "VACUUM FULL tenon.task",
        "REINDEX TABLE CONCURRENTLY tenon.task",
        "CLUSTER tenon.task USING task_pkey",
        "VACUUM FULL tenon.history",
        "ANALYZE",
    };
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        load_await_running(all.fx, 2);
        test_sql(all.fx, "%s", commands[i]);
        (void)load_await_start(all.fx, load_now_ns(), RECOVERY_MS);
        check(commands[i]);
    }
}

/* The sessions that stay keep what they have; those that come after them pin what they need. */
static void test_settings_of_a_role(void **state)
{
    static const char *const settings[] = {
        "array_nulls = off",
        "search_path = nowhere",
        "default_transaction_isolation = serializable",
        "statement_timeout = 200",
        "lock_timeout = 1",
        "enable_indexscan = off",
    };
    (void)state;
    struct fixture *fx = all.fx;
    load_await_running(fx, 2);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        test_sql(fx, "ALTER ROLE %s IN DATABASE %s SET %s", PQuser(fx->conn), fx->database,
                 settings[i]);
    }
    check("ALTER ROLE ... SET");
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name IN ('tenon worker', 'tenon cleaner')");
    (void)load_await_start(fx, load_now_ns(), RECOVERY_MS);
    check("ALTER ROLE ... SET, and new sessions");
    test_sql(fx, "ALTER ROLE %s IN DATABASE %s RESET ALL", PQuser(fx->conn), fx->database);
}

static char *shell(const char *script, const char *argument)
{
    const char *const argv[] = {"sh",     "-ec",       script, all.fx->database_url,
                                argument, all.fx->dir, NULL};
    struct process *p = process_spawn(all.fx, argv, NULL);
    if (process_wait(p, COMMAND_MS) != 0) {
        fail_msg("%s: %s", script, file_text(p->log));
    }
    return file_text(p->out);
}

/* The copy knows what ran when it was made; once it is adopted, its own cleaner gives that to its
 * own worker. */
static void test_dump_and_restore(void **state)
{
    (void)state;
    char copy[80], url[512], h[256];
    (void)snprintf(copy, sizeof copy, "%s_copy", all.fx->database);
    url_with_path(all.fx->database_url, copy, url, sizeof url);
    test_sql(all.fx, "INSERT INTO public.placed"
                     " SELECT tenon.enqueue('a', run_at => now() + interval '1 s')");
    load_await_running(all.fx, 2);
    free(shell("pg_dump -Fc \"$0\" >\"$2/dump\"; psql -qc \"CREATE DATABASE $1\" \"$0\"", copy));
    free(shell("pg_restore -d \"$1\" \"$2/dump\"", url));
    check("pg_dump");
    PGconn *conn = sql_connect(url);
    assert_true(sql_int(conn, "SELECT count(*) FROM tenon.task") > 0);
    assert_true(sql_bool(conn, "SELECT tenon.copied() IS NOT NULL"));
    free(TENON_RUN(all.fx, 0, "adopt", "--yes", "--database-url", url));
    struct process *cleaner = TENON(all.fx, "cleaner", "--database-url", url, "--amqp-url", "none");
    struct process *worker = TENON(all.fx, "worker", "--database-url", url, "--amqp-url", "none",
                                   "--slots", "4", "--handler", handler(h, "a=true", ""));
    sql_await(conn, COMMAND_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    end_well(worker);
    end_well(cleaner);
    assert_int_equal(sql_int(conn, "SELECT count(*) FROM public.placed p WHERE NOT EXISTS"
                                   " (SELECT FROM tenon.history f WHERE f.id = p.task)"),
                     0);
    PQfinish(conn);
}

/* The application replicates its own table to elsewhere; tenon's stay where they are. */
static void test_logical_replication(void **state)
{
    (void)state;
    char copy[80], url[512];
    (void)snprintf(copy, sizeof copy, "%s_replica", all.fx->database);
    url_with_path(all.fx->database_url, copy, url, sizeof url);
    test_sql(all.fx, "CREATE PUBLICATION placed FOR TABLE public.placed");
    test_sql(all.fx, "SELECT pg_create_logical_replication_slot('placed', 'pgoutput')");
    free(shell("psql -qc \"CREATE DATABASE $1\" \"$0\"", copy));
    free(shell("pg_dump -s -t public.placed \"$0\" | psql -qd \"$1\"", url));
    PGconn *conn = sql_connect(url);
    sql_run(conn,
            "CREATE SUBSCRIPTION placed CONNECTION '%s' PUBLICATION placed"
            " WITH (create_slot = false, slot_name = placed)",
            all.fx->database_url);
    check("logical replication");
    int64_t n = test_sql_int(all.fx, "SELECT count(*) FROM public.placed");
    sql_await(conn, RECOVERY_MS, "SELECT count(*) >= %lld, count(*) FROM public.placed",
              (long long)n);
    sql_run(conn, "DROP SUBSCRIPTION placed");
    PQfinish(conn);
}

static void test_all_ends_well(void **state)
{
    (void)state;
    load_stop(&all.load);
    check("at the end");
    fleet_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_rewritten), cmocka_unit_test(test_settings_of_a_role),
        cmocka_unit_test(test_dump_and_restore), cmocka_unit_test(test_logical_replication),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, fleet_close);
}
