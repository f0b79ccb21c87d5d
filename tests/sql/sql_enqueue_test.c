/* label: sql */
/* tenon.enqueue and tenon.enqueue_many: every argument, every default, every bad input. */
#include "tests/support/held.h"

#include "core/base/now.h"

#include <stdio.h>

/* "queue priority max_attempts timeout_ms delayed announced" of a task */
static void task_is(struct fixture *fx, const char *call, const char *want)
{
    char *got = test_sql_text(fx, "WITH e AS MATERIALIZED (SELECT %s AS id) SELECT e.id FROM e",
                              call);
    char *text = test_sql_text(
        fx,
        "SELECT concat_ws(' ', queue, priority, max_attempts, timeout_ms, delayed, announced)"
        " FROM tenon.task WHERE id = %s",
        got);
    if (!text || strcmp(text, want) != 0) {
        fail_msg("%s: \"%s\", not \"%s\"", call, text ? text : "no task", want);
    }
    free(got);
    free(text);
}

static void test_defaults(void **state)
{
    struct fixture *fx = *state;
    task_is(fx, "tenon.enqueue('mail')", "default 4 25 3600000 f f");
    assert_true(test_sql_bool(
        fx,
        "SELECT payload = '{}' AND kind = 'mail' AND unique_key IS NULL AND trace IS NULL"
        " AND start_time IS NULL AND worker_id IS NULL AND claims = 0 AND failures = 0"
        " AND crashes = 0 AND progress IS NULL AND last_error IS NULL"
        " AND run_at BETWEEN now() - interval '10 s' AND clock_timestamp()"
        " AND created_at BETWEEN now() - interval '10 s' AND clock_timestamp() FROM tenon.task"));
    /* NULL is the same as not given */
    task_is(
        fx,
        "tenon.enqueue('mail', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "default 4 25 3600000 f f");
}

static void test_every_argument(void **state)
{
    struct fixture *fx = *state;
    task_is(fx,
            "tenon.enqueue('mail', '{\"to\": \"x\"}', queue => 'q.1-a_b', priority => 9,"
            " unique_key => 'k',"
            " max_attempts => 1000, timeout => '30 days', trace =>"
            " '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',"
            " notify => false, announced => true)",
            "q.1-a_b 9 1000 2592000000 f t");
    assert_true(test_sql_bool(
        fx, "SELECT payload = '{\"to\": \"x\"}' AND unique_key = 'k' AND trace LIKE '00-0af%%'"
            " FROM tenon.task"));
    task_is(fx, "tenon.enqueue('mail', '[]', 'x', 0, max_attempts => 1, timeout => '1 ms')",
            "x 0 1 1 f f");
    task_is(fx, "tenon.enqueue('mail', 'null')", "default 4 25 3600000 f f");
    task_is(fx, "tenon.enqueue(repeat('k', 100), queue => repeat('q', 63))",
            "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq 4 25 3600000 f f");
}

static void test_when(void **state)
{
    struct fixture *fx = *state;
    task_is(fx, "tenon.enqueue('later', delay => '1 h')", "default 4 25 3600000 t f");
    assert_true(
        test_sql_bool(fx,
                      "SELECT run_at - created_at BETWEEN interval '59 min' AND interval '61 min'"
                      " FROM tenon.task WHERE kind = 'later'"));
    task_is(fx, "tenon.enqueue('then', run_at => '2031-01-01 00:00+00')",
            "default 4 25 3600000 t f");
    assert_true(
        test_sql_bool(fx,
                      "SELECT run_at = '2031-01-01 00:00+00' FROM tenon.task WHERE kind = 'then'"));
    /* the past is now: a row must not jump to the front of its queue */
    task_is(fx, "tenon.enqueue('past', run_at => '2001-01-01 00:00+00')",
            "default 4 25 3600000 f f");
    assert_true(test_sql_bool(
        fx, "SELECT run_at > now() - interval '1 min' FROM tenon.task WHERE kind = 'past'"));
    task_is(fx, "tenon.enqueue('none', delay => '0')", "default 4 25 3600000 f f");
    /* a delayed task is the cleaner's to publish, whatever the producer says */
    task_is(fx, "tenon.enqueue('both', delay => '1 h', announced => true)",
            "default 4 25 3600000 t f");
}

/* Argument before kind before queue before built in. */
static void test_precedence(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "INSERT INTO tenon.queue (name, priority, max_attempts, timeout_ms) VALUES ('slow', 1, 2,"
        " 3000);"
        "INSERT INTO tenon.queue (name, priority) VALUES ('default', 2);"
        "INSERT INTO tenon.kind (name, queue, priority, timeout_ms) VALUES ('mail', 'slow', 7,"
        " 7000);"
        "INSERT INTO tenon.kind (name) VALUES ('bare')");
    task_is(fx, "tenon.enqueue('other')", "default 2 25 3600000 f f");
    task_is(fx, "tenon.enqueue('bare')", "default 2 25 3600000 f f");
    task_is(fx, "tenon.enqueue('other', queue => 'slow')", "slow 1 2 3000 f f");
    task_is(fx, "tenon.enqueue('mail')", "slow 7 2 7000 f f");
    task_is(fx, "tenon.enqueue('mail', queue => 'default')", "default 7 25 7000 f f");
    task_is(fx, "tenon.enqueue('mail', priority => 0, max_attempts => 5, timeout => '1 s')",
            "slow 0 5 1000 f f");
    task_is(fx, "(tenon.enqueue_many('mail', '{\"1\"}'))[1]", "slow 7 2 7000 f f");
    task_is(fx, "(tenon.enqueue_routed('mail')).id", "slow 7 2 7000 f t");
    test_sql(fx, "UPDATE tenon.setting SET exchange = 'shop'");
    assert_true(test_sql_bool(fx, "SELECT exchange = 'shop' AND routing_key = 'slow/mail' FROM "
                                  "tenon.enqueue_routed('mail')"));
    assert_true(test_sql_bool(fx, "SELECT exchange = 'shop' AND routing_key = 'slow/mail' FROM "
                                  "tenon.route_of('mail')"));
    assert_true(test_sql_bool(fx, "SELECT routing_key = 'fast/mail' FROM "
                                  "tenon.route_of('mail', 'fast')"));
    assert_true(test_sql_bool(fx,
                              "SELECT tenon.enqueue_routed('mail', unique_key => 'k') ="
                              " tenon.enqueue_routed('mail', queue => 'x', unique_key => 'k')"));
}

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

