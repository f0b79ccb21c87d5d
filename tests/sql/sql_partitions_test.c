/* label: sql */
/* The history's partitions: who makes them, when they go, and that it stops nobody. */
#include "tests/support/held.h"
#include "tests/support/partitions.h"

#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 20000 };

/* Rows that end now. */
static void add_rows(struct fixture *fx, int n)
{
    test_sql(fx,
             "INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims, failures,"
             " crashes, priority, outcome, queue, kind, payload) SELECT now(), g, now(), now(), 1,"
             " 0, 0, 4, 'done', 'q', 'k', '1' FROM generate_series(1, %d) g",
             n);
    test_flush_statistics(fx);
}

/* One turn of the cleaner's chore. */
static void look(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.make_partitions()");
    while (!test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL")) {
    }
}

static void time_passes(struct fixture *fx, const char *span)
{
    test_sql(fx,
             "UPDATE tenon.partition SET begun_at = begun_at - interval '%s';"
             "UPDATE tenon.history SET finished_at = finished_at - interval '%s'",
             span, span);
}

static void assert_partitions(struct fixture *fx, const char *want)
{
    char *got = partitions_of(fx, "history");
    assert_string_equal(got, want);
    free(got);
}

/* One that is empty stays the current one; one row and an hour are enough to begin another, which
 * was there already. */
static void test_partitions(void **state)
{
    struct fixture *fx = *state;
    time_passes(fx, "9 days");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions()"), 0);
    assert_partitions(fx, "0 2");
    add_rows(fx, 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions()"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions()"), 0);
    assert_partitions(fx, "1 2");
    /* the indexes of the parent came with each */
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 3 * (SELECT count(*) FROM pg_index WHERE indrelid ="
            " 'tenon.history'::regclass) FROM pg_index x JOIN pg_inherits i ON i.inhrelid ="
            " x.indrelid WHERE i.inhparent = 'tenon.history'::regclass"));
}

