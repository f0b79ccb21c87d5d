/* label: sql */
/* The rows of tenon.task_step: they are there as long as their task, a kill leaves all of a step or
 * nothing, each step costs as much as the first one, and a task without steps pays nothing. */
#include "tests/support/held.h"
#include "tests/support/polls.h"

#include "worker/statements.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_MS = 10000 };

static int64_t step_rows(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.task_step");
}

static void steps_are(struct fixture *fx, int64_t id, const char *want)
{
    char *got = test_sql_text(fx, "SELECT steps FROM tenon.tasks WHERE id = %lld", (long long)id);
    assert_string_equal(got ? got : "none", want);
    free(got);
}

/* A running task of which these statements know the claim as current_setting('x.claim'). */
static void take(struct fixture *fx, struct held *c)
{
    char claim[HELD_TEXT_BYTES];
    held_new(fx, c);
    held_text(c, claim);
    test_sql(fx, "SET x.claim = '%s'", claim);
}

#define CLAIM "current_setting('x.claim')"

static void record(struct fixture *fx, const char *name, const char *value)
{
    test_sql(fx, "SELECT tenon.step(" CLAIM ", '%s', '%s')", name, value);
}

/* --- how long they are there --- */

static const struct statement *const finishes[] = {&sql_finish, &sql_finish_unlocked,
                                                   &sql_finish_forget};
enum { FINISHES = sizeof finishes / sizeof *finishes };

/* What ends a task deletes its steps, and those of no other. */
static void test_they_end_with_their_task(void **state)
{
    static const char *const ends[] = {
        "SELECT tenon.finish(" CLAIM ")", "SELECT tenon.finish_many(ARRAY[" CLAIM "])",
        "SELECT tenon.cancel(split_part(" CLAIM ", '/', 1)::bigint)",
        "UPDATE tenon.task SET start_time = NULL, claim_key = NULL, worker_id = NULL,"
        " start_before = now() WHERE id = split_part(" CLAIM ", '/', 1)::bigint;"
        " SELECT tenon.settle()"};
    struct fixture *fx = *state;
    struct held c, other;
    take(fx, &other);
    record(fx, "n", "1");
    for (size_t i = 0; i < FINISHES + sizeof ends / sizeof *ends; i++) {
        take(fx, &c);
        record(fx, "n", "1");
        record(fx, "m", "2");
        assert_int_equal(step_rows(fx), 3);
        if (i < FINISHES) {
            assert_true(held_finish(fx, finishes[i], &c, "{}"));
        } else {
            test_sql(fx, "%s", ends[i - FINISHES]);
        }
        assert_int_equal(step_rows(fx), 1);
    }
    steps_are(fx, other.id, "{\"n\": 1}");
}

/* A session that is killed in a transaction leaves nothing of its step; what it committed before
 * stays. (That step_count and the rows agree, is checked after each test.) */
static void test_a_kill_between_two_statements(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "SELECT tenon.step('%s', 'a', '1')", claim);
    sql_run(other, "BEGIN; SELECT tenon.step('%s', 'b', '2')", claim);
    int pid = PQbackendPID(other);
    test_sql(fx, "SELECT pg_terminate_backend(%d)", pid);
    test_await(fx, LIMIT_MS, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d)",
               pid);
    PQfinish(other);
    free(held_requeue(fx, &c, "crashed", "x", NULL));
    steps_are(fx, c.id, "{\"a\": 1}");
    assert_int_equal(step_rows(fx), 1);
}

/* A claim gives the steps of its own moment and not those of its statement's snapshot: since then
 * another worker may have run the task (tenon.claim_alone). */
static void test_read_as_they_are_now(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    take(fx, &c);
    char *got = test_sql_text(fx,
                              "WITH s AS MATERIALIZED (SELECT tenon.step(" CLAIM ", 'a', '1') AS v)"
                              " SELECT tenon.steps_of(CASE WHEN v = '1' THEN %lld END) FROM s",
                              (long long)c.id);
    assert_string_equal(got ? got : "none", "{\"a\": 1}");
    free(got);
}

/* After TRUNCATE ... RESTART IDENTITY in a user's tests the next task has the id of an old one. */
static void test_rows_of_an_earlier_life(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    take(fx, &c);
    record(fx, "a", "1");
    record(fx, "b", "2");
    test_sql(fx, "TRUNCATE tenon.task RESTART IDENTITY");
    take(fx, &c);
    assert_int_equal(c.id, 1);
    steps_are(fx, c.id, "none");
    record(fx, "a", "3");
    steps_are(fx, c.id, "{\"a\": 3}");
}

/* --- what they cost --- */

enum { STEPS = 1000, FEW = 10 };

/* What this session writes for the step `#` of the statement, without the pages that PostgreSQL
 * logs once after a checkpoint: the least of a few. */
static int64_t wal_bytes(struct fixture *fx, const char *sql, int first)
{
    int64_t least = INT64_MAX;
    for (int i = first; i < first + FEW; i++) {
        int64_t bytes =
            test_sql_int(fx, "SELECT pg_temp.wal_bytes(replace($sql$%s$sql$, '#', '%d'))", sql, i);
        least = bytes < least ? bytes : least;
    }
    return least;
}