/* What follows the kind in the call; the message must name argument, value and limit. */
static const struct {
    const char *kind, *arguments, *says;
} bad[] = {
    {"NULL", "", "kind NULL|1 to 100 of A-Z a-z 0-9"},
    {"''", "", "kind ''|1 to 100"},
    {"'a b'", "", "kind 'a b'|1 to 100"},
    {"E'a\\n'", "", "kind|1 to 100"},
    {"repeat('k', 101)", "", "kind 'kkkk|1 to 100"},
    {"'a'", ", queue => 'A b'", "queue 'A b'|1 to 63 of a-z 0-9"},
    {"'a'", ", queue => ''", "queue ''|1 to 63"},
    {"'a'", ", queue => '.a'", "queue '.a'|the first not"},
    {"'a'", ", queue => repeat('q', 64)", "queue 'qqq|1 to 63"},
    {"'a'", ", priority => 12", "priority 12|0 to 9"},
    {"'a'", ", priority => -1", "priority -1|0 to 9"},
    {"'a'", ", max_attempts => 0", "max_attempts 0|1 to 1000"},
    {"'a'", ", max_attempts => 1001", "max_attempts 1001|1 to 1000"},
    {"'a'", ", timeout => '0'", "timeout 00:00:00|1 millisecond to 30 days"},
    {"'a'", ", timeout => '-1 s'", "timeout -00:00:01|1 millisecond"},
    {"'a'", ", timeout => '31 days'", "timeout 31 days|30 days"},
    {"'a'", ", delay => '1 s', run_at => now()", "run_at and delay are given together"},
    {"'a'", ", delay => '-1 s'", "delay -00:00:01|0 to 10 years"},
    {"'a'", ", delay => '11 years'", "delay 11 years|0 to 10 years"},
    {"'a'", ", delay => '300000 years'", "delay 300000 years|0 to 10 years"},
    {"'a'", ", delay => '-7000 years'", "delay -7000 years|0 to 10 years"},
    {"'a b'", ", delay => '300000 years'", "kind 'a b'|1 to 100"},
    {"'a'", ", run_at => 'infinity'", "run_at infinity|10 years ahead"},
    {"'a'", ", run_at => '-infinity'", "run_at -infinity|10 years ahead"},
    {"'a'", ", run_at => now() + interval '11 years'", "run_at 20|10 years ahead"},
    {"'a'", ", trace => 'x'", "trace 'x'|traceparent"},
    {"'a'", ", trace => upper('" TRACE "')", "trace '00-0AF|traceparent"},
    {"'a'", ", trace => '" TRACE "' || '0'", "trace '00-0af|traceparent"},
};

