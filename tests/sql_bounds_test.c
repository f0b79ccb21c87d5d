/* label: sql */
/* poll.sql from bounds: how workers share how far they have got, and what they pass over. */
#include "tests/support/held.h"

#include "core/db.h"
#include "core/now.h"
#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_LIMIT_MS = 8000, SEEN_BYTES = 64, SQL_BYTES = 8192, COLUMN_PAYLOAD = 10 };

/* From the oldest on. */
static const char shared[] = "{1,1,1,1,1,1,1,1,1,1}", alone[] = "{-1,-1,-1,-1,-1,-1,-1,-1,-1,-1}",
                  front[] = "{0,0,0,0,0,0,0,0,0,0}", everything[] = "{}";

/* What a look for `n` claims has to be, as payloads from the oldest to the newest. */
static void look_as(PGconn *conn, const char *worker, const char *kinds, const char *n,
                    const char *from, const char *want)
{
    const char *const params[] = {worker, "{default}", kinds, n, from, "false"};
    PGresult *result = statement_run(conn, &sql_poll, params, 6);
    char seen[SEEN_BYTES] = "";
    size_t len = 0;
    for (int i = 0; i < PQntuples(result) && len < sizeof seen; i++) {
        len += (size_t)snprintf(seen + len, sizeof seen - len, i > 0 ? " %s" : "%s",
                                PQgetvalue(result, i, COLUMN_PAYLOAD));
    }
    PQclear(result);
    assert_string_equal(seen, want);
}

static void look(struct fixture *fx, const char *worker, const char *n, const char *from,
                 const char *want)
{
    look_as(fx->conn, worker, "{a}", n, from, want);
}

/* Nine tasks, 1 the oldest, a second from one to the next; and two workers. */
static void make(struct fixture *fx, char one[UUID_BYTES], char two[UUID_BYTES])
{
    worker_make(fx, one);
    worker_make(fx, two);
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_agg(to_jsonb(n)))"
                 " FROM generate_series(1, 9) n");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() - make_interval(secs => 20 - payload::int)");
}

/* As when its claim was rolled back, or it was committed after the look. */
static void free_again(struct fixture *fx, int task)
{
    test_sql(fx, "UPDATE tenon.task SET start_time = NULL, worker_id = NULL WHERE payload = '%d'",
             task);
}

static void test_it_begins_where_another_ended(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    look(fx, one, "3", shared, "1 2 3");
    free_again(fx, 1);
    look(fx, two, "2", shared, "4 5");
    look(fx, one, "1", shared, "6");
    look(fx, two, "2", alone, "1 7");
}

static void test_one_that_goes_alone_tells_nobody(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    look(fx, one, "3", alone, "1 2 3");
    free_again(fx, 1);
    look(fx, two, "1", shared, "1");
    look(fx, two, "1", everything, "4");
    free_again(fx, 1);
    look(fx, two, "1", shared, "1");
}

static void test_it_is_told_at_once(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "BEGIN");
    look_as(conn, one, "{a}", "3", shared, "1 2 3");
    assert_true(test_sql_bool(fx, "SELECT count(last_value) = 1 FROM pg_sequences"
                                  " WHERE schemaname = 'tenon' AND sequencename LIKE 'bound%%'"));
    sql_run(conn, "ROLLBACK");
    look(fx, two, "2", shared, "3 4");
    look(fx, two, "3", everything, "1 2 5"); /* nothing is lost */
    PQfinish(conn);
}

/* Others may commit tasks that became ready in the last second. */
static void test_what_is_young_is_not_told(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    int64_t begin_ms = now_ms();
    test_sql(fx, "UPDATE tenon.task SET run_at = now() WHERE payload = '3'");
    look(fx, one, "9", shared, "1 2 4 5 6 7 8 9 3");
    if (now_ms() - begin_ms < 1000) { /* or this machine has slept, and nothing is young any more */
        free_again(fx, 1);
        look(fx, two, "1", shared, "1");
    }
}

