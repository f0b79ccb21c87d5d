/* label: e2e */
/* A copy of a database runs nothing until somebody says so. */
#include "tests/support/working.h"

#include <stdlib.h>

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
    says(TENON_RUN(fx, 0, "adopt"), "it is no copy");
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.finished"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE act = 'adopt'"), 1);
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

/* A copy of the data directory has the same OIDs; only its configuration can tell. */
static void test_a_name_in_the_configuration(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET tenon.home = 'production'");
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    assert_true(test_sql_bool(fx, "SELECT tenon.adopt()"));
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    REFUSES(fx, "worker", "--amqp-url", "none", "--handler", "a=true");
    test_sql(fx, "SET tenon.home = 'staging'");
    assert_true(
        test_sql_bool(fx, "SELECT tenon.copied() LIKE '%%named production%%named staging'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_copy_runs_nothing_until_it_is_adopted),
        WITH_DATABASE(test_another_system_is_no_copy),
        WITH_DATABASE(test_a_name_in_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
