/* label: sql */
/* Tags, and what tenon.enqueue_many takes for each element. */
#include "tests/support/held.h"

#include "core/db/db.h"
#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>

static void test_each_element(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_queue('slow', priority => 1, timeout => '1 min')");
    test_sql(fx, "SELECT tenon.enqueue_many('a', '{1,2,3,4}'::jsonb[], priority => 2, queues => "
                 "'{mail,NULL,slow,slow}', priorities => '{9,NULL,0,NULL}', "
                 "run_ats => ARRAY[NULL, now() + interval '1 h', NULL, NULL])");
    assert_true(test_sql_bool(
        fx, "SELECT string_agg(concat_ws(' ', queue, priority, timeout_ms, delayed, payload), ',' "
            "ORDER BY payload) = 'mail 9 3600000 f 1,default 2 3600000 t 2,slow 0 60000 f 3,slow 2 "
            "60000 f 4' FROM tenon.task"));
    test_sql(fx, "DELETE FROM tenon.task");
    /* in the order of the payloads, with keys too, and without queues in one statement */
    for (int keys = 0; keys < 2; keys++) {
        test_sql(
            fx,
            "CREATE TABLE ids AS SELECT * FROM unnest(tenon.enqueue_many('a', '{1,2,3}'::jsonb[], "
            "delay => '1 min', priorities => '{3,2,1}', queues => '{z,NULL,b}', unique_keys => %s, "
            "run_ats => ARRAY[now(), NULL, NULL])) WITH ORDINALITY i (id, n)",
            keys ? "'{y,NULL,x}'" : "NULL");
        assert_true(test_sql_bool(
            fx,
            "SELECT bool_and(t.payload::text::int = i.n AND t.priority = 4 - i.n AND t.delayed = "
            "(i.n > 1) AND t.queue = ('{z,default,b}'::text[])[i.n]) AND count(*) = 3 "
            "FROM ids i JOIN tenon.task t ON t.id = i.id"));
        test_sql(fx, "DROP TABLE ids; DELETE FROM tenon.task");
    }
    assert_true(test_sql_bool(
        fx, "SELECT tenon.enqueue_many('a', '{}'::jsonb[], queues => '{}', priorities => '{}') = "
            "'{}'"));
}