/* So that who is behind the others knows, however it looks. */
static void test_a_look_says_where_the_others_are(void **state)
{
    enum { COLUMN_RUN_AT = 12, COLUMN_OTHERS = 13 };
    struct fixture *fx = *state;
    static const char *const from[] = {shared, alone, front, everything};
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    char *told = NULL;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        const char *const params[] = {one, "{default}", "{a}", "2", from[i], "false"};
        PGresult *result = statement_run(fx->conn, &sql_poll, params, 6);
        assert_string_equal(PQgetvalue(result, 1, COLUMN_OTHERS), told ? told : "0");
        told = told ? told
                    : test_sql_text(fx, "SELECT %s / 1000 * 1000",
                                    PQgetvalue(result, 1, COLUMN_RUN_AT));
        PQclear(result);
    }
    free(told);
}

static void test_a_look_by_age_begins_there_too(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    look(fx, one, "3", shared, "1 2 3");
    free_again(fx, 1);
    const char *const params[] = {two, "{default}", "{a}", "1", shared, "true"};
    PGresult *result = statement_run(fx->conn, &sql_poll, params, 6);
    assert_string_equal(PQgetvalue(result, 0, COLUMN_PAYLOAD), "4");
    PQclear(result);
}

/* What one does not run, another may. */
static void test_only_those_who_run_the_same_kinds_share(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    look(fx, one, "3", shared, "1 2 3");
    free_again(fx, 1);
    look_as(fx->conn, two, "{a,b}", "2", shared, "1 4");
}

/* The lock of those who look for the same as look() does. */
#define LOOKS                                                                                      \
    "1952804463, hashtext(concat_ws(' ', '{default}'::text[], '{a}'::text[])) | -2147483648"

/* As a worker prepares it. */
static PGconn *hot_session(struct fixture *fx)
{
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "%s", db_session_hot);
    PGresult *result = PQprepare(conn, "look", sql_poll.text, 0, NULL);
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    return conn;
}

static void one_after_the_other(struct fixture *fx, const char *by_age)
{
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    PGconn *conn = hot_session(fx), *other = sql_connect(fx->database_url);
    test_sql(fx, "SELECT pg_advisory_lock(" LOOKS ")");
    test_sql(fx, "ALTER FUNCTION tenon.lock_looks SET lock_timeout = 0");
    const char *const params[] = {two, "{default}", "{a}", "2", shared, by_age};
    assert_int_equal(PQsendQueryPrepared(conn, "look", 6, params, NULL, NULL, 0), 1);
    test_await(fx, WAIT_LIMIT_MS,
               "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %d AND locktype = 'advisory'"
               " AND NOT granted)",
               PQbackendPID(conn));
    sql_run(other, "SET statement_timeout = 5000");
    look_as(other, one, "{a}", "2", alone, "1 2"); /* who does not share does not wait */
    look_as(other, one, "{a}", "1", front, "3");
    look_as(other, one, "{a}", "1", everything, "4");
    look_as(other, one, "{a,b}", "1", shared, "5"); /* nor who looks for something else */
    test_sql(
        fx, "SELECT tenon.tell_bound("
            "hashtextextended(concat_ws(' ', 'default', 4, '{a}'::text[]), 0),"
            " (extract(epoch FROM run_at) * 1000000)::bigint) FROM tenon.task WHERE payload = '7'");
    test_sql(fx, "SELECT pg_advisory_unlock(" LOOKS ")");
    PGresult *result = PQgetResult(conn);
    assert_int_equal(PQntuples(result), 2);
    assert_string_equal(PQgetvalue(result, 0, COLUMN_PAYLOAD), "7");
    PQclear(result);
    PQfinish(conn);
    PQfinish(other);
}

/* Then each begins where the one before has ended. */
static void test_those_who_share_look_one_after_the_other(void **state)
{
    one_after_the_other(*state, "false");
}

static void test_those_who_share_look_by_age_likewise(void **state)
{
    one_after_the_other(*state, "true");
}