/* The thousandth step writes what the tenth one wrote, whichever way it came. */
static void test_each_costs_the_same(void **state)
{
    static const char *const ways[] = {
        "SELECT tenon.step(" CLAIM ", 's#', to_jsonb(repeat('x', 90)))",
        "SELECT tenon.record_steps(array_agg(id), array_agg(claim_key),"
        " array_agg(json_build_object('step', json_build_object('name', 'r#', 'value',"
        " repeat('x', 90)))::text)) FROM tenon.task"};
    enum { WAYS = sizeof ways / sizeof *ways };
    struct fixture *fx = *state;
    struct held c;
    int64_t early[WAYS];
    test_sql(fx, "CREATE FUNCTION pg_temp.wal_bytes(sql text) RETURNS bigint LANGUAGE plpgsql AS $$"
                 " DECLARE plan json; BEGIN"
                 " EXECUTE 'EXPLAIN (ANALYZE, WAL, FORMAT JSON) ' || sql INTO plan;"
                 " RETURN plan -> 0 -> 'Plan' ->> 'WAL Bytes'; END $$");
    take(fx, &c);
    for (int way = 0; way < WAYS; way++) {
        early[way] = wal_bytes(fx, ways[way], 0);
    }
    for (int i = WAYS * FEW; i < STEPS - WAYS * FEW; i++) {
        test_sql(fx, "SELECT tenon.step(" CLAIM ", 'm%d', to_jsonb(repeat('x', 90)))", i);
    }
    for (int way = 0; way < WAYS; way++) {
        assert_in_range(early[way], 1, 1000);
        assert_in_range(wal_bytes(fx, ways[way], FEW), 1, 2 * early[way]);
    }
    assert_int_equal(step_rows(fx), STEPS);
}

/* A piece of an act ends before it has moved more than 100,000 steps, but moves one task at least;
 * and the call after it continues there. */
static void test_an_act_is_bounded_by_steps(void **state)
{
    static const char *const acts[] = {
        "SELECT concat_ws(' ', n, skipped, next) FROM tenon.change('retry', '{\"kind\": \"a\"}',"
        " cursor => %d)",
        "SELECT concat_ws(' ', n, skipped, next) FROM tenon.change('cancel', '{\"kind\": \"a\"}',"
        " cursor => %d)",
        "SELECT concat_ws(' ', n, skipped, next) FROM tenon.change('retry',"
        " '{\"ids\": [1, 2, 3, 4, 5]}', cursor => %d)"};
    static const int cursors[] = {0, 1, 4};
    static const char *const moved[] = {"1 0 1", "3 0 4", "1 0"};
    struct fixture *fx = *state;
    for (int i = 0; i < 5; i++) {
        (void)test_sql_int(fx, "SELECT tenon.enqueue('a')");
    }
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.task;"
                 " UPDATE tenon.history SET steps = (SELECT jsonb_object_agg(n, true)"
                 " FROM generate_series(1, CASE id WHEN 1 THEN 90000 WHEN 5 THEN 90001"
                 " ELSE 45000 END) n) WHERE id <> 3;"
                 " INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, timeout_ms,"
                 " claims, failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
                 " steps) SELECT now(), id, now(), now(), now(), 1000, 1, 1, 0, 1, 0, 'handler',"
                 " queue, kind, payload, steps FROM tenon.history;"
                 " DELETE FROM tenon.history");
    for (size_t act = 0; act < sizeof acts / sizeof *acts; act++) {
        for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++) {
            char *got = test_sql_text(fx, acts[act], cursors[i]);
            assert_string_equal(got, moved[i]);
            free(got);
        }
    }
}

/* Of a task without steps no statement looks at the table of steps: it is not even locked. */
static void test_a_task_without_steps_pays_nothing(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    test_sql(fx, "BEGIN");
    free(held_requeue(fx, &c, "failed", "x", "0"));
    assert_true(held_take(fx, c.worker, c.id, &c));
    free(held_requeue(fx, &c, "snooze", NULL, "0"));
    PGresult *result = poll_run(fx->conn, c.worker, "{default}", "{a}", "10");
    assert_int_equal(poll_claimed(result), 1);
    c.key = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    PQclear(result);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_true(test_sql_bool(
        fx, "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN"
            " ('tenon.task_step'::regclass, 'tenon.task_step_pkey'::regclass))"));
    test_sql(fx, "ROLLBACK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_they_end_with_their_task),
        WITH_DATABASE(test_a_kill_between_two_statements),
        WITH_DATABASE(test_read_as_they_are_now),
        WITH_DATABASE(test_rows_of_an_earlier_life),
        WITH_DATABASE(test_each_costs_the_same),
        WITH_DATABASE(test_an_act_is_bounded_by_steps),
        WITH_DATABASE(test_a_task_without_steps_pays_nothing),
    };
    return RUN_GROUP(tests);
}