static void test_elements_that_are_refused(void **state)
{
    struct fixture *fx = *state;
    static const char *const calls[][2] = {
        {"queues => '{a}'", "queues of 1 elements|as long as payloads, 2 elements"},
        {"priorities => '{1,2,3}'", "priorities of 3 elements"},
        {"run_ats => '{}'", "run_ats of 0 elements"},
        {"queues => '{a,B}'", "queue 'B' is not allowed"},
        {"priorities => '{1,10}'", "priorities 10 is not allowed"},
        {"run_ats => '{NULL,infinity}'", "run_ats infinity is not allowed"},
        {"run_ats => '{NULL,2000-01-01}', start_before => '1999-01-01'", "start_before"},
        {"tags => '{a,NULL}'", "tags NULL is not allowed"},
        {"tags => ARRAY(SELECT n::text FROM generate_series(1, 11) n)", "tags of 11 elements"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        sql_fails(fx->conn, "22023", calls[i][1],
                  "SELECT tenon.enqueue_many('a', '{1,2}'::jsonb[], %s)", calls[i][0]);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

/* A role that is confined may not get past it by the queue of an element. */
static void test_a_confined_role(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE ROLE %s_p; SELECT tenon.grant_producer('%s_p', queues => '{mail}')",
             fx->database, fx->database);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SET SESSION AUTHORIZATION %s_p", fx->database);
    sql_fails(conn, "42501", "may not enqueue kind a to queue other",
              "SELECT tenon.enqueue_many('a', '{1,2}'::jsonb[], queue => 'mail', queues => "
              "'{NULL,other}')");
    sql_run(conn, "SELECT tenon.enqueue_many('a', '{1,2}'::jsonb[], queues => '{mail,mail}')");
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
}

static void tags_are(struct fixture *fx, const char *want)
{
    char *got = test_sql_text(fx, "SELECT tags::text FROM tenon.tasks");
    assert_string_equal(got ? got : "", want);
    free(got);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.list('{\"tag\": \"x\"}')"), 1);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.list('{\"tag\": [\"b\", \"no\"]}')"),
                     1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.list('{\"tag\": \"no\"}')"), 0);
}

/* In each state, and over a retry. */
static void test_tags_stay(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', tags => '{x,b,x}')");
    test_sql(fx, "SELECT count(tenon.enqueue('other', tags => NULL))");
    test_sql(fx, "DELETE FROM tenon.task WHERE kind = 'other'");
    tags_are(fx, "{x,b}");
    worker_make(fx, c.worker);
    assert_true(held_take(fx, c.worker, id, &c));
    tags_are(fx, "{x,b}");
    free(held_requeue(fx, &c, "dead", "no", NULL));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 1);
    tags_are(fx, "{x,b}");
    assert_true(test_sql_bool(fx, "SELECT tenon.retry_where('{\"tag\": \"b\"}') = 1"));
    tags_are(fx, "{x,b}");
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel_where('{\"tag\": \"b\"}') = 1"));
    tags_are(fx, "{x,b}");
    test_sql(fx, "SELECT tenon.retry(%lld)", (long long)id);
    assert_true(held_take(fx, c.worker, id, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{\"result\": 1}"));
    tags_are(fx, "{x,b}");
    assert_true(test_sql_bool(fx, "SELECT state = 'done' FROM tenon.tasks"));
}

static void test_tags_by_other_ways(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.flow('{\"tasks\": [{\"kind\": \"a\", \"tags\": [\"x\", \"b\"]}]}'::jsonb)");
    tags_are(fx, "{x,b}");
    test_sql(fx, "DELETE FROM tenon.task");
    /* a run that waits for the holder of its key */
    struct held c;
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')");
    worker_make(fx, c.worker);
    assert_true(held_take(fx, c.worker, id, &c));
    test_sql(fx, "SELECT tenon.enqueue('a', unique_key => 'k', tags => '{x,b}'); "
                 "SELECT tenon.settle()");
    assert_true(held_finish(fx, &sql_finish_forget, &c, "{}"));
    test_sql(fx, "SELECT tenon.settle(); SELECT tenon.settle()");
    tags_are(fx, "{x,b}");
}

/* A session that plans index scans only, as those of `tenon ui`: a tag is found by its index. */
static void test_a_tag_among_many(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority,"
                 " delayed, announced, queue, kind, payload, tags)"
                 " SELECT now(), now(), 1000, 1, 4, false, true, 'default', 'a', '1',"
                 " CASE WHEN i %% 4000 = 0 THEN '{x}'::text[] END"
                 " FROM generate_series(1, 20000) i");
    test_sql(fx, "ANALYZE tenon.task");
    test_sql(fx, "CREATE FUNCTION pages(tag text) RETURNS bigint LANGUAGE plpgsql AS $$"
                 " DECLARE plan json; BEGIN"
                 " EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
                 " SELECT tenon.find(jsonb_build_object(''tag'', %%L))', tag) INTO plan;"
                 " RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint"
                 " + (plan->0->'Plan'->>'Shared Read Blocks')::bigint; END $$");
    test_sql(fx, "%s", db_session_hot);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.list('{\"tag\": \"x\"}')"), 5);
    int64_t all = test_sql_int(fx, "SELECT pg_relation_size('tenon.task') / 8192");
    int64_t some = test_sql_int(fx, "SELECT pages('x')");
    int64_t none = test_sql_int(fx, "SELECT pages('no')");
    print_message("of %d pages %d and %d were read\n", (int)all, (int)some, (int)none);
    assert_true(some < all / 2 && none < all / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_each_element),       WITH_DATABASE(test_elements_that_are_refused),
        WITH_DATABASE(test_a_confined_role),    WITH_DATABASE(test_tags_stay),
        WITH_DATABASE(test_tags_by_other_ways), WITH_DATABASE(test_a_tag_among_many),
    };
    return RUN_GROUP(tests);
}