static void test_partitions_raced(void **state)
{
    struct fixture *fx = *state;
    enum { N = 6 };
    PGconn *conn[N];
    int64_t made = 0;
    add_rows(fx, 1);
    time_passes(fx, "2 h");
    for (int i = 0; i < N; i++) {
        conn[i] = sql_connect(fx->database_url);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(PQsendQuery(conn[i], "SELECT tenon.make_partitions()"), 1);
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
    assert_int_equal(made, 1);
    assert_partitions(fx, "1 2");
}

/* A stream with bursts stays within a fifth more than the maximum, in few partitions; so does the
 * first one, after days without a row. */
static void test_the_history_stays_within_its_rows(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_rows_max = 10000");
    time_passes(fx, "9 days");
    for (int i = 0; i < 60; i++) {
        add_rows(fx, i % 10 == 0 ? 1000 : 300);
        look(fx);
        int64_t n = test_sql_int(fx, "SELECT count(*) FROM tenon.history");
        assert_true(n <= 12000 && (i < 50 || n >= 10000));
        assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.partitions()") <= 32);
    }
}

/* After an absence the rest fits. What came meanwhile is in one partition at most, and stays until
 * so many came after it. */
static void test_a_cleaner_that_was_away(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_rows_max = 1000");
    add_rows(fx, 5000);
    look(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 5000);
    for (int i = 0; i < 11; i++) {
        add_rows(fx, 100);
        look(fx);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 1100);
}

/* Few rows go by their age: each stays for a day and an hour or so more. */
static void test_the_history_goes_by_its_age(void **state)
{
    struct fixture *fx = *state;
    for (int i = 0; i < 120; i++) {
        add_rows(fx, 1);
        look(fx);
        time_passes(fx, "15 min");
    }
    look(fx);
    assert_true(test_sql_bool(fx, "SELECT count(*) FILTER (WHERE age < '23 h 59 min') = 95 AND"
                                  " max(age) < '25.5 h' FROM tenon.history CROSS JOIN LATERAL"
                                  " (SELECT now() - finished_at AS age) a"));
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.partitions()") <= 32);
}

/* While a reader is in the way of all drops, there are 100 partitions and no more, of which the
 * last one takes what comes. */
static void test_partitions_beside_a_reader(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_rows_max = 20");
    PGconn *reader = sql_connect(fx->database_url);
    sql_run(reader, "BEGIN; SELECT count(*) FROM tenon.history");
    for (int i = 0; i < 110; i++) {
        add_rows(fx, 1);
        test_sql(fx, "SELECT tenon.make_partitions()");
    }
    assert_partitions(fx, "98 2");
    sql_run(reader, "COMMIT");
    PQfinish(reader);
    look(fx);
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.history") <= 33);
}

/* A crash loses the counts of a partition that was not analyzed: its size tells, by the rows of
 * those that were. */
static void test_rows_are_counted(void **state)
{
    struct fixture *fx = *state;
    static const char n[] =
        "SELECT n FROM tenon.partitions() WHERE parent = 'history' AND part = 2";
    add_rows(fx, 2000);
    test_sql(fx, "ANALYZE tenon.history_1");
    partition_begun(fx, "history", "0 s");
    add_rows(fx, 1000);
    assert_int_equal(test_sql_int(fx, n), 1000);
    test_sql(fx, "SELECT pg_stat_reset()");
    test_await(fx, LIMIT_MS, "SELECT n BETWEEN 950 AND 1100, n FROM (%s) x", n);
}

/* A transaction that has ended tasks, until its plans are made for good, and ends another after the
 * next partition was begun, which was not there before. */
static void test_a_long_transaction_meets_a_new_partition(void **state)
{
    struct fixture *fx = *state;
    enum { N = 12 };
    PGconn *other = sql_connect(fx->database_url);
    int64_t id[N];
    for (int i = 0; i < N; i++) {
        id[i] = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    }
    sql_run(other, "BEGIN");
    for (int i = 1; i < N; i++) {
        sql_run(other, "SELECT tenon.cancel(%lld)", (long long)id[i]);
    }
    for (int i = 0; i < 2; i++) {
        partition_begun(fx, "history", "0 s");
    }
    sql_run(other, "SELECT tenon.cancel(%lld)", (long long)id[0]);
    sql_run(other, "COMMIT");
    PQfinish(other);
    char *parts = test_sql_text(fx,
                                "SELECT string_agg(n, ', ' ORDER BY n) FROM (SELECT part || ': '"
                                " || count(*) FROM tenon.history GROUP BY part) x (n)");
    assert_string_equal(parts, "1: 11, 3: 1");
    free(parts);
}

/* Finishes go on while a partition is made. */
static void test_making_partitions_stops_no_finish(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "DROP TABLE tenon.history_2");
    sql_run(other, "BEGIN; SELECT tenon.make_partitions()");
    test_sql(fx, "SET lock_timeout = 1000");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    sql_run(other, "COMMIT");
    PQfinish(other);
}

/* Attempts have partitions of their own, which go after attempt_keep. */
static void test_attempts_go_by_their_age(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "attempt", "8 days");
    test_sql(fx, "UPDATE tenon.setting SET attempt_keep = '1000000 hours'");
    assert_null(test_sql_text(fx, "SELECT tenon.drop_history()"));
    test_sql(fx, "UPDATE tenon.setting SET attempt_keep = DEFAULT");
    char *part = test_sql_text(fx, "SELECT tenon.drop_history()");
    assert_string_equal(part, "attempt_1");
    free(part);
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL"));
}

/* And so have log lines, for log_keep. */
static void test_log_lines_go_by_their_age(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "log_line", "8 days");
    test_sql(fx, "UPDATE tenon.setting SET log_keep = '9 days'");
    assert_null(test_sql_text(fx, "SELECT tenon.drop_history()"));
    test_sql(fx, "UPDATE tenon.setting SET log_keep = DEFAULT");
    char *part = test_sql_text(fx, "SELECT tenon.drop_history()");
    assert_string_equal(part, "log_line_1");
    free(part);
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL"));
}

