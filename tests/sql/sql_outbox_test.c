/* label: sql */
/* tenon.publish and tenon.publish_many: arguments, rights, what a transaction has published; and
 * what operators do with messages, also while the relay works on them. */
#include "core/db/db.h"
#include "tests/support/fixture.h"

#include <stdio.h>

enum { LIMIT_MS = 20000 };

static const struct {
    const char *arguments, *parts;
} refused[] = {
    {"NULL, 'k', 'b'::text", "exchange NULL"},
    {"repeat('x', 128), 'k', 'b'::text", "exchange of 128 bytes|at most 127 bytes"},
    {"'x', NULL, 'b'::text", "routing_key NULL"},
    {"'x', repeat('k', 256), 'b'::text", "routing_key of 256 bytes|at most 255 bytes"},
    {"'x', 'k', NULL::text", "the body"},
    {"'x', 'k', repeat('b', 16777217)", "the body of 16777217 bytes|at most 16777216"},
    {"'x', 'k', convert_to(repeat('b', 16777217), 'UTF8')", "the body|at most 16777216"},
    {"'x', 'k', 'b'::text, headers => '[]'", "headers []"},
    {"'x', 'k', 'b'::text, headers => jsonb_build_object('h', repeat('x', 16384))", "16384 bytes"},
    {"'x', 'k', 'b'::text, headers => '{\"tenon-id\": 1}'", "name of a header 'tenon-id'"},
    {"'x', 'k', 'b'::text, headers => '{\"\": 1}'", "name of a header ''"},
    {"'x', 'k', 'b'::text, message_id => repeat('m', 256)", "message_id of 256 bytes"},
    {"'x', 'k', 'b'::text, content_type => repeat('m', 256)", "content_type of 256 bytes"},
    {"'x', 'k', 'b'::text, order_key => ''", "order_key ''|1 to 200 characters"},
    {"'x', 'k', 'b'::text, order_key => repeat('o', 201)", "order_key|1 to 200 characters"},
    {"'x', 'k', 'b'::text, expires => '0 s'", "expires 00:00:00|1 millisecond to 365 days"},
    {"'x', 'k', 'b'::text, expires => '366 days'", "expires|365 days"},
    {"'x', 'k', 'b'::text, properties => '{\"type\": 1}'", "properties.type 1|a text"},
    {"'x', 'k', 'b'::text, properties => '{\"priority\": 10}'", "properties.priority 10|0 to 9"},
    {"'x', 'k', 'b'::text, properties => '{\"priority\": 0.5}'", "properties.priority 0.5"},
    {"'x', 'k', 'b'::text, properties => '{\"user_id\": \"x\"}'", "user_id"},
    {"'x', 'k', 'b'::text, trace => 'x'", "trace 'x'|traceparent"},
};

static void test_what_is_refused(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        test_sql_fails(fx, "22023", refused[i].parts, "SELECT tenon.publish(%s)",
                       refused[i].arguments);
    }
    test_sql_fails(fx, "22023", "message_ids of 1 elements|2 elements",
                   "SELECT tenon.publish_many('x', 'k', '{a,b}'::text[], message_ids => '{m}')");
    test_sql_fails(fx, "22023", "the body of 100001 elements",
                   "SELECT tenon.publish_many('x', 'k', array_fill('a'::text, '{100001}'))");
    test_sql_fails(fx, "22023", "the body",
                   "SELECT tenon.publish_many('x', 'k', '{a,NULL}'::text[])");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.outbox"), 0);
}

static void test_the_longest_that_is_allowed(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.publish(repeat('x', 127), repeat('k', 255), repeat('b', 16777216),"
                 " message_id => repeat('m', 255), content_type => repeat('c', 255),"
                 " order_key => repeat('ö', 200), expires => '365 days'),"
                 " tenon.publish('', '', '')");
    assert_int_equal(test_sql_int(fx, "SELECT max(octet_length(body)) FROM tenon.outbox"),
                     16777216);
}