static void test_bad_arguments(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_sql_fails(fx, "22023", bad[i].says, "SELECT tenon.enqueue(%s, '{}'%s)", bad[i].kind,
                       bad[i].arguments);
        test_sql_fails(fx, "22023", bad[i].says, "SELECT tenon.enqueue_many(%s, '{1,2}'%s)",
                       bad[i].kind, bad[i].arguments);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

/* Without statistics the planner takes each for ten pages, and every enqueue would hash them. */
static void test_defaults_are_analyzed(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM pg_class WHERE reltuples >= 0 AND oid = ANY"
                                  " ('{tenon.setting,tenon.queue,tenon.kind}'::regclass[])"),
                     3);
}

static void test_bad_unique_keys(void **state)
{
    struct fixture *fx = *state;
    test_sql_fails(fx, "22023", "unique_key ''|1 to 200",
                   "SELECT tenon.enqueue('a', unique_key => '')");
    test_sql_fails(fx, "22023", "unique_key 'xxx|1 to 200",
                   "SELECT tenon.enqueue('a', unique_key => repeat('x', 201))");
    test_sql_fails(fx, "22023", "unique_key ''|1 to 200",
                   "SELECT tenon.enqueue_many('a', '{1,2}', unique_keys => '{b,\"\"}')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_true(
        test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => repeat('\xC3\xA9', 200))") > 0);
}

static void test_payload_limit(void **state)
{
    struct fixture *fx = *state;
    static const char says[] =
        "payload of|bytes is not allowed|at most 1048576 bytes as text|payload_bytes_max";
    test_sql_fails(fx, "22023", "payload NULL|a JSON value", "SELECT tenon.enqueue('a', NULL)");
    test_sql_fails(fx, "22023", says, "SELECT tenon.enqueue('a', to_jsonb(repeat('x', 1048575)))");
    /* 40 bytes that are a megabyte once they are text: numbers without an exponent */
    test_sql_fails(fx, "22023", says,
                   "SELECT tenon.enqueue('a', ('[' || repeat('1e131000,', 9) || '0]')::jsonb)");
    test_sql_fails(fx, "22023", says,
                   "SELECT tenon.enqueue_many('a', ARRAY['1', to_jsonb(repeat('x', 1048575))])");
    test_sql_fails(fx, "22023", "payload NULL",
                   "SELECT tenon.enqueue_many('a', ARRAY['1', NULL]::jsonb[])");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('a', to_jsonb(repeat('x', 1048574)))") > 0);
    test_sql(fx, "UPDATE tenon.setting SET payload_bytes_max = 10");
    test_sql_fails(fx, "22023", "payload of 12 bytes|at most 10 bytes",
                   "SELECT tenon.enqueue('a', '\"0123456789\"')");
}

