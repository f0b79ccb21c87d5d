/* label: e2e */
/* A copy of a database runs nothing until somebody says so. */
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMMAND_MS = 60000 };

static void refuses(struct fixture *fx, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, "was copied to this database");
    assert_contains(log, "tenon adopt");
    free(log);
}
#define REFUSES(fx, ...) refuses(fx, (const char *const[]){__VA_ARGS__, NULL})

static void says(char *out, const char *what)
{
    assert_contains(out, what);
    free(out);
}

static void test_a_copy_runs_nothing_until_it_is_adopted(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_sql(fx, "UPDATE tenon.home SET database = database::bigint + 1");
    REFUSES(fx, "worker", "--amqp-url", "none", "--handler", "a=true");
    REFUSES(fx, "cleaner", "--amqp-url", "none", "--once");
    says(TENON_RUN(fx, 2, "adopt"), "1 task and 0 schedules of the original would run here");
    REFUSES(fx, "cleaner", "--amqp-url", "none", "--once");
    says(TENON_RUN(fx, 0, "adopt", "--yes"), "may run here from now on");
    says(TENON_RUN(fx, 0, "adopt"), "is not a copy");
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE act = 'adopt'"), 1);
}

static void shell(struct fixture *fx, const char *script, const char *copy, const char *url)
{
    const char *const argv[] = {"sh", "-ec", script, fx->database_url, copy, url, fx->dir, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    if (process_wait(p, COMMAND_MS) != 0) {
        fail_msg("%s: %s", script, file_text(p->log));
    }
}

/* The task of the original runs once there, and once more in the copy, but not before somebody says
 * so. */
static void test_a_restored_dump(void **state)
{
    struct fixture *fx = *state;
    char copy[80], url[512];
    (void)snprintf(copy, sizeof copy, "%s_copy", fx->database);
    url_with_path(fx->database_url, copy, url, sizeof url);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    shell(fx,
          "pg_dump -Fc \"$0\" >\"$3/dump\"; psql -qc \"CREATE DATABASE $1\" \"$0\";"
          " pg_restore -d \"$2\" \"$3/dump\"",
          copy, url);
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true"));
    REFUSES(fx, "worker", "--amqp-url", "none", "--handler", "a=true", "--database-url", url);
    REFUSES(fx, "cleaner", "--amqp-url", "none", "--database-url", url);
    PGconn *conn = sql_connect(url);
    assert_int_equal(sql_int(conn, "SELECT count(*) FROM tenon.task WHERE claims = 0"), 1);
    says(TENON_RUN(fx, 0, "adopt", "--yes", "--database-url", url), "may run here from now on");
    free(TENON_RUN(fx, 0, "cleaner", "--amqp-url", "none", "--once", "--database-url", url));
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true",
                   "--database-url", url));
    assert_int_equal(sql_int(conn, "SELECT count(*) FROM tenon.history"), 1);
    PQfinish(conn);
    sql_run(fx->maintenance, "DROP DATABASE %s WITH (FORCE)", copy);
}

/* After pg_upgrade the system is another one, and the OIDs are the same. */
static void test_another_system_is_no_copy(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.home SET system = system + 1");
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    test_sql(fx, "UPDATE tenon.home SET relation = relation::bigint + 1");
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NOT NULL"));
}

/* A copy of the data directory has the same OIDs; only its configuration can tell. Whoever gives a
 * server its first name says with it where the schema is at home. */
static void test_a_name_in_the_configuration(void **state)
{
    struct fixture *fx = *state;
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    test_sql(fx, "SET tenon.home = 'production'");
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() LIKE '%%this is %%named production'"));
    assert_true(test_sql_bool(fx, "SELECT tenon.adopt()"));
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    REFUSES(fx, "worker", "--amqp-url", "none", "--handler", "a=true");
    test_sql(fx, "SET tenon.home = 'staging'");
    assert_true(
        test_sql_bool(fx, "SELECT tenon.copied() LIKE '%%named production%%named staging'"));
    test_sql(fx, "SET tenon.home = ''");
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() LIKE '%%named production%%'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_copy_runs_nothing_until_it_is_adopted),
        WITH_DATABASE(test_a_restored_dump),
        WITH_DATABASE(test_another_system_is_no_copy),
        WITH_DATABASE(test_a_name_in_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
