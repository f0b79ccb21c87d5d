/* label: sql */
/* tenon.sync: what code describes, applied once and then no more. */
#include "tests/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* What a call returns: "kind a added, ...". */
static void sync_is(struct fixture *fx, const char *description, const char *want)
{
    char *got =
        test_sql_text(fx,
                      "SELECT coalesce(string_agg(concat_ws(' ', what, name, act), ', '), '') FROM "
                      "tenon.sync('%s')",
                      description);
    assert_string_equal(got, want);
    free(got);
}

static const char all[] =
    "{\"kinds\": {\"report\": {\"queue\": \"slow\", \"priority\": 7, \"max_attempts\": 3, "
    "\"max_crashes\": 4, \"timeout\": \"20 min\", \"timeout_min\": \"5 s\", \"on_timeout\": "
    "\"dead\", \"retry\": \"constant(5 s)\", \"on_dead\": \"tell\", \"limit_keys\": "
    "[\"openai\"]}}, \"queues\": {\"slow\": {\"priority\": 1, \"timeout\": \"90 s\"}}, "
    "\"limits\": {\"openai\": {\"max_starts\": 100, \"per\": \"1 min\"}, \"t\": {\"strict\": "
    "true}}, \"schedules\": {\"nightly\": {\"cron\": \"0 3 * * *\", \"kind\": \"report\", "
    "\"payload\": null}}}";

static void test_once(void **state)
{
    struct fixture *fx = *state;
    sync_is(
        fx, all,
        "queue slow added, kind report added, limit openai added, limit t added, schedule nightly "
        "added");
    int64_t audits = test_sql_int(fx, "SELECT count(*) FROM tenon.audit");
    assert_int_equal(audits, 5);
    sync_is(fx, all, "");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit"), audits);
    assert_true(test_sql_bool(
        fx,
        "SELECT (queue, priority, max_attempts, max_crashes, timeout_ms, timeout_min_ms, "
        "on_timeout, "
        "retry, on_dead, limit_keys) = ('slow', 7, 3, 4, 1200000, 5000, 'dead', 'constant(5 s)', "
        "'tell', '{openai}') FROM tenon.kind"));
    assert_true(
        test_sql_bool(fx, "SELECT payload = 'null' AND source = 'sync' FROM tenon.schedule"));
}

/* A description is the whole of it, for what it names. */
static void test_what_is_omitted_is_cleared(void **state)
{
    struct fixture *fx = *state;
    sync_is(fx, "{\"kinds\": {\"a\": {}, \"b\": {\"priority\": null}}}", "");
    sync_is(fx, all,
            "queue slow added, kind report added, limit openai added, limit t added, "
            "schedule nightly added");
    test_sql(fx, "SELECT tenon.set_kind('other', priority => 1); SELECT tenon.pause_limit('t')");
    sync_is(
        fx,
        "{\"kinds\": {\"report\": {\"queue\": \"slow\"}}, \"limits\": {\"t\": {\"fair\": true}}}",
        "kind report changed, limit t changed");
    assert_true(test_sql_bool(
        fx,
        "SELECT queue = 'slow' AND num_nonnulls(priority, max_attempts, max_crashes, timeout_ms, "
        "retry, "
        "on_dead, limit_keys) = 0 AND on_timeout = 'retry' AND timeout_min_ms = 1 FROM tenon.kind "
        "WHERE name = 'report'"));
    assert_true(test_sql_bool(fx, "SELECT priority = 1 FROM tenon.kind WHERE name = 'other'"));
    assert_true(
        test_sql_bool(fx, "SELECT fair AND strict IS NULL AND EXISTS (SELECT FROM tenon.paused) "
                          "FROM tenon.limit WHERE name = 't'"));
    sync_is(fx, "{\"kinds\": {\"report\": {}}}", "kind report changed");
    sync_is(fx, "{\"kinds\": {\"report\": {}}}", "");
}