/* The types as which drivers send a payload; 0 is a parameter whose type PostgreSQL finds out. */
enum { UNTYPED = 0, TEXT = 25, JSON = 114, VARCHAR = 1043, JSONB = 3802 };
enum { TEXT_ARRAY = 1009, JSON_ARRAY = 199, JSONB_ARRAY = 3807 };

static char *sent_as(struct fixture *fx, const char *call, Oid type, const char *payload)
{
    const Oid types[] = {type};
    const char *params[] = {payload};
    PGresult *result = PQexecParams(fx->conn, call, 1, types, params, NULL, NULL, 0);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char *got = state ? strdup(state)
                      : test_sql_text(fx, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM "
                                          "tenon.task");
    PQclear(result);
    test_sql(fx, "DELETE FROM tenon.task");
    return got;
}

static void sent_is(struct fixture *fx, const char *call, Oid type, const char *payload,
                    const char *want)
{
    char *got = sent_as(fx, call, type, payload);
    if (strcmp(got, want) != 0) {
        fail_msg("%s with %s as type %u: %s, not %s", call, payload, type, got, want);
    }
    free(got);
}

/* psycopg sends json, jsonb, text or no type; node-postgres and libpq no type; JDBC varchar. */
static void test_payloads_of_any_driver(void **state)
{
    struct fixture *fx = *state;
    static const Oid types[] = {UNTYPED, TEXT, JSON, VARCHAR, JSONB};
    static const char *const calls[] = {"SELECT tenon.enqueue('a', $1)",
                                        "SELECT tenon.enqueue(kind => 'a', payload => $1)",
                                        "SELECT tenon.enqueue('a', $1, 'mail', priority => 3)",
                                        "SELECT tenon.enqueue_routed('a', $1)"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
            sent_is(fx, calls[j], types[i], "{\"b\":[1, \"\\\"\"]}", "{\"b\": [1, \"\\\"\"]}");
            sent_is(fx, calls[j], types[i], "hello", "22P02"); /* no JSON: it needs quotes */
        }
    }
    static const Oid arrays[] = {UNTYPED, TEXT_ARRAY, JSON_ARRAY, JSONB_ARRAY};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        static const char call[] = "SELECT tenon.enqueue_many('a', $1)";
        sent_is(fx, call, arrays[i], "{\"{\\\"b\\\": 1}\",\"[2]\"}", "{\"b\": 1} [2]");
        sent_is(fx, call, arrays[i], "{1,hello}", "22P02");
    }
    test_sql_fails(fx, "22P02", "invalid input syntax for type json",
                   "SELECT tenon.enqueue('a', 'hello')");
}

static void test_many(void **state)
{
    struct fixture *fx = *state;
    assert_true(test_sql_bool(fx, "SELECT tenon.enqueue_many('a', '{}') = '{}'"));
    assert_true(
        test_sql_bool(fx, "SELECT tenon.enqueue_many('a', '{}', unique_keys => '{}') = '{}'"));
    /* ids come in the order of the payloads, and in the order of ids lies run_at */
    assert_true(test_sql_bool(
        fx, "WITH e AS MATERIALIZED (SELECT tenon.enqueue_many('a',"
            " (SELECT array_agg(to_jsonb(i) ORDER BY i) FROM generate_series(1, 5000) i)) AS ids)"
            " SELECT cardinality(ids) = 5000 FROM e"));
    assert_int_equal(
        test_sql_int(
            fx, "SELECT count(*) FROM (SELECT payload::text::integer - lag(payload::text::integer)"
                " OVER (ORDER BY id) AS step, run_at - lag(run_at) OVER (ORDER BY id) AS wait"
                " FROM tenon.task) t WHERE step <> 1 OR wait < '0'"),
        0);
    assert_true(
        test_sql_bool(fx,
                      "WITH e AS MATERIALIZED (SELECT tenon.enqueue_many('b', '{7,8,9}') AS ids)"
                      " SELECT ids = ARRAY(SELECT generate_series(ids[1], ids[3])) FROM e"));
    assert_true(
        test_sql_bool(fx, "SELECT array_agg(payload::text ORDER BY id) = '{7,8,9}' FROM tenon.task"
                          " WHERE kind = 'b'"));
}

