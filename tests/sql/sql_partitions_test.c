/* label: sql */
/* The history's partitions: who makes them, for which days, and that it stops nobody. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>

static void test_partitions(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions()"), 0);
    assert_int_equal(
        test_sql_int(
            fx, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'tenon.history'::regclass"),
        9);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions(10)"), 6);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions(10)"), 0);
    /* the index of the parent came with each */
    assert_int_equal(
        test_sql_int(fx,
                     "SELECT count(*) FROM pg_index x JOIN pg_inherits i ON i.inhrelid = x.indrelid"
                     " WHERE i.inhparent = 'tenon.history'::regclass"),
        12);
}

static void test_partitions_raced(void **state)
{
    struct fixture *fx = *state;
    enum { N = 6 };
    PGconn *conn[N];
    int64_t made = 0;
    for (int i = 0; i < N; i++) {
        conn[i] = sql_connect(fx->database_url);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(PQsendQuery(conn[i], "SELECT tenon.make_partitions(37)"), 1);
    }
    for (int i = 0; i < N; i++) {
        PGresult *result = PQgetResult(conn[i]);
        if (PQresultStatus(result) != PGRES_TUPLES_OK) {
            fail_msg("%s", PQerrorMessage(conn[i]));
        }
        made += strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
        PQfinish(conn[i]);
    }
    assert_int_equal(made, 60);
}

/* In every one of the next days, at both of its ends, there is a place to finish to. */
static void test_finishing_at_day_boundaries(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET timezone = 'Pacific/Kiritimati'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions(8)"), 2);
    test_sql(fx, "SET timezone = 'UTC'");
    test_sql(
        fx,
        "INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims, failures,"
        " crashes, priority, outcome,"
        " queue, kind, payload) SELECT (current_date + d)::timestamptz + at, d, now(), now(), 1,"
        " 0, 0, 4, 'done', 'q', 'k', '1'"
        " FROM generate_series(-1, 8) d, unnest('{0, 12 h, 23:59:59.999999}'::interval[]) at");
    assert_int_equal(
        test_sql_int(
            fx, "SELECT count(*) FROM (SELECT f.tableoid FROM tenon.history f GROUP BY f.tableoid"
                " HAVING count(*) = 3"
                " AND max(finished_at)::date = min(finished_at)::date"
                " AND (SELECT relname FROM pg_class WHERE oid = f.tableoid) = 'history_' ||"
                " to_char(min(finished_at), 'YYYYMMDD')) p"),
        10);
    test_sql_fails(
        fx, "23514", "no partition",
        "INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims, failures,"
        " crashes, priority, outcome, queue,"
        " kind, payload) SELECT (current_date + 9)::timestamptz, 1, now(), now(), 1, 0, 0, 4,"
        " 'done', 'q', 'k', '1'");
}

/* Finishes go on while a partition is made. */
static void test_making_partitions_stops_no_finish(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.make_partitions(20)");
    test_sql(fx, "SET lock_timeout = 1000");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    sql_run(other, "COMMIT");
    PQfinish(other);
}

static void old_day(struct fixture *fx, const char *day)
{
    test_sql(fx,
             "CREATE TABLE tenon.history_%s PARTITION OF tenon.history"
             " FOR VALUES FROM ('%s 00:00+0') TO (timestamptz '%s 00:00+0' + interval '1 day')",
             day, day, day);
}

/* Attempts have days of their own, which go after attempt_keep. */
static void test_attempts_go_by_the_day(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(
        test_sql_int(
            fx, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'tenon.attempt'::regclass"),
        9);
    test_sql(fx, "CREATE TABLE tenon.attempt_20200101 PARTITION OF tenon.attempt"
                 " FOR VALUES FROM ('2020-01-01 00:00+0') TO ('2020-01-02 00:00+0')");
    test_sql(fx, "UPDATE tenon.setting SET attempt_keep = '1000000 hours'");
    assert_null(test_sql_text(fx, "SELECT tenon.drop_history()"));
    test_sql(fx, "UPDATE tenon.setting SET attempt_keep = DEFAULT");
    char *part = test_sql_text(fx, "SELECT tenon.drop_history()");
    assert_string_equal(part, "attempt_20200101");
    free(part);
}

/* A finish waits behind the drop no longer than the drop waits, whatever the reader does. */
static void test_a_drop_beside_a_reader_gives_up(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    old_day(fx, "20200101");
    held_new(fx, &c);
    PGconn *reader = sql_connect(fx->database_url), *drops = sql_connect(fx->database_url);
    sql_run(reader, "BEGIN; SELECT count(*) FROM tenon.history");
    sql_run(drops, "SET statement_timeout = '20 s'");
    assert_int_equal(PQsendQuery(drops, "SELECT tenon.drop_history()"), 1);
    test_sql(fx, "SET lock_timeout = 1000");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    PGresult *result = PQgetResult(drops);
    assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55P03");
    PQclear(result);
    assert_null(PQgetResult(drops));
    sql_run(reader, "COMMIT");
    char *name = sql_text(drops, "SELECT tenon.drop_history()");
    assert_string_equal(name, "history_20200101");
    free(name);
    assert_true(sql_bool(drops, "SELECT tenon.drop_history() IS NULL"));
    PQfinish(reader);
    PQfinish(drops);
}

/* One that an operator took out of the history is his. */
static void test_a_detached_day_stays(void **state)
{
    struct fixture *fx = *state;
    old_day(fx, "20200101");
    old_day(fx, "20200102");
    test_sql(fx, "ALTER TABLE tenon.history DETACH PARTITION tenon.history_20200101");
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() = 'history_20200102'"));
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL"));
    test_sql(fx, "SELECT count(*) FROM tenon.history_20200101");
}

/* Neither a cleaner nor a worker ran for more than a week, and an application goes on. */
static void test_applications_make_partitions(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    test_sql(fx, "SELECT tenon.grant_producer(current_user)");
    for (int i = 0; i < 3; i++) {
        held_new(fx, &c);
        held_text(&c, claim);
        test_sql(fx, "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid FROM pg_inherits"
                     " WHERE inhparent = 'tenon.history'::regclass LOOP"
                     " EXECUTE 'DROP TABLE ' || p; END LOOP; END $$");
        if (i == 0) {
            test_sql(fx, "SELECT tenon.finish('%s')", claim);
        } else if (i == 1) {
            test_sql(fx, "SELECT tenon.finish_many('{%s}')", claim);
        } else {
            assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)c.id));
        }
        assert_state(fx, c.id, i < 2 ? "done" : "cancelled");
        assert_true(test_sql_int(fx, "SELECT count(*) FROM pg_inherits"
                                     " WHERE inhparent = 'tenon.history'::regclass") >= 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_partitions),
        WITH_DATABASE(test_partitions_raced),
        WITH_DATABASE(test_finishing_at_day_boundaries),
        WITH_DATABASE(test_making_partitions_stops_no_finish),
        WITH_DATABASE(test_attempts_go_by_the_day),
        WITH_DATABASE(test_a_drop_beside_a_reader_gives_up),
        WITH_DATABASE(test_a_detached_day_stays),
        WITH_DATABASE(test_applications_make_partitions),
    };
    return RUN_GROUP(tests);
}
