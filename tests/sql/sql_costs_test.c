/* label: sql */
/* timeout: 300 */
/* No row, however dear, stops what is done for all: a turn ends in time, goes on where it stopped,
 * and leaves out what is too slow alone. */
#include "tests/support/held.h"

#include "cleaner/statements.h"

#include <stdio.h>

enum { TURNS = 40 };

/* What is inserted into this table takes so long, if its kind is `slow`. */
static void make_slow(struct fixture *fx, const char *table, const char *column,
                      const char *seconds)
{
    test_sql(
        fx,
        "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_sleep(%s); RETURN NEW; END $$;"
        "CREATE OR REPLACE TRIGGER slow BEFORE INSERT ON %s FOR EACH ROW WHEN (NEW.%s = 'slow')"
        " EXECUTE FUNCTION slow()",
        seconds, table, column);
}

/* A flow of two, the first of which is done: the second waits for a turn. */
static int64_t make_child(struct fixture *fx)
{
    return test_sql_int(
        fx, "WITH f AS MATERIALIZED (SELECT tenon.flow('{\"tasks\": [{\"name\": \"p\", \"kind\":"
            " \"a\"},"
            " {\"kind\": \"a\", \"depends_on\": [\"p\"]}]}'::jsonb) AS id)"
            " SELECT id FROM f");
}

static void finish_parent(struct fixture *fx, int64_t flow)
{
    test_sql(fx,
             "DELETE FROM tenon.task t WHERE t.flow = %lld AND t.wanted_at IS NULL"
             " RETURNING CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t) END",
             (long long)flow);
}

static bool child_is_ready(struct fixture *fx, int64_t flow)
{
    return test_sql_bool(fx, "SELECT run_at < 'infinity' FROM tenon.task WHERE flow = %lld",
                         (long long)flow);
}

/* Rows of 0.2 s each: all of them would take 100 s. */
static void test_expiry_stops_nothing_else(void **state)
{
    struct fixture *fx = *state;
    make_slow(fx, "tenon.history", "kind", "0.2");
    test_sql(fx,
             "SELECT tenon.enqueue('slow', start_before => clock_timestamp() + interval '0.1 s')"
             " FROM generate_series(1, 500); SELECT pg_sleep(0.2)");
    int64_t flow = make_child(fx);
    finish_parent(fx, flow);
    test_sql(fx, "SET statement_timeout = '15 s'; SELECT tenon.settle()");
    assert_true(child_is_ready(fx, flow));
    int64_t left = test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE kind = 'slow'");
    assert_true(left > 0 && left < 500);
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE kind = 'slow'") < left);
}

/* Of large ones a piece is 8 MB. */
static void test_large_ones_expire_in_pieces(void **state)
{
    struct fixture *fx = *state;
    make_slow(fx, "tenon.history", "kind", "0.3");
    test_sql(
        fx,
        "INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed,"
        " announced, queue, kind, payload, payload_bytes, start_before)"
        " SELECT now(), now(), 1000, 25, 4, false, false, 'default', 'slow', '1', 1048576, now()"
        " FROM generate_series(1, 20)");
    test_sql(fx, "SELECT tenon.settle()");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 12);
}

/* One that takes longer than a statement may is left out, and said; the others go on. */
static void test_one_that_is_too_slow_is_left_out(void **state)
{
    struct fixture *fx = *state;
    make_slow(fx, "tenon.history", "kind", "60");
    test_sql(
        fx, "SELECT tenon.enqueue(CASE n WHEN 50 THEN 'slow' ELSE 'a' END,"
            " start_before => clock_timestamp() + n * interval '1 ms' + interval '50 ms')"
            " FROM generate_series(1, 100) n; SELECT pg_sleep(0.3); SET statement_timeout = '1 s'");
    int64_t flow = make_child(fx);
    finish_parent(fx, flow);
    int turns = 0;
    while (test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_before IS NOT NULL") > 1) {
        assert_true(turns++ < TURNS);
        test_sql(fx, "SELECT tenon.settle(); SELECT pg_sleep(0.2)");
        assert_true(turns < 3 || child_is_ready(fx, flow));
    }
    assert_true(test_sql_bool(fx,
                              "SELECT s.error LIKE '%%timeout%%' AND s.until > clock_timestamp()"
                              " FROM tenon.set_aside s JOIN tenon.task t ON t.id = s.id"
                              " WHERE s.part = 'expire' AND t.kind = 'slow'"));
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 1 FROM tenon.task t JOIN tenon.failing f ON f.what = 'set_aside'"
            " AND f.sentence LIKE '%%leaves out the task ' || t.id || ' until %%' WHERE"
            " t.kind = 'slow' AND tenon.why(t.id) LIKE '%%Cleaners leave it out until %%'"));
    test_sql(fx, "SET statement_timeout = 0; DROP TRIGGER slow ON tenon.history;"
                 "UPDATE tenon.set_aside SET until = now(); SELECT tenon.settle() FROM"
                 " generate_series(1, 20)");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task WHERE start_before IS NOT NULL"),
                     0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.set_aside"), 0);
}