static void test_many_with_keys(void **state)
{
    struct fixture *fx = *state;
    int64_t held = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'held')");
    char *ids = test_sql_text(
        fx, "SELECT tenon.enqueue_many('a', '{1,2,3,4,5}', unique_keys => '{k,NULL,k,held,NULL}')");
    long long id[5];
    assert_int_equal(sscanf(ids, "{%lld,%lld,%lld,%lld,%lld}", &id[0], &id[1], &id[2], &id[3],
                            &id[4]),
                     5);
    free(ids);
    assert_int_equal(id[2], id[0]);
    assert_int_equal(id[3], held);
    assert_int_not_equal(id[1], id[4]);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 4);
    assert_true(test_sql_bool(
        fx, "SELECT payload = '1' AND unique_key = 'k' FROM tenon.task WHERE id = %lld", id[0]));
}

static void test_many_refused(void **state)
{
    struct fixture *fx = *state;
    test_sql_fails(fx, "22023", "payloads NULL|0 to 100000",
                   "SELECT tenon.enqueue_many('a', NULL)");
    test_sql_fails(fx, "22023", "payloads of 100001 elements|0 to 100000",
                   "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[100001]))");
    test_sql_fails(fx, "22023", "unique_keys of 1 elements|as long as payloads, 2 elements",
                   "SELECT tenon.enqueue_many('a', '{1,2}', unique_keys => '{k}')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

static void test_rollback_leaves_nothing(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "BEGIN");
    test_sql(fx,
             "SELECT tenon.enqueue('a', unique_key => 'k'), tenon.enqueue_many('a', '{1,2,3}')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks"), 4);
    test_sql(fx, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks"), 0);
    test_sql(
        fx,
        "BEGIN; SELECT tenon.enqueue('a'); SAVEPOINT s; SELECT tenon.enqueue('b'); ROLLBACK TO s;"
        " COMMIT");
    assert_true(test_sql_bool(fx, "SELECT array_agg(kind) = '{a}' FROM tenon.tasks"));
}

enum { RACERS = 8, ROUNDS = 30 };

static int64_t result_of_racer(PGconn *conn)
{
    PGresult *result = PQgetResult(conn);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s", PQerrorMessage(conn));
    }
    int64_t id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    while ((result = PQgetResult(conn))) {
        PQclear(result);
    }
    return id;
}

static void test_unique_key_raced(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn[RACERS];
    for (int i = 0; i < RACERS; i++) {
        conn[i] = sql_connect(fx->database_url);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int64_t first = 0;
        for (int i = 0; i < RACERS; i++) {
            char sql[128];
            (void)snprintf(sql, sizeof sql, "SELECT tenon.enqueue('a', unique_key => 'round %d')",
                           round);
            assert_int_equal(PQsendQuery(conn[i], sql), 1);
        }
        for (int i = 0; i < RACERS; i++) {
            int64_t id = result_of_racer(conn[i]);
            assert_true(id > 0 && (i == 0 || id == first));
            first = id;
        }
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), ROUNDS);
    for (int i = 0; i < RACERS; i++) {
        PQfinish(conn[i]);
    }
}

/* Who waits for the holder of a key gets its task; after its rollback, one of his own. */
static void holder_ends(struct fixture *fx, const char *how, bool same)
{
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN");
    int64_t held = sql_int(other, "SELECT tenon.enqueue('a', unique_key => '%s')", how);
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT tenon.enqueue('a', unique_key => '%s')", how);
    int pid = PQbackendPID(fx->conn);
    assert_int_equal(PQsendQuery(fx->conn, sql), 1);
    sql_await(other, 5000, "SELECT count(*) = 1 FROM pg_locks WHERE pid = %d AND NOT granted", pid);
    sql_run(other, "%s", how);
    int64_t id = result_of_racer(fx->conn);
    assert_int_equal(id == held, same);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE unique_key = '%s'",
                                  how),
                     1);
    PQfinish(other);
}