static void test_publish_many(void **state)
{
    struct fixture *fx = *state;
    assert_true(
        test_sql_bool(fx, "SELECT tenon.publish_many('x', 'k', '{a,b,c}'::text[], message_ids =>"
                          " '{1,NULL,3}', order_key => 'o') = '{1,2,3}'"));
    assert_true(
        test_sql_bool(fx,
                      "SELECT string_agg(convert_from(body, 'UTF8'), '' ORDER BY id) = 'abc' AND"
                      " array_agg(length(message_id) ORDER BY id) = '{1,36,1}' FROM tenon.outbox"));
    assert_true(test_sql_bool(fx, "SELECT tenon.publish_many('x', 'k', '{}'::text[]) = '{}'"));
    test_sql(fx, "SELECT tenon.publish_many('x', 'j', ARRAY['{\"a\": 1}'::jsonb]),"
                 " tenon.publish_many('x', 'b', ARRAY['\\xff00'::bytea])");
    assert_true(test_sql_bool(fx, "SELECT body = '{\"a\": 1}' AND content_type ="
                                  " 'application/json' FROM tenon.outbox WHERE routing_key = 'j'"));
    assert_true(test_sql_bool(fx, "SELECT body = '\\xff00' FROM tenon.outbox WHERE"
                                  " routing_key = 'b'"));
}

/* A bytea's text reads back as the same bytes, whatever the caller's setting. */
static void test_bytes_in_both_forms(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET bytea_output = 'escape';"
                 "SELECT tenon.publish('x', 'k', '\\x00ff5c27'::bytea); RESET bytea_output");
    assert_true(test_sql_bool(fx, "SELECT body = '\\x00ff5c27' FROM tenon.outbox"));
}

static void test_mine_published(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.publish('x', 'other', 'b'::text)");
    test_sql(fx, "SELECT tenon.publish('x', 'before', 'b'::text)");
    test_sql(fx, "BEGIN; SELECT tenon.publish('x', 'one', 'b'::text); SAVEPOINT s;"
                 "SELECT tenon.publish('x', 'gone', 'b'::text); ROLLBACK TO s;"
                 "SELECT tenon.publish('x', 'two', 'b'::text)");
    char *got = test_sql_text(fx, "SELECT string_agg(routing_key, ' ') FROM"
                                  " tenon.mine_published()");
    assert_string_equal(got, "one two");
    free(got);
    test_sql(fx, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.mine_published()"), 0);
    sql_run(other, "ROLLBACK");
    PQfinish(other);
}

/* The second one waits until the first has ended. */
static void test_an_order_key_is_locked(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "SET lock_timeout = '100 ms'");
    test_sql(fx, "BEGIN; SELECT tenon.publish('x', 'k', 'b'::text, order_key => 'o')");
    sql_fails(other, "55P03", "lock timeout",
              "SELECT tenon.publish('x', 'k', 'b'::text, order_key => 'o')");
    sql_run(other, "SELECT tenon.publish('x', 'k', 'b'::text, order_key => 'p'),"
                   " tenon.publish('x', 'k', 'b'::text)");
    test_sql(fx, "COMMIT");
    sql_run(other, "SELECT tenon.publish('x', 'k', 'b'::text, order_key => 'o')");
    PQfinish(other);
}

static void test_rights_by_exchange(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    test_sql(fx, "CREATE ROLE %s_p", fx->database);
    test_sql(fx, "SELECT tenon.grant_publisher('%s_p', '{orders,\"\"}')", fx->database);
    sql_run(conn, "SET SESSION AUTHORIZATION %s_p", fx->database);
    sql_run(conn, "SELECT tenon.publish('orders', 'k', 'b'::text)");
    sql_fails(conn, "42501", "may not publish to exchange 'pay'",
              "SELECT tenon.publish('pay', 'k', 'b'::text)");
    sql_fails(conn, "42501", "may not publish to exchange 'pay'",
              "SELECT tenon.publish_many('pay', 'k', '{b}'::text[])");
    assert_int_equal(sql_int(conn, "SELECT count(*) FROM tenon.mine_published()"), 0);
    test_sql(fx, "SELECT tenon.grant_publisher('%s_p')", fx->database);
    sql_run(conn, "SELECT tenon.publish('pay', 'k', 'b'::text)");
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
}

static void test_what_operators_do(void **state)
{
    struct fixture *fx = *state;
    test_sql_fails(fx, "22023", "neither or both", "SELECT tenon.retry_messages()");
    test_sql_fails(fx, "22023", "neither or both", "SELECT tenon.delete_messages('{1}', 'x')");
    test_sql_fails(fx, "22023", "exchange",
                   "SELECT tenon.retry_messages(exchange =>"
                   " repeat('x', 128))");
    test_sql_fails(fx, "22023", "since NULL", "SELECT tenon.replay_messages(NULL)");
    test_sql(fx, "SELECT tenon.publish_many('x', 'k', '{a,b,c}'::text[])");
    int64_t token = test_sql_int(fx, "SELECT tenon.relay_begin()");
    test_sql(fx, "SELECT tenon.relay_failed(%lld, '{1,2}', '{no,no}', '{f,f}')", (long long)token);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_messages('{1,3}')"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.delete_messages(exchange => 'x')"), 2);
    assert_int_equal(test_sql_int(fx, "SELECT first FROM tenon.relay_watch(%lld, 3)",
                                  (long long)token),
                     1); /* below what it has passed */
    assert_true(test_sql_bool(fx, "SELECT string_agg(state, ' ' ORDER BY id) ="
                                  " 'deleted deleted waiting' FROM tenon.outbox"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE act LIKE"
                                      " '%%_messages'"),
                     2);
}