/* Nobody waits for the commit. */
static void test_a_look_lets_go_of_its_lock_at_once(void **state)
{
    struct fixture *fx = *state;
    static const char *const queues[] = {"{default}", "{nobody}", "{}"};
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    PGconn *conn = hot_session(fx);
    for (size_t i = 0; i < 7; i++) {
        const char *const params[] = {i == 6 ? "00000000-0000-0000-0000-000000000000" : one,
                                      queues[i % 3],
                                      "{a}",
                                      "2",
                                      shared,
                                      i > 2 && i < 6 ? "true" : "false"};
        sql_run(conn, "BEGIN");
        PGresult *result = PQexecPrepared(conn, "look", 6, params, NULL, NULL, 0);
        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        PQclear(result);
        assert_true(test_sql_bool(fx,
                                  "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE pid = %d"
                                  " AND locktype = 'advisory')",
                                  PQbackendPID(conn)));
        sql_run(conn, "COMMIT");
    }
    PQfinish(conn);
}

/* It saves work, no more. */
static void test_without_the_lock_it_looks_all_the_same(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SELECT pg_advisory_lock(" LOOKS ")");
    look(fx, one, "2", shared, "1 2");
    look(fx, two, "1", shared, "3");
    PQfinish(conn);
}

/* Tracks 5 and 21 lie in the same sequence; -11 as well, in whose number all bits are used. */
static void test_a_track_takes_the_place_of_another(void **state)
{
    struct fixture *fx = *state;
    static const char known[] = "SELECT tenon.shared_bound(5) IS NOT DISTINCT FROM %s"
                                " AND tenon.shared_bound(21) IS NOT DISTINCT FROM %s"
                                " AND tenon.shared_bound(-11) IS NOT DISTINCT FROM %s";
    assert_true(test_sql_bool(fx, known, "NULL", "NULL", "NULL"));
    test_sql(fx, "SELECT tenon.tell_bound(5, 1763812594123456)");
    assert_true(test_sql_bool(fx, known, "1763812594123000", "NULL", "NULL"));
    test_sql(fx, "SELECT tenon.tell_bound(5, 1763812594122999)"); /* it never goes back */
    assert_true(test_sql_bool(fx, known, "1763812594123000", "NULL", "NULL"));
    test_sql(fx, "SELECT tenon.tell_bound(21, 3000)");
    assert_true(test_sql_bool(fx, known, "NULL", "3000", "NULL"));
    test_sql(fx, "SELECT tenon.tell_bound(NULL, 4000), tenon.tell_bound(21, NULL)");
    assert_true(test_sql_bool(fx, known, "NULL", "3000", "NULL"));
    test_sql(fx, "SELECT tenon.tell_bound(-11, 5000)");
    assert_true(test_sql_bool(fx, known, "NULL", "NULL", "5000"));
}

/* What is left of a look that took 16 MiB lies before the next one. */
static void test_what_did_not_fit_is_not_passed(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    test_sql(fx, "UPDATE tenon.setting SET payload_bytes_max = 20000000");
    int64_t large = test_sql_int(fx, "SELECT tenon.enqueue('a', to_jsonb(repeat('x', 17000000)))");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() - interval '1 hour' WHERE id = %lld",
             (long long)large);
    const char *const params[] = {one, "{default}", "{a}", "5", shared, "false"};
    PGresult *result = statement_run(fx->conn, &sql_poll, params, 6);
    assert_int_equal(PQntuples(result), 1);
    PQclear(result);
    look(fx, two, "3", shared, "1 2 3");
}

/* Is what a transaction in progress holds taken out before its lock is tried? The rows come out the
 * same, and what it costs does not. */
static bool filtered(struct fixture *fx, const char *worker, const char *from)
{
    const char *const params[] = {worker, "{default}", "{a}", "1", from, "false"};
    char explain[SQL_BYTES];
    assert_in_range(snprintf(explain, sizeof explain, "EXPLAIN (ANALYZE, TIMING OFF) %s",
                             sql_poll.text),
                    1, sizeof explain - 1);
    PGresult *result = PQexecParams(fx->conn, explain, 6, NULL, params, NULL, NULL, 0);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    bool found = false;
    for (int i = 0; i < PQntuples(result); i++) {
        found = found || strstr(PQgetvalue(result, i, 0), "Rows Removed by Filter: 2");
    }
    PQclear(result);
    return found;
}