static void test_only_by_name_removed(void **state)
{
    struct fixture *fx = *state;
    sync_is(fx, all,
            "queue slow added, kind report added, limit openai added, limit t added, "
            "schedule nightly added");
    sync_is(fx, "{}", "");
    sync_is(fx, "{\"remove\": {\"kinds\": [\"none\"], \"limits\": [], \"schedules\": [\"none\"]}}",
            "");
    sync_is(
        fx,
        "{\"remove\": {\"kinds\": [\"report\"], \"queues\": [\"slow\"], \"limits\": [\"openai\"], "
        "\"schedules\": [\"nightly\"]}}",
        "queue slow removed, kind report removed, limit openai removed, schedule nightly removed");
    assert_true(
        test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.kind) AND NOT EXISTS (SELECT FROM "
                          "tenon.queue) AND NOT EXISTS (SELECT FROM tenon.schedule)"));
    /* the row of a kind that has a limit stays, without defaults */
    test_sql(
        fx,
        "SELECT tenon.set_limit('kind/k', max_running => 1); SELECT tenon.set_kind('k', priority "
        "=> 2)");
    sync_is(fx, "{\"remove\": {\"kinds\": [\"k\"]}}", "kind k removed");
    assert_true(test_sql_bool(fx, "SELECT limited AND priority IS NULL FROM tenon.kind"));
    sync_is(fx, "{\"remove\": {\"kinds\": [\"k\"]}}", "");
    /* renamed in one call */
    sync_is(fx,
            "{\"schedules\": {\"b\": {\"every\": \"1 h\", \"kind\": \"a\"}}, \"source\": \"shop\"}",
            "schedule b added");
    sync_is(fx,
            "{\"schedules\": {\"c\": {\"every\": \"1 h\", \"kind\": \"a\"}}, \"source\": \"shop\", "
            "\"remove\": {\"schedules\": [\"b\"]}}",
            "schedule b removed, schedule c added");
    sql_fails(
        fx->conn, "55000", "schedules.c: the schedule c is synced from 'shop'",
        "SELECT tenon.sync('{\"schedules\": {\"c\": {\"every\": \"1 h\", \"kind\": \"a\"}}}')");
}

/* An error names the place, and nothing of the call stays. */
static void test_all_or_nothing(void **state)
{
    struct fixture *fx = *state;
    static const char *const bad[][3] = {
        {"\"kinds\": {\"a\": {\"priority\": 1}, \"b\": {\"priority\": 11}}", "22023",
         "kinds.b: priority 11 is not allowed"},
        {"\"kinds\": {\"a\": {\"priority\": \"x\"}}", "22P02",
         "kinds.a: invalid input syntax for type integer"},
        {"\"kinds\": {\"a\": {\"queu\": 1}}", "22023", "kinds.a {\"queu\": 1}"},
        {"\"kinds\": {\"a b\": {\"priority\": 1}}", "22023", "kinds.a b: kind 'a b'"},
        {"\"kinds\": []", "22023", "kinds []"},
        {"\"kind\": {}", "22023", "description"},
        {"\"remove\": {\"kinds\": \"a\"}", "22023", "remove.kinds a"},
        {"\"queues\": {\"q\": 1}", "22023", "queues.q 1"},
        {"\"schedules\": {\"n\": {\"cron\": \"61 * * * *\", \"kind\": \"a\"}}", "22023",
         "schedules.n: cron: minute"},
        {"\"kinds\": {\"a\": {\"limit_keys\": [\"kind/x\"]}}", "22023",
         "kinds.a: limit_keys 'kind/x'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sql_fails(fx->conn, bad[i][1], bad[i][2],
                  "SELECT tenon.sync('{\"queues\": {\"first\": {\"priority\": 1}}, %s}')",
                  bad[i][0]);
    }
    sql_fails(fx->conn, "22023", "description NULL", "SELECT tenon.sync(NULL)");
    assert_true(
        test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.queue) AND NOT EXISTS (SELECT FROM "
                          "tenon.audit)"));
}

/* A kind's limit keys hold however a task is enqueued, unless the call gives its own. */
static void test_limit_keys_of_a_kind(void **state)
{
    struct fixture *fx = *state;
    sync_is(fx,
            "{\"kinds\": {\"a\": {\"limit_keys\": [\"x\", \"y\"]}, \"b\": {\"on_dead\": \"a\"}}, "
            "\"limits\": {\"x\": "
            "{\"max_running\": 1}, \"kind/a\": {\"max_running\": 5}}}",
            "kind a added, kind b added, limit kind/a added, limit x added");
    test_sql(fx, "SELECT tenon.enqueue('a', '1')");
    test_sql(fx, "SELECT tenon.enqueue('a', '2', limit_keys => '{z}')");
    test_sql(
        fx,
        "SELECT tenon.enqueue_many('a', '{3}'::jsonb[]), tenon.enqueue_many('a', '{4}'::jsonb[], "
        "limit_keys => '{z}')");
    test_sql(fx,
             "SELECT tenon.set_schedule('s', every => '1 h', kind => 'a', payload => '5'::jsonb); "
             "SELECT tenon.run_schedule_now('s')");
    char *got = test_sql_text(
        fx, "SELECT string_agg(payload::text || ' ' || state || ' ' || limit_keys::text, ', ' "
            "ORDER BY id) "
            "FROM tenon.tasks");
    assert_string_equal(got,
                        "1 blocked {x,y,kind/a}, 2 blocked {z,kind/a}, 3 blocked {x,y,kind/a}, 4 "
                        "blocked {z,kind/a}, 5 blocked {x,y,kind/a}");
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_once),
        WITH_DATABASE(test_what_is_omitted_is_cleared),
        WITH_DATABASE(test_only_by_name_removed),
        WITH_DATABASE(test_all_or_nothing),
        WITH_DATABASE(test_limit_keys_of_a_kind),
    };
    return RUN_GROUP(tests);
}