/* A note of a flow that is too slow alone. */
static void test_a_flow_that_is_too_slow_is_left_out(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.batch(on_end => 'slow', name => 'slow')");
    make_slow(fx, "tenon.task", "kind", "60");
    test_sql(fx, "SELECT tenon.close(1); SET statement_timeout = '1 s'");
    int64_t flow = make_child(fx);
    finish_parent(fx, flow);
    for (int turns = 0; !child_is_ready(fx, flow); turns++) {
        assert_true(turns < TURNS);
        test_sql(fx, "SELECT tenon.settle(); SELECT pg_sleep(0.2)");
    }
    assert_true(test_sql_bool(fx, "SELECT s.error LIKE '%%timeout%%' FROM tenon.set_aside s"
                                  " JOIN tenon.flow_note o ON o.id = s.id WHERE s.part = 'flows'"));
}

/* 8,000 rows under a key that somebody is just taking, then 1,000 such keys: another's is
 * served. */
static void test_locked_keys_starve_nobody(void **state)
{
    static const char again[] =
        "INSERT INTO tenon.again (run_at, created_at, timeout_ms, max_attempts, payload_bytes,"
        " priority,"
        " delayed, queue, kind, payload, unique_key, on_conflict, taken)"
        " SELECT now(), now(), 1000, 25, 2, 4, false, 'default', 'a', '{}', %s, 'keep', false"
        " FROM generate_series(1, %d) n";
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other,
            "BEGIN; SELECT tenon.enqueue('a', unique_key => 'x');"
            "SELECT tenon.enqueue('a', unique_key => 'x' || n) FROM generate_series(1, 1000) n");
    test_sql(fx, again, "'x'", 8000);
    test_sql(fx, again, "'x' || n", 1000);
    test_sql(fx, again, "'mine'", 1);
    for (int turns = 0; test_sql_int(fx, "SELECT count(*) FROM tenon.task") == 0; turns++) {
        assert_true(turns < TURNS);
        test_sql(fx, "SET statement_timeout = '15 s'; SELECT tenon.settle()");
    }
    sql_run(other, "COMMIT");
    for (int turns = 0; test_sql_int(fx, "SELECT count(*) FROM tenon.again") > 0; turns++) {
        assert_true(turns < 1000);
        test_sql(fx, "SELECT tenon.settle()");
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1002);
    PQfinish(other);
}

/* Rows of tenon.flow_wait that a turn has read. */
static int64_t waits_read(struct fixture *fx)
{
    test_sql(fx, "BEGIN");
    test_sql(fx, "SELECT tenon.settle()");
    int64_t n = test_sql_int(
        fx, "SELECT sum(pg_stat_get_xact_tuples_returned(i)) FROM unnest(ARRAY["
            "'tenon.flow_wait'::regclass, 'tenon.flow_wait_pkey', 'tenon.flow_wait_parent']) i");
    test_sql(fx, "COMMIT");
    return n;
}