/* Tasks 1 and 2 are held by a transaction in progress. */
static void test_what_is_held_is_passed_over(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    test_sql(fx, "UPDATE tenon.task SET priority = 9"); /* all in the first range */
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "BEGIN; SELECT FROM tenon.task WHERE payload IN ('1', '2') FOR UPDATE");
    test_sql(fx, "BEGIN");
    assert_true(filtered(fx, one, alone));
    test_sql(fx, "ROLLBACK");
    test_sql(fx, "SELECT pg_current_xact_id()"); /* now a younger one is over */
    test_sql(fx, "BEGIN");
    assert_true(filtered(fx, one, alone));
    test_sql(fx, "ROLLBACK; BEGIN");
    assert_true(filtered(fx, one, front));
    test_sql(fx, "ROLLBACK; BEGIN");
    assert_false(filtered(fx, one, everything));
    test_sql(fx, "ROLLBACK");
    look(fx, one, "1", alone, "3");
    look(fx, one, "1", everything, "4");
    sql_run(conn, "ROLLBACK");
    look(fx, one, "2", alone, "1 2");
    PQfinish(conn);
}

/* As a task that is put back in the same round. */
static void test_what_its_own_transaction_holds_is_claimed(void **state)
{
    struct fixture *fx = *state;
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    test_sql(fx, "BEGIN; SELECT FROM tenon.task WHERE payload = '1' FOR UPDATE");
    look(fx, one, "1", alone, "1");
    test_sql(fx, "COMMIT");
}

/* Nor does it matter that another transaction writes all the time. */
static void test_what_was_held_is_found(void **state)
{
    struct fixture *fx = *state;
    static const char *const ways[] = {
        "BEGIN; SELECT FROM tenon.task WHERE payload = '1' FOR UPDATE; COMMIT",
        "BEGIN; SELECT FROM tenon.task WHERE payload = '2' FOR UPDATE; ROLLBACK",
        "BEGIN; UPDATE tenon.task SET priority = 9 WHERE payload = '3'; ROLLBACK",
        "BEGIN; SAVEPOINT s; DELETE FROM tenon.task WHERE payload = '4'; ROLLBACK TO s; COMMIT",
        "BEGIN; SELECT FROM tenon.task WHERE payload = '5' FOR UPDATE;"
        " UPDATE tenon.task SET priority = 4 WHERE payload = '5'; COMMIT",
    };
    char one[UUID_BYTES], two[UUID_BYTES];
    make(fx, one, two);
    PGconn *elder = sql_connect(fx->database_url);
    sql_run(elder, "BEGIN; SELECT pg_current_xact_id()");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        test_sql(fx, "%s", ways[i]);
    }
    look(fx, one, "6", alone, "1 2 3 4 5 6");
    sql_run(elder, "COMMIT");
    PQfinish(elder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_it_begins_where_another_ended),
        WITH_DATABASE(test_one_that_goes_alone_tells_nobody),
        WITH_DATABASE(test_it_is_told_at_once),
        WITH_DATABASE(test_what_is_young_is_not_told),
        WITH_DATABASE(test_a_look_says_where_the_others_are),
        WITH_DATABASE(test_a_look_by_age_begins_there_too),
        WITH_DATABASE(test_only_those_who_run_the_same_kinds_share),
        WITH_DATABASE(test_those_who_share_look_one_after_the_other),
        WITH_DATABASE(test_those_who_share_look_by_age_likewise),
        WITH_DATABASE(test_a_look_lets_go_of_its_lock_at_once),
        WITH_DATABASE(test_without_the_lock_it_looks_all_the_same),
        WITH_DATABASE(test_a_track_takes_the_place_of_another),
        WITH_DATABASE(test_what_did_not_fit_is_not_passed),
        WITH_DATABASE(test_what_is_held_is_passed_over),
        WITH_DATABASE(test_what_its_own_transaction_holds_is_claimed),
        WITH_DATABASE(test_what_was_held_is_found),
    };
    return RUN_GROUP(tests);
}
