/* label: e2e */
/* `tenon outbox`, and what `tenon doctor` says of messages. No cleaner runs: the test refuses
 * messages in its stead. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <jansson.h>

enum { LIMIT_MS = 30000 };

#define OUTBOX(fx, code, out_part, log_part, ...)                                                  \
    TENON_SAYS(fx, code, out_part, log_part, "outbox", __VA_ARGS__)

/* Messages 1 to 4: of them 2 and 3 are refused, by orders and by mail; 4 waits behind 3. */
static void publish_four(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.publish('orders', 'order.paid', '{\"n\": 1}'::jsonb);"
                 "SELECT tenon.publish('orders', 'order.lost', '{\"n\": 2}'::jsonb);"
                 "SELECT tenon.publish('mail', 'm', 'text', order_key => 'ann');"
                 "SELECT tenon.publish('mail', 'm', 'text', order_key => 'ann');"
                 "UPDATE tenon.message SET failed_at = now(), tries = 1, error = 'no queue got it'"
                 " WHERE id IN (2, 3);"
                 "UPDATE tenon.message SET held = true WHERE id = 4");
}

static json_t *json_of(struct fixture *fx, char *out)
{
    json_error_t error;
    json_t *o = json_loads(out, 0, &error);
    (void)fx;
    assert_non_null(o);
    free(out);
    return o;
}

static void test_list(void **state)
{
    struct fixture *fx = *state;
    OUTBOX(fx, 0, "no message matches", "", "list");
    publish_four(fx);
    OUTBOX(fx, 0, "order.lost", "", "list");
    OUTBOX(fx, 0, "held", "", "list");
    OUTBOX(fx, 0, "no queue got it", "", "list", "--state", "refused", "--exchange", "mail");
    OUTBOX(fx, 0, "(there may be more: --cursor 3)", "", "list", "--limit", "3");
    OUTBOX(fx, 0, "no message matches", "", "list", "--exchange", "(default)");
    test_sql(fx, "SELECT tenon.publish('', 'a_queue', 'x')");
    OUTBOX(fx, 0, "(default)", "", "list", "--exchange", "(default)");
    test_sql(fx, "DELETE FROM tenon.message WHERE routing_key = 'a_queue'");
    OUTBOX(fx, 2, "", "use waiting or refused", "list", "--state", "dead");
    OUTBOX(fx, 2, "", "takes none", "list", "17");
    OUTBOX(fx, 2, "", "is not an action", "frob");
    json_t *o = json_of(fx, TENON_RUN(fx, 0, "outbox", "list", "--json", "--cursor", "1"));
    assert_true(json_is_null(json_object_get(o, "next")));
    json_t *messages = json_object_get(o, "messages"), *m = json_array_get(messages, 0);
    assert_int_equal(json_array_size(messages), 3);
    assert_int_equal(json_integer_value(json_object_get(m, "id")), 2);
    assert_string_equal(json_string_value(json_object_get(m, "state")), "refused");
    assert_string_equal(json_string_value(json_object_get(m, "exchange")), "orders");
    assert_string_equal(json_string_value(json_object_get(m, "error")), "no queue got it");
    assert_int_equal(json_integer_value(json_object_get(m, "bytes")), 8);
    json_decref(o);
    o = json_of(fx, TENON_RUN(fx, 0, "outbox", "list", "--json", "--state", "waiting"));
    assert_int_equal(json_array_size(json_object_get(o, "messages")), 1);
    json_decref(o);
}

/* Where 10,000 messages of another exchange come first, it reads on. */
static void test_list_reads_on(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.publish_many('a', '', array_fill('x'::text, '{10001}'));"
                 "SELECT tenon.publish('b', 'wanted', 'x')");
    OUTBOX(fx, 0, "wanted", "", "list", "--exchange", "b");
}

static void test_retry(void **state)
{
    struct fixture *fx = *state;
    publish_four(fx);
    OUTBOX(fx, 2, "", "name the messages by their numbers", "retry");
    OUTBOX(fx, 2, "", "name the messages by their numbers", "retry", "2", "--exchange", "mail");
    OUTBOX(fx, 2, "", "1 message would be retried: there is no terminal to ask on; pass --yes",
           "retry", "--exchange", "orders");
    OUTBOX(fx, 0, "1 message would be retried", "", "retry", "--exchange", "orders", "--dry-run");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.message WHERE retry_at IS NOT NULL"),
                     0);
    OUTBOX(fx, 0, "1 message retried", "", "retry", "--exchange", "orders", "--yes");
    OUTBOX(fx, 1, "1 message retried", "message 1 is waiting, not refused", "retry", "1", "3");
    OUTBOX(fx, 1, "", "there is no message 99", "retry", "99");
    OUTBOX(fx, 0, "0 messages retried", "", "retry", "--exchange", "none");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.message WHERE retry_at IS NOT NULL"),
                     2);
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 2 AND sum(n) = 2 FROM tenon.audit WHERE act = 'retry_messages'"));
}

static void test_delete(void **state)
{
    struct fixture *fx = *state;
    publish_four(fx);
    json_t *o = json_of(fx, TENON_RUN(fx, 0, "outbox", "delete", "--exchange", "mail", "--yes",
                                      "--json"));
    assert_string_equal(json_string_value(json_object_get(o, "act")), "delete");
    assert_int_equal(json_integer_value(json_object_get(o, "matched")), 1);
    assert_int_equal(json_integer_value(json_object_get(o, "changed")), 1);
    json_decref(o);
    OUTBOX(fx, 0, "1 message deleted", "", "delete", "1");
    assert_true(test_sql_bool(fx, "SELECT array_agg(id ORDER BY id) = '{1,3}' FROM tenon.outbox"
                                  " WHERE state = 'deleted'"));
}

static void test_replay(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_settings('{\"outbox_keep\": \"1 day\"}');"
                 "SELECT tenon.make_partitions();"
                 "SELECT tenon.publish_many('orders', 'paid', '{a,b,c}'::text[])");
    test_sql(fx, "SELECT tenon.relay_done(tenon.relay_begin(), '{1,2,3}', '{}', '{}')");
    OUTBOX(fx, 2, "", "--since is missing", "replay");
    OUTBOX(fx, 2, "", "invalid input syntax", "replay", "--since", "lately");
    OUTBOX(fx, 0, "0 messages published again", "", "replay", "--since", "2000-01-01", "--until",
           "2000-01-02", "--yes");
    OUTBOX(fx, 0, "3 messages would be published again", "", "replay", "--since", "2000-01-01",
           "--dry-run");
    OUTBOX(fx, 2, "", "pass --yes", "replay", "--since", "2000-01-01");
    OUTBOX(fx, 0, "3 messages published again", "", "replay", "--since", "2000-01-01", "--exchange",
           "orders", "--yes");
    assert_true(test_sql_bool(fx,
                              "SELECT array_agg(convert_from(body, 'UTF8') ORDER BY id) = '{a,b,c}'"
                              " AND array_agg(message_id ORDER BY id) ="
                              " (SELECT array_agg(message_id ORDER BY id) FROM tenon.message_sent)"
                              " FROM tenon.outbox"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_list), WITH_DATABASE(test_list_reads_on),
                                       WITH_DATABASE(test_retry), WITH_DATABASE(test_delete),
                                       WITH_DATABASE(test_replay)};
    return RUN_GROUP(tests);
}