/* Ten tasks that wait for 20,000 parents each, of which the last one is done. */
static void test_many_parents_are_read_in_pieces(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.flow('many'); INSERT INTO tenon.flow_task (id, flow, state)"
             " SELECT 1000000 + n, 1, CASE n WHEN 20000 THEN 'done' END FROM generate_series(1,"
             " 20000) n;"
             "SELECT tenon.enqueue('a', flow => 1) FROM generate_series(1, 10);"
             "UPDATE tenon.task SET run_at = 'infinity', wanted_at = now();"
             "INSERT INTO tenon.flow_wait (task, parent, on_dead) SELECT t.id, 1000000 + n, 'wait'"
             " FROM tenon.task t, generate_series(1, 20000) n;"
             "INSERT INTO tenon.flow_note (flow, task) SELECT 1, id FROM tenon.task; ANALYZE");
    int64_t flow = make_child(fx);
    finish_parent(fx, flow);
    int64_t n = waits_read(fx);
    print_message("a turn reads %lld waits\n", (long long)n);
    assert_true(n < 30000);
    assert_true(child_is_ready(fx, flow));
    for (int turns = 0; test_sql_int(fx, "SELECT count(*) FROM tenon.flow_note") > 0; turns++) {
        assert_true(turns < 100);
        test_sql(fx, "SELECT tenon.settle()");
    }
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.flow_wait WHERE parent = 1020000"),
                     0);
    test_sql(fx,
             "UPDATE tenon.flow_task SET state = 'done' WHERE id > 1000000;"
             "INSERT INTO tenon.flow_note (flow, task) SELECT 1, id FROM tenon.task WHERE wanted_at"
             " IS NOT NULL");
    for (int turns = 0;
         test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE wanted_at IS NOT NULL") > 0;
         turns++) {
        assert_true(turns < 1000);
        test_sql(fx, "SELECT tenon.settle()");
    }
}

/* 40 tasks that want what 60 parents returned, a megabyte each: none gets them, which is known
 * after two. */
static void test_large_results_are_not_read(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.flow('large'); INSERT INTO tenon.flow_task (id, flow, state, result)"
        " SELECT 1000000 + n, 1, 'done', to_jsonb(repeat(md5(n::text), 32768)) FROM"
        " generate_series(1, 60) n;"
        "SELECT tenon.enqueue('a', '{\"parents\": null}', flow => 1) FROM generate_series(1, 40);"
        "UPDATE tenon.task SET run_at = 'infinity', wanted_at = now();"
        "UPDATE tenon.flow_task m SET parents = ARRAY(SELECT 1000000 + n FROM"
        " generate_series(1, 60) n) WHERE id < 1000000;"
        "INSERT INTO tenon.flow_wait (task, parent, on_dead) SELECT t.id, 1000060, 'wait' FROM"
        " tenon.task t;"
        "INSERT INTO tenon.flow_note (flow, task) VALUES (1, 1000060); SET statement_timeout ="
        " '15 s'");
    int64_t flow = make_child(fx);
    finish_parent(fx, flow);
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(child_is_ready(fx, flow));
    for (int turns = 0;
         test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE wanted_at IS NOT NULL") > 0;
         turns++) {
        assert_true(turns < 100);
        test_sql(fx, "SELECT tenon.settle()");
    }
}

/* 600 that wait and are locked, for signals that have come and for their time: another goes on. */
static void test_locked_waits_starve_nobody(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 1201);"
                 "UPDATE tenon.task SET run_at = 'infinity', wanted_at = 'infinity';"
                 "INSERT INTO tenon.waiting (task_id, signal, until) SELECT id, 's' || id, now() +"
                 " interval '1 day'"
                 " FROM tenon.task; SELECT tenon.signal('s' || id) FROM tenon.task ORDER BY id");
    sql_run(other, "BEGIN; SELECT FROM tenon.task WHERE id <= 1200 FOR UPDATE");
    for (int turns = 0;
         test_sql_int(fx, "SELECT count(*) FROM tenon.waiting WHERE task_id = 1201") > 0; turns++) {
        assert_true(turns < TURNS);
        test_sql(fx, "SELECT tenon.settle()");
    }
    test_sql(fx,
             "DELETE FROM tenon.signal; UPDATE tenon.waiting SET settled = true, until = now() -"
             " task_id * interval '1 ms';"
             "SELECT tenon.enqueue('a'); UPDATE tenon.task SET run_at = 'infinity', wanted_at ="
             " 'infinity' WHERE id = 1202;"
             "INSERT INTO tenon.waiting VALUES (1202, 's', now(), true)");
    for (int turns = 0;
         test_sql_int(fx, "SELECT count(*) FROM tenon.waiting WHERE task_id = 1202") > 0; turns++) {
        assert_true(turns < TURNS);
        test_sql(fx, "SELECT tenon.settle()");
    }
    PQfinish(other);
}