static void test_unique_key_in_an_open_transaction(void **state)
{
    struct fixture *fx = *state;
    holder_ends(fx, "COMMIT", true);
    holder_ends(fx, "ROLLBACK", false);
}

/* In a snapshot that cannot see the holder, the error says: run the transaction again. */
static void test_unique_key_that_cannot_be_seen(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    sql_run(other, "SELECT tenon.enqueue('a', unique_key => 'k')");
    test_sql_fails(fx, "40001", "", "SELECT tenon.enqueue('a', unique_key => 'k')");
    test_sql(fx, "ROLLBACK");
    PQfinish(other);
}

static void test_unique_key_is_free_again(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES], text[HELD_TEXT_BYTES];
    worker_make(fx, worker);
    static const char *const ends[] = {"done", "cancelled", "dead"};
    for (size_t i = 0; i < 3; i++) {
        int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')");
        assert_int_equal(test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')"), id);
        assert_true(held_take(fx, worker, id, &c));
        assert_int_equal(test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')"), id);
        held_text(&c, text);
        if (i == 0) {
            test_sql(fx, "SELECT tenon.finish('%s')", text);
        } else if (i == 1) {
            test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
        } else {
            free(held_requeue(fx, &c, "dead", "never", NULL));
        }
        assert_state(fx, id, ends[i]);
        assert_true(test_sql_int(fx, "BEGIN; SELECT tenon.enqueue('a', unique_key => 'k')") > id);
        test_sql(fx, "ROLLBACK");
    }
}

/* A role of an application may enqueue, cancel and finish, and nothing else. */
static void test_producer_role(void **state)
{
    struct fixture *fx = *state;
    static const char *const denied[] = {
        "SELECT * FROM tenon.task",
        "SELECT * FROM tenon.tasks",
        "SELECT * FROM tenon.ready",
        "SELECT * FROM tenon.history",
        "SELECT * FROM tenon.dead",
        "SELECT * FROM tenon.setting",
        "SELECT * FROM tenon.worker",
        "UPDATE tenon.task SET priority = 9",
        "DELETE FROM tenon.task",
        "INSERT INTO tenon.queue (name) VALUES ('q')",
        "UPDATE tenon.setting SET payload_bytes_max = 1",
        "SELECT tenon.make_partitions()",
        "SELECT tenon.requeue('{1}', '{1}', '{dead}', '{x}', '{1}')",
        "SELECT tenon.grant_producer('public')",
        "SELECT tenon.retry_delay(1)",
        "SELECT tenon.publisher_sleeps(1)",
        "CREATE TABLE tenon.mine (n integer)",
    };
    test_sql(fx, "CREATE ROLE %s_app", fx->database);
    test_sql(fx, "SELECT tenon.grant_producer('%s_app')", fx->database);
    PGconn *app = sql_connect(fx->database_url);
    sql_run(app, "SET ROLE %s_app", fx->database);
    int64_t id = sql_int(app, "SELECT tenon.enqueue('a', unique_key => 'k')");
    assert_true(id > 0);
    assert_true(sql_bool(app, "SELECT cardinality(tenon.enqueue_many('a', '{1,2}')) = 2"));
    assert_true(sql_bool(app, "SELECT tenon.cancel(%lld)", (long long)id));
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        sql_fails(app, "42501", "permission denied", "%s", denied[i]);
    }
    struct held c;
    char text[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, text);
    sql_run(app, "SELECT tenon.finish('%s')", text);
    assert_state(fx, c.id, "done");
    PQfinish(app);
    test_sql(fx, "DROP OWNED BY %s_app; DROP ROLE %s_app", fx->database, fx->database);
}

/* What PUBLIC may do by accident: every function must be revoked, and those that roles are
 * granted pin their search path, for themselves and for what they call. */
