/* label: sql */
/* tenon.once: true for one transaction that commits; how long a message is remembered. */
#include "tests/support/fixture.h"

#define ONCE(...) "SELECT tenon.once(" __VA_ARGS__ ")"

static void test_true_once_for_each_consumer(void **state)
{
    struct fixture *fx = *state;
    assert_true(test_sql_bool(fx, ONCE("'mail', 'm'")));
    assert_false(test_sql_bool(fx, ONCE("'mail', 'm'")));
    assert_true(test_sql_bool(fx, ONCE("'export', 'm'")));
    assert_true(test_sql_bool(fx, ONCE("'mail', 'n'")));
}

static void test_a_rollback_has_not_seen_it(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "BEGIN; SAVEPOINT s");
    assert_true(test_sql_bool(fx, ONCE("'c', 'm'")));
    assert_false(test_sql_bool(fx, ONCE("'c', 'm'")));
    test_sql(fx, "ROLLBACK TO s");
    assert_true(test_sql_bool(fx, ONCE("'c', 'm'")));
    test_sql(fx, "ROLLBACK");
    assert_true(test_sql_bool(fx, ONCE("'c', 'm'")));
}

static bool answer(PGconn *conn)
{
    PGresult *result = PQgetResult(conn);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    bool value = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    assert_null(PQgetResult(conn));
    return value;
}

/* Two sessions with the same message; the first one ends with `end`. */
static void two_at_once(struct fixture *fx, const char *end, bool want)
{
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "BEGIN");
    assert_true(test_sql_bool(fx, ONCE("'c', 'm'")));
    assert_true(PQsendQuery(other, ONCE("'c', 'm'")));
    test_await(fx, 10000,
               "SELECT count(*) = 1 FROM pg_locks WHERE pid = %d AND NOT granted AND"
               " locktype = 'transactionid'",
               PQbackendPID(other));
    test_sql(fx, "%s", end);
    assert_int_equal(answer(other), want);
    PQfinish(other);
}

static void test_a_second_caller_waits_for_the_first(void **state)
{
    struct fixture *fx = *state;
    two_at_once(fx, "ROLLBACK", true);
    test_sql(fx, "TRUNCATE tenon.seen");
    two_at_once(fx, "COMMIT", false);
}

static void test_a_snapshot_is_not_told_a_lie(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    assert_true(test_sql_bool(fx, ONCE("'c', 'm'")));
    sql_fails(other, "40001", "could not serialize", ONCE("'c', 'm'"));
    PQfinish(other);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *arguments, *parts;
    } refused[] = {
        {"NULL, 'm'", "consumer NULL"},
        {"'', 'm'", "consumer ''|1 to 200 characters"},
        {"repeat('c', 201), 'm'", "consumer"},
        {"'intake:orders', 'm'", "consumer 'intake:orders'"},
        {"'c', NULL", "message_id NULL|1 to 255 bytes"},
        {"'c', ''", "message_id ''"},
        {"'c', repeat('m', 256)", "message_id"},
        {"'c', 'm', '0.9 s'", "keep|1 second to 10 years"},
        {"'c', 'm', '11 years'", "keep"},
        {"'c', 'm', '-1 year 361 days'", "keep"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        test_sql_fails(fx, "22023", refused[i].parts, "SELECT tenon.once(%s)",
                       refused[i].arguments);
    }
    test_sql(fx, ONCE("repeat('c', 200), repeat('m', 255), '10 years'"));
    test_sql_fails(fx, "22023", "once_keep 59 min|1 hour to 1000 years",
                   "SELECT tenon.set_settings('{\"once_keep\": \"59 min\"}')");
}

/* A row is purged when its time is over, not before, in pieces, and by its index. */
static void test_purge(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_settings('{\"once_keep\": \"2 hours\"}');" //
             ONCE("'c', 'setting'") ";" ONCE("'c', 'argument', '1 day'"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(until - now() BETWEEN CASE message_id WHEN"
                                  " 'setting' THEN interval '119 min' ELSE '1439 min' END AND CASE"
                                  " message_id WHEN 'setting' THEN interval '121 min' ELSE"
                                  " '1441 min' END) FROM tenon.seen"));
    test_sql(fx, "INSERT INTO tenon.seen SELECT 'old ' || i, 'c', now() - interval '1 s' FROM"
                 " generate_series(1, 1500) i; INSERT INTO tenon.seen SELECT 'new ' || i, 'c',"
                 " now() + interval '1 day' FROM generate_series(1, 20000) i; ANALYZE tenon.seen");
    assert_false(test_sql_bool(fx, ONCE("'c', 'old 1'")));
    test_sql(fx, "BEGIN");
    assert_true(test_sql_int(fx, "SELECT tenon.purge(1000)") >= 1000);
    assert_in_range(test_sql_int(fx, "SELECT coalesce(seq_tup_read, 0) + idx_tup_fetch FROM"
                                     " pg_stat_xact_user_tables WHERE relid ="
                                     " 'tenon.seen'::regclass"),
                    1, 3000);
    test_sql(fx, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(1000)"), 500);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.seen"), 20002);
    assert_true(test_sql_bool(fx, ONCE("'c', 'old 1'")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_true_once_for_each_consumer),
        WITH_DATABASE(test_a_rollback_has_not_seen_it),
        WITH_DATABASE(test_a_second_caller_waits_for_the_first),
        WITH_DATABASE(test_a_snapshot_is_not_told_a_lie),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_purge),
    };
    return RUN_GROUP(tests);
}