/* --- two sessions that lock the same messages ------------------------------------------------- */

/* 1 is first of key a, and 2 is held behind it; 3, 4 and 5 have no key; 4 and 5 were refused. 1 was
 * updated last, and so is the last in the table. */
static const char five_messages[] =
    "TRUNCATE tenon.message RESTART IDENTITY;"
    "SELECT tenon.publish('x', 'k', i::text, order_key => CASE WHEN i < 3 THEN 'a' END)"
    " FROM generate_series(1, 5) i;"
    "SELECT count(*) FROM tenon.relay_read(tenon.relay_begin(), 0, 9, 9, false, '{}', '{}');"
    "SELECT tenon.relay_failed(token, '{4,5}', '{no,no}', '{f,f}') FROM tenon.relay;"
    "UPDATE tenon.message SET tries = tries WHERE id = 1";

static const struct {
    const char *first, *second;
    int blocked; /* a third session holds this message until both wait */
} pairs[] = {
    {"SELECT tenon.relay_done(token, '{1,3}', '{}', '{}') FROM tenon.relay",
     "SELECT tenon.delete_messages('{2,3}')", 3},
    {"SELECT tenon.relay_done(token, '{3,1}', '{}', '{}') FROM tenon.relay",
     "SELECT tenon.delete_messages('{3,1}')", 1},
    {"SELECT tenon.relay_done(token, '{5,3}', '{}', '{}') FROM tenon.relay",
     "SELECT tenon.delete_messages('{3,5}')", 5},
    {"SELECT tenon.relay_failed(token, '{3,1}', '{no,no}', '{f,f}') FROM tenon.relay",
     "SELECT tenon.delete_messages('{1,3}')", 3},
    {"SELECT tenon.relay_failed(token, '{5,4}', '{no,no}', '{f,f}') FROM tenon.relay",
     "SELECT tenon.retry_messages('{4,5}')", 5},
    {"SELECT tenon.retry_messages('{4,5}')", "SELECT tenon.delete_messages(exchange => 'x')", 4},
};

static void send_until_it_waits(struct fixture *fx, PGconn *conn, const char *sql)
{
    assert_true(PQsendQuery(conn, sql));
    test_await(fx, LIMIT_MS, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %d",
               PQbackendPID(conn));
}

static void assert_ends(PGconn *conn, const char *sql)
{
    PGresult *r = PQgetResult(conn);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQresultErrorMessage(r));
    }
    PQclear(r);
    assert_null(PQgetResult(conn));
}

static void test_operators_and_the_relay_do_not_deadlock(void **state)
{
    struct fixture *fx = *state;
    PGconn *first = sql_connect(fx->database_url), *second = sql_connect(fx->database_url);
    PGconn *third = sql_connect(fx->database_url);
    sql_run(first, "%s", db_session_hot); /* as the relay's session */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        test_sql(fx, "%s", five_messages);
        sql_run(third, "BEGIN; SELECT FROM tenon.message WHERE id = %d FOR UPDATE",
                pairs[i].blocked);
        send_until_it_waits(fx, first, pairs[i].first);
        send_until_it_waits(fx, second, pairs[i].second);
        sql_run(third, "COMMIT");
        assert_ends(first, pairs[i].first);
        assert_ends(second, pairs[i].second);
    }
    PQfinish(first);
    PQfinish(second);
    PQfinish(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_the_longest_that_is_allowed),
        WITH_DATABASE(test_publish_many),
        WITH_DATABASE(test_bytes_in_both_forms),
        WITH_DATABASE(test_mine_published),
        WITH_DATABASE(test_an_order_key_is_locked),
        WITH_DATABASE(test_rights_by_exchange),
        WITH_DATABASE(test_what_operators_do),
        WITH_DATABASE(test_operators_and_the_relay_do_not_deadlock),
    };
    return RUN_GROUP(tests);
}