/* A day is kept; the partitions of older messages go, and no message is left behind. */
static void test_sent_messages_go_by_their_age(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_settings('{\"outbox_keep\": \"1 day\"}')");
    for (int i = 0; i < 4; i++) {
        test_sql(fx, "SELECT tenon.relay_done(tenon.relay_begin(),"
                     " ARRAY[tenon.publish('orders', 'paid', 'x')], '{}', '{}')");
        test_flush_statistics(fx);
        test_sql(fx, "UPDATE tenon.message_sent SET sent_at = sent_at - interval '9 h';"
                     "UPDATE tenon.partition SET begun_at = begun_at - interval '9 h'");
        look(fx);
    }
    assert_true(test_sql_bool(fx,
                              "SELECT count(*) BETWEEN 2 AND 3 AND"
                              " min(sent_at) > now() - interval '36 h' FROM tenon.message_sent"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.replay_messages(now() - interval '10 h')"), 1);
    test_sql(fx, "SELECT tenon.set_settings('{\"outbox_keep\": \"0\"}')");
    for (int i = 0; i < 2; i++) {
        test_sql(fx, "UPDATE tenon.partition SET begun_at = begun_at - interval '9 h'");
        look(fx);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.message_sent"), 0);
    test_sql(fx, "SELECT tenon.relay_done(tenon.relay_begin(), ARRAY[id], '{}', '{}')"
                 " FROM tenon.outbox");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.message_sent"), 0);
}

/* A finish waits behind the drop no longer than the drop waits, whatever the reader does. */
static void test_a_drop_beside_a_reader_gives_up(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    partition_begun(fx, "history", "9 days");
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
    assert_string_equal(name, "history_1");
    free(name);
    assert_true(sql_bool(drops, "SELECT tenon.drop_history() IS NULL"));
    PQfinish(reader);
    PQfinish(drops);
}

/* --- kinds with a time of their own --- */

static void purge(struct fixture *fx)
{
    while (test_sql_bool(fx, "SELECT tenon.purge(500) >= 500")) {
    }
}

/* `n` rows of kind k and one each of the kinds that are kept shorter and longer. */
static void add_kinds(struct fixture *fx, int n)
{
    add_rows(fx, n + 2);
    test_sql(fx, "UPDATE tenon.history SET kind = CASE id WHEN 1 THEN 'short' ELSE 'long' END"
                 " WHERE id < 3");
}

static void assert_kinds(struct fixture *fx, const char *want)
{
    char *got = test_sql_text(fx,
                              "SELECT coalesce(string_agg(DISTINCT kind, ' ' ORDER BY kind), '')"
                              " FROM tenon.history");
    assert_string_equal(got, want);
    free(got);
}

/* A kind that is kept shorter goes first, one that is kept longer survives its partition, and both
 * are found like all others meanwhile. */
static void test_kinds_have_their_own_time(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_kind('short', history_keep => '2 h');"
                 "SELECT tenon.set_kind('long', history_keep => '3 days')");
    add_kinds(fx, 3);
    test_sql(fx, "SELECT tenon.make_partitions()");
    time_passes(fx, "1 h 1 min");
    test_sql(fx, "SELECT tenon.make_partitions()");
    add_rows(fx, 1);
    purge(fx);
    assert_kinds(fx, "k long short");
    time_passes(fx, "1 h 58 min");
    purge(fx);
    assert_kinds(fx, "k long short");
    time_passes(fx, "3 min");
    purge(fx);
    assert_kinds(fx, "k long");
    assert_true(test_sql_bool(fx, "SELECT part = 0 AND finished_at < now() FROM tenon.history"
                                  " WHERE kind = 'long'"));
    assert_true(test_sql_bool(fx, "SELECT tenon.retry(2) IS FALSE"));
    assert_true(test_sql_bool(fx, "SELECT state = 'done' FROM tenon.tasks WHERE id = 2"));
    time_passes(fx, "25 h");
    look(fx);
    time_passes(fx, "25 h");
    look(fx);
    purge(fx);
    assert_kinds(fx, "k long"); /* k: the row in the current partition */
    time_passes(fx, "20 h");
    purge(fx);
    assert_kinds(fx, "k");
}

/* Nothing of a partition is dropped before what is kept longer has left it; also one that goes
 * because there are many rows. */
static void test_a_drop_waits_for_the_sweep(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "history", "9 days");
    add_kinds(fx, 1);
    test_sql(fx, "UPDATE tenon.history SET part = 1; SELECT tenon.set_kind('long',"
                 " history_keep => '3 days')");
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL"));
    test_sql(fx, "SELECT tenon.sweep_history(500)");
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() = 'history_1'"));
    assert_kinds(fx, "long");
    test_sql(fx, "SELECT tenon.set_kind('long', unset => '{history_keep}');"
                 "UPDATE tenon.history SET finished_at = now() - interval '25 h'");
    purge(fx);
    assert_kinds(fx, "");
}

/* What a long transaction ends is not there yet when its partition is swept: that waits for it. */
static void test_a_sweep_waits_for_a_long_transaction(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('long')");
    add_rows(fx, 1);
    test_sql(fx, "SELECT tenon.set_kind('long', history_keep => '3 days')");
    sql_run(other, "BEGIN");
    sql_run(other, "SELECT tenon.cancel(%lld)", (long long)id);
    time_passes(fx, "1 h 1 min");
    test_sql(fx, "SELECT tenon.make_partitions()");
    add_rows(fx, 1);
    time_passes(fx, "1 h 1 min");
    purge(fx);
    sql_run(other, "COMMIT");
    purge(fx);
    assert_true(test_sql_bool(fx, "SELECT part = 0 FROM tenon.history WHERE kind = 'long'"));
    PQfinish(other);
}

/* Without kinds that have a time of their own, a turn reads no row of the history. */
static void test_without_such_kinds_nothing_is_read(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "history", "23 h");
    add_rows(fx, 100);
    test_sql(fx, "BEGIN");
    int64_t before = test_sql_int(fx, "SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables"
                                      " WHERE relname LIKE 'history%%'");
    purge(fx);
    assert_int_equal(test_sql_int(fx, "SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables"
                                      " WHERE relname LIKE 'history%%'"),
                     before);
    test_sql(fx, "COMMIT");
    assert_null(test_sql_text(fx, "SELECT to_regclass('tenon.history_0')"));
}

