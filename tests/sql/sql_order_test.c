/* label: sql */
/* Who takes several unique keys, or several rows, takes them in sorted order: no two calls wait for
 * each other in a circle, in whatever order they name them. */
#include "tests/support/stepper.h"

#include <stdio.h>

enum { KEYS = 3000 };

static const char *const ways[] = {"", ", on_conflict => 'replace'", ", unique_for => '1 h'",
                                   ", debounce => '1 s'"};
enum { WAYS = sizeof ways / sizeof *ways };

static void send_as(struct stepper *s, const char *fmt, const char *argument)
{
    char sql[1000];
    (void)snprintf(sql, sizeof sql, fmt, argument);
    stepper_send(s, sql);
}

static void is_well(const struct stepper *s, const char *who)
{
    if (*stepper_state(s)) {
        fail_msg("%s: %s", who, PQresultErrorMessage(s->result));
    }
}

static void two(struct fixture *fx, struct stepper s[2])
{
    stepper_open(&s[0], fx->database_url, 0);
    stepper_open(&s[1], fx->database_url, 0);
}

/* The one goes up, the other down. */
static void test_thousands_of_keys_up_and_down(void **state)
{
    struct fixture *fx = *state;
    struct stepper s[2];
    two(fx, s);
    for (int i = 0; i < WAYS; i++) {
        char many[1000];
        (void)snprintf(many, sizeof many,
                       "SELECT tenon.enqueue_many('a', array_agg('1'::text ORDER BY i),"
                       " unique_keys => array_agg('k' || i ORDER BY i%%s)%s)"
                       " FROM generate_series(1, %d) i",
                       ways[i], KEYS);
        send_as(&s[0], many, "");
        send_as(&s[1], many, " DESC");
        stepper_await(&s[0]);
        stepper_await(&s[1]);
        is_well(&s[0], "up");
        is_well(&s[1], "down");
        assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT unique_key) FROM tenon.task"),
                         KEYS);
        test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.unique_hold; DELETE FROM"
                     " tenon.again");
    }
    stepper_close(&s[0]);
    stepper_close(&s[1]);
}

/* One holds b, and wants c afterwards; the other wants c and b. */
static void test_a_call_waits_for_the_first_key_first(void **state)
{
    struct fixture *fx = *state;
    struct stepper s[2];
    two(fx, s);
    for (int i = 0; i < WAYS; i++) {
        send_as(&s[0], "BEGIN; SELECT tenon.enqueue('a', unique_key => 'b'%s)", ways[i]);
        stepper_await(&s[0]);
        send_as(&s[1], "SELECT tenon.enqueue_many('a', '{3,2}', unique_keys => '{c,b}'%s)",
                ways[i]);
        assert_false(stepper_settle(&s[1], fx->conn));
        send_as(&s[0], "SELECT tenon.enqueue('a', unique_key => 'c'%s); COMMIT", ways[i]);
        stepper_await(&s[0]);
        stepper_await(&s[1]);
        is_well(&s[0], "one after the other");
        is_well(&s[1], "both at once");
        test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.unique_hold; DELETE FROM"
                     " tenon.again");
    }
    stepper_close(&s[0]);
    stepper_close(&s[1]);
}

static void test_ids_come_in_the_order_of_the_call(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE TEMP TABLE call AS SELECT * FROM tenon.enqueue_many('a', '{1,2,3,4}',"
                 " unique_keys => '{c,NULL,a,c}') ids");
    assert_true(test_sql_bool(
        fx, "SELECT ids[1] = (SELECT id FROM tenon.task WHERE unique_key = 'c')"
            " AND ids[2] = (SELECT id FROM tenon.task WHERE unique_key IS NULL)"
            " AND ids[3] = (SELECT id FROM tenon.task WHERE unique_key = 'a') AND ids[4] = ids[1]"
            " FROM call"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(payload::text = CASE unique_key WHEN 'c' THEN"
                                  " '1' WHEN 'a' THEN '3' ELSE '2' END) FROM tenon.task"));
    assert_true(
        test_sql_bool(fx,
                      "SELECT tenon.enqueue_many('a', '{}'::text[], unique_keys => '{}') = '{}'"));
}

/* A retry makes tasks under the keys that they had. */
static void test_a_retry_takes_keys_in_order(void **state)
{
    struct fixture *fx = *state;
    struct stepper s[2];
    two(fx, s);
    test_sql(fx, "SELECT tenon.cancel(tenon.enqueue('a', unique_key => k)) FROM unnest('{c,b}'::"
                 "text[]) k");
    stepper_send(&s[0], "BEGIN; SELECT tenon.enqueue('a', unique_key => 'b')");
    stepper_await(&s[0]);
    stepper_send(&s[1], "SELECT tenon.retry_where('{\"state\": \"cancelled\"}')");
    assert_false(stepper_settle(&s[1], fx->conn));
    stepper_send(&s[0], "SELECT tenon.enqueue('a', unique_key => 'c'); COMMIT");
    stepper_await(&s[0]);
    stepper_await(&s[1]);
    is_well(&s[0], "enqueue");
    is_well(&s[1], "retry");
    stepper_close(&s[0]);
    stepper_close(&s[1]);
}

/* Two versions of a file, as in a rolling deploy: each changes one schedule and removes the
 * other's. */
static void test_syncs_of_one_file_take_turns(void **state)
{
    static const char sync[] =
        "SELECT * FROM tenon.sync_schedules('f', '[{\"line\": 1, \"name\": \"%s\","
        " \"every\": \"1 h\", \"kind\": \"x\"}]')";
    struct fixture *fx = *state;
    struct stepper s[2];
    two(fx, s);
    test_sql(fx, "SELECT tenon.sync_schedules('f', '[{\"line\": 1, \"name\": \"a\", \"every\":"
                 " \"1 s\", \"kind\": \"x\"}, {\"line\": 2, \"name\": \"b\", \"every\": \"1 s\","
                 " \"kind\": \"x\"}]')");
    test_sql(fx, "BEGIN; SELECT FROM tenon.schedule WHERE name = 'a' FOR UPDATE");
    send_as(&s[0], sync, "a");
    assert_false(stepper_settle(&s[0], fx->conn));
    send_as(&s[1], sync, "b");
    assert_false(stepper_settle(&s[1], fx->conn));
    test_sql(fx, "COMMIT");
    stepper_await(&s[0]);
    stepper_await(&s[1]);
    is_well(&s[0], "the first");
    is_well(&s[1], "the second");
    char *left = test_sql_text(fx, "SELECT string_agg(name, ' ') FROM tenon.schedule");
    assert_string_equal(left, "b");
    free(left);
    stepper_close(&s[0]);
    stepper_close(&s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_thousands_of_keys_up_and_down),
        WITH_DATABASE(test_a_call_waits_for_the_first_key_first),
        WITH_DATABASE(test_ids_come_in_the_order_of_the_call),
        WITH_DATABASE(test_a_retry_takes_keys_in_order),
        WITH_DATABASE(test_syncs_of_one_file_take_turns),
    };
    return RUN_GROUP(tests);
}
