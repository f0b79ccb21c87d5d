/* label: sql */
/* What counts at rates: how long it is kept, when it goes, and what is read of it. */
#include "tests/support/held.h"

#include "worker/statements.h"

/* Until nothing is left to settle. */
static void settle(struct fixture *fx)
{
    while (test_sql_int(fx, "SELECT tenon.settle()") > 0) {
    }
}

/* What goes is older than `per` of all rules that may hold for the key: an exception ends. */
static void test_an_exception_with_a_shorter_time_ends(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(
        fx, "SELECT tenon.set_limit('s', max_starts => 12, per => '1 h');"
            "SELECT tenon.set_limit('s:1', max_starts => 5, per => '1 s', until => now() + '1 h')");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 5)"), 0);
    test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '2 min'");
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{s:1}')");
    settle(fx);
    assert_true(held_take(fx, worker, 1, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 4)"), 0);
    test_sql(fx, "UPDATE tenon.limit SET until = now() - interval '1 s' WHERE name = 's:1'");
    assert_true(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 3)") > 3400000);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 2)"), 0);
}

/* Rows that have gone, and that an old snapshot keeps, are not read with each take. */
static void test_takes_under_an_old_snapshot(void **state)
{
    enum { GONE = 3000, TAKES = 10 };
    static const char read[] = "SELECT pg_stat_get_xact_tuples_returned('tenon.limit_start_key'"
                               "::regclass) + pg_stat_get_xact_tuples_returned("
                               "'tenon.limit_start_at'::regclass)";
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx,
             "SELECT tenon.set_limit('s', max_starts => 100, per => '1 h');"
             "INSERT INTO tenon.limit_start"
             " SELECT 's:1', now() - interval '3 h', 1 FROM generate_series(1, %d);"
             "ANALYZE tenon.limit_start",
             GONE);
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM tenon.limit_start LIMIT 1");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1')"), 0); /* deletes them all */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start"), 1);
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{s:1}')");
    test_sql(fx, "BEGIN");
    int64_t rows = -test_sql_int(fx, "%s", read);
    for (int i = 0; i < TAKES; i++) {
        assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1')"), 0);
    }
    settle(fx);
    rows += test_sql_int(fx, "%s", read);
    test_sql(fx, "COMMIT");
    if (rows >= GONE) {
        fail_msg("%d takes read %lld rows", TAKES, (long long)rows);
    }
    print_message("%d takes read %lld rows\n", TAKES, (long long)rows);
    PQfinish(other);
}

/* Times are compared and subtracted: a month is 30 days in both. */
static void test_a_month_is_30_days(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('s', max_starts => 10, per => '1 month')");
    char *per = test_sql_text(fx, "SELECT per FROM tenon.limit");
    assert_string_equal(per, "720:00:00");
    free(per);
}

/* Starts of keys that are used once: the cleaner deletes them, and reads no others. */
static void test_old_starts_are_purged(void **state)
{
    enum { OLD = 250, FRESH = 5000 };
    static const char read[] = "SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) FROM"
                               " pg_stat_xact_user_tables WHERE relname = 'limit_start'";
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.set_limit('s', max_starts => 10, per => '1 h');"
             "INSERT INTO tenon.limit_start"
             " SELECT 's:' || i, now() - CASE WHEN i <= %d THEN interval '2 h' ELSE '30 min' END, 1"
             " FROM generate_series(1, %d) i; ANALYZE tenon.limit_start",
             OLD, OLD + FRESH);
    test_sql(fx, "BEGIN");
    int64_t rows = -test_sql_int(fx, "%s", read);
    for (int left = OLD; left >= 0; left -= 100) {
        assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(100)"), left < 100 ? left : 100);
    }
    rows += test_sql_int(fx, "%s", read);
    test_sql(fx, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start"), FRESH);
    if (rows > 4L * OLD) {
        fail_msg("%lld rows were read to delete %d", (long long)rows, OLD);
    }
    print_message("%lld rows were read to delete %d\n", (long long)rows, OLD);
    test_sql(fx, "SELECT tenon.remove_limit('s')"); /* without any limit: for 31 days */
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(100)"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_an_exception_with_a_shorter_time_ends),
        WITH_DATABASE(test_takes_under_an_old_snapshot),
        WITH_DATABASE(test_a_month_is_30_days),
        WITH_DATABASE(test_old_starts_are_purged),
    };
    return RUN_GROUP(tests);
}