/* Schedules whose tasks take 0.2 s each. */
static void test_schedules_stop_in_time(void **state)
{
    struct fixture *fx = *state;
    make_slow(fx, "tenon.task", "kind", "0.2");
    test_sql(
        fx, "SELECT tenon.set_schedule('s' || n, every => '1 h', kind => 'slow') FROM"
            " generate_series(1, 100) n;"
            "UPDATE tenon.schedule SET next_at = now(), due_at = now(); SET statement_timeout = '10"
            " s'");
    test_sql(fx, "SELECT tenon.run_schedules()");
    int64_t n = test_sql_int(fx, "SELECT count(*) FROM tenon.task");
    assert_true(n > 0 && n < 50);
    test_sql(fx, "SELECT tenon.run_schedules()");
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.task") > n);
}

#define ALL_BLOCKS "(0,0)", "(1000,0)"

/* Tasks of a dead worker, of which one cannot be requeued: it is set aside, and the others run. */
static void test_recovery_leaves_one_out(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(
        fx,
        "SELECT tenon.enqueue(CASE n WHEN 1 THEN 'b' ELSE 'a' END) FROM"
        " generate_series(1, 20) n;"
        "UPDATE tenon.task SET start_time = now(), worker_id = '%s', claim_key = id, claims = 1;"
        "UPDATE tenon.worker SET state = 'dead', ended_at = now()",
        worker);
    test_sql(fx, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                 " RAISE data_exception; END $$;"
                 "CREATE TRIGGER refuse BEFORE INSERT ON tenon.attempt FOR EACH ROW WHEN"
                 " (NEW.kind = 'b')"
                 " EXECUTE FUNCTION refuse()");
    const char *const alone[] = {ALL_BLOCKS, "1 min", "1"}, *const all[] = {ALL_BLOCKS, "1 min",
                                                                            "500"};
    PQclear(statement_run(fx->conn, &sql_recover, alone, 4));
    assert_true(test_sql_bool(fx, "SELECT part = 'recover' AND s.error LIKE"
                                  " '%%data_exception%%' AND t.kind = 'b'"
                                  " FROM tenon.set_aside s JOIN tenon.task t USING (id)"));
    PQclear(statement_run(fx->conn, &sql_recover, all, 4));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS"
                                      " NULL"),
                     19);
    test_sql(fx, "DROP TRIGGER refuse ON tenon.attempt; UPDATE tenon.set_aside SET until = now()");
    PQclear(statement_run(fx->conn, &sql_recover, all, 4));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS"
                                      " NULL"),
                     20);
    test_sql(fx, "SELECT tenon.settle()");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.set_aside"), 0);
}

/* What a worker leaves that had 20 tasks of a megabyte: 8 MB at a time. */
static void test_large_ones_are_recovered_in_pieces(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(
        fx,
        "SELECT tenon.enqueue('a') FROM generate_series(1, 20);"
        "UPDATE tenon.task SET start_time = now(), worker_id = '%s', claim_key = id, claims = 1,"
        " payload_bytes = 1048576;"
        "UPDATE tenon.worker SET state = 'dead', ended_at = now()",
        worker);
    const char *const all[] = {ALL_BLOCKS, "1 min", "500"};
    PQclear(statement_run(fx->conn, &sql_recover, all, 4));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS"
                                      " NULL"),
                     8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_expiry_stops_nothing_else),
        WITH_DATABASE(test_large_ones_expire_in_pieces),
        WITH_DATABASE(test_one_that_is_too_slow_is_left_out),
        WITH_DATABASE(test_a_flow_that_is_too_slow_is_left_out),
        WITH_DATABASE(test_locked_keys_starve_nobody),
        WITH_DATABASE(test_many_parents_are_read_in_pieces),
        WITH_DATABASE(test_large_results_are_not_read),
        WITH_DATABASE(test_locked_waits_starve_nobody),
        WITH_DATABASE(test_schedules_stop_in_time),
        WITH_DATABASE(test_recovery_leaves_one_out),
        WITH_DATABASE(test_large_ones_are_recovered_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