static void test_dead_kinds_have_their_own_time(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.set_kind('short', dead_keep => '2 h');"
             "SELECT tenon.set_kind('long', dead_keep => '200 days');"
             "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
             " failures, crashes, max_attempts, priority, reason, queue, kind, payload)"
             " SELECT now() - '1 h'::interval * h, row_number() OVER (), now(), now(), 1000, 1,"
             " 1, 0, 1, 4, 'failures', 'default', kind, '1' FROM unnest('{short,k,long}'::text[])"
             " kind, unnest('{1,3,2159,2161,4799,4801}'::integer[]) h");
    purge(fx);
    char *got = test_sql_text(fx, "SELECT string_agg(kind || n, ' ' ORDER BY kind) FROM (SELECT"
                                  " kind, count(*) AS n FROM tenon.dead GROUP BY 1) d");
    assert_string_equal(got, "k3 long5 short1");
    free(got);
}

/* One that an operator took out of the history is his. */
static void test_a_detached_partition_stays(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "history", "9 days");
    partition_begun(fx, "history", "8 days");
    test_sql(fx, "ALTER TABLE tenon.history DETACH PARTITION tenon.history_1");
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() = 'history_2'"));
    assert_true(test_sql_bool(fx, "SELECT tenon.drop_history() IS NULL"));
    test_sql(fx, "SELECT count(*) FROM tenon.history_1");
}

/* Somebody has dropped all partitions, and an application goes on without a cleaner or a worker. */
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
        assert_partitions(fx, "0 2");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_partitions),
        WITH_DATABASE(test_partitions_raced),
        WITH_DATABASE(test_the_history_stays_within_its_rows),
        WITH_DATABASE(test_a_cleaner_that_was_away),
        WITH_DATABASE(test_the_history_goes_by_its_age),
        WITH_DATABASE(test_partitions_beside_a_reader),
        WITH_DATABASE(test_rows_are_counted),
        WITH_DATABASE(test_a_long_transaction_meets_a_new_partition),
        WITH_DATABASE(test_making_partitions_stops_no_finish),
        WITH_DATABASE(test_attempts_go_by_their_age),
        WITH_DATABASE(test_log_lines_go_by_their_age),
        WITH_DATABASE(test_sent_messages_go_by_their_age),
        WITH_DATABASE(test_a_drop_beside_a_reader_gives_up),
        WITH_DATABASE(test_kinds_have_their_own_time),
        WITH_DATABASE(test_a_drop_waits_for_the_sweep),
        WITH_DATABASE(test_a_sweep_waits_for_a_long_transaction),
        WITH_DATABASE(test_without_such_kinds_nothing_is_read),
        WITH_DATABASE(test_dead_kinds_have_their_own_time),
        WITH_DATABASE(test_a_detached_partition_stays),
        WITH_DATABASE(test_applications_make_partitions),
    };
    return RUN_GROUP(tests);
}