static void test_functions_are_closed(void **state)
{
    struct fixture *fx = *state;
    char *open = test_sql_text(
        fx,
        "SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p"
        " WHERE pronamespace = 'tenon'::regnamespace"
        " AND (has_function_privilege('public', oid, 'EXECUTE')"
        " OR prosecdef"
        " AND NOT coalesce(proconfig::text LIKE '%%search_path=pg_catalog, pg_temp%%', false))");
    if (open) {
        fail_msg("functions that anybody may call, or that follow the caller's search_path: %s",
                 open);
    }
    assert_false(test_sql_bool(fx, "SELECT has_schema_privilege('public', 'tenon', 'CREATE')"));
}

/* Objects of the caller's that have the names of ours, or of the system's, change nothing. */
static void test_hostile_search_path(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE SCHEMA evil;"
                 "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql RETURN"
                 " 'epoch'::timestamptz;"
                 "CREATE TEMP TABLE task (id bigint);"
                 "SET search_path = evil, pg_catalog");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    assert_true(test_sql_bool(fx, "SELECT run_at > '2020-01-01' FROM tenon.task"));
}

/* Asleep, the publisher holds the lock and wants a NOTIFY; awake it looks by itself. */
static void test_notify_only_a_sleeper(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *call;
        bool asleep, told;
    } cases[] = {
        {"tenon.enqueue('a')", false, false},
        {"tenon.enqueue('a')", true, true},
        {"tenon.enqueue('a', notify => false)", true, false},
        {"tenon.enqueue('a', announced => true)", true, false},
        {"tenon.enqueue_many('a', '{1,2}')", true, true},
        {"tenon.enqueue_many('a', '{1,2}')", false, false},
        {"tenon.enqueue_many('a', '{}')", true, false},
        {"tenon.enqueue_many('a', '{1,2}', announced => true)", true, false},
        {"tenon.enqueue_many('a', '{1,2}', notify => false)", true, false},
        {"tenon.enqueue('a', unique_key => 'k')", true, true},
        {"tenon.enqueue('a', unique_key => 'k')", true, false}, /* the task is there already */
    };
    PGconn *sleeper = sql_connect(fx->database_url);
    sql_run(sleeper, "LISTEN tenon");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sql_run(sleeper, "SELECT %s(sleeper_key) FROM tenon.setting",
                cases[i].asleep ? "pg_advisory_lock" : "pg_advisory_unlock");
        test_sql(fx, "SELECT %s", cases[i].call);
        sql_run(sleeper,
                "SELECT pg_advisory_unlock_all()"); /* brings what notifications there are */
        PGnotify *notify = PQnotifies(sleeper);
        if ((notify != NULL) != cases[i].told) {
            fail_msg("%s %s", cases[i].call, notify ? "notified" : "did not notify");
        }
        for (; notify; notify = PQnotifies(sleeper)) {
            PQfreemem(notify);
        }
    }
    PQfinish(sleeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_defaults),
        WITH_DATABASE(test_every_argument),
        WITH_DATABASE(test_when),
        WITH_DATABASE(test_precedence),
        WITH_DATABASE(test_bad_arguments),
        WITH_DATABASE(test_defaults_are_analyzed),
        WITH_DATABASE(test_bad_unique_keys),
        WITH_DATABASE(test_payload_limit),
        WITH_DATABASE(test_payloads_of_any_driver),
        WITH_DATABASE(test_many),
        WITH_DATABASE(test_many_with_keys),
        WITH_DATABASE(test_many_refused),
        WITH_DATABASE(test_rollback_leaves_nothing),
        WITH_DATABASE(test_unique_key_raced),
        WITH_DATABASE(test_unique_key_in_an_open_transaction),
        WITH_DATABASE(test_unique_key_that_cannot_be_seen),
        WITH_DATABASE(test_unique_key_is_free_again),
        WITH_DATABASE(test_producer_role),
        WITH_DATABASE(test_functions_are_closed),
        WITH_DATABASE(test_hostile_search_path),
        WITH_DATABASE(test_notify_only_a_sleeper),
    };
    return RUN_GROUP(tests);
}
