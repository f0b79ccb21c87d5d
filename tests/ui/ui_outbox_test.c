/* label: e2e */
/* The outbox over the JSON API of `tenon ui`: what it shows, retries and deletes. */
#include "tests/support/held.h"
#include "tests/support/web.h"

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void publish_three(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.publish('orders', 'order.paid', '{\"n\": 1}'::jsonb);"
                 "SELECT tenon.publish_many('orders', 'order.lost', '{a,b}'::text[]);"
                 "UPDATE tenon.message SET created_at = now() - interval '1 minute';"
                 "UPDATE tenon.message SET failed_at = now(), tries = 1, error = 'no queue got it'"
                 " WHERE id IN (2, 3)");
}

static void test_read(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/outbox");
    assert_int_equal(number(o, "waiting"), 0);
    assert_true(json_is_null(json_object_get(o, "oldest_seconds")));
    assert_int_equal(json_array_size(json_object_get(o, "messages")), 0);
    json_decref(o);
    publish_three(fx);
    o = web_get(&w, 200, "/api/outbox");
    assert_int_equal(number(o, "waiting"), 1);
    assert_int_equal(number(o, "refused"), 2);
    assert_true(number(o, "oldest_seconds") >= 60);
    assert_true(json_is_false(json_object_get(o, "at_least")));
    assert_int_equal(json_array_size(json_object_get(o, "messages")), 3);
    json_decref(o);
    o = web_get(&w, 200, "/api/outbox?state=refused&exchange=orders&limit=1");
    const json_t *m = json_array_get(json_object_get(o, "messages"), 0);
    assert_int_equal(number(m, "id"), 2);
    assert_int_equal(number(o, "next"), 2);
    assert_string_equal(json_string_value(json_object_get(m, "error")), "no queue got it");
    assert_true(json_is_null(json_object_get(m, "retry_at")));
    json_decref(o);
    o = web_get(&w, 200, "/api/outbox?state=refused&cursor=2");
    assert_int_equal(json_array_size(json_object_get(o, "messages")), 1);
    assert_true(json_is_null(json_object_get(o, "next")));
    json_decref(o);
    json_decref(web_get(&w, 400, "/api/outbox?state=dead"));
    json_decref(web_get(&w, 400, "/api/outbox?limit=201"));
    json_decref(web_get(&w, 400, "/api/outbox?cursor=x"));
    web_close(&w);
}

static void test_acts(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    publish_three(fx);
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_post(&w, 200, "/api/outbox/retry", "{\"ids\": [1, 2, 99]}");
    assert_int_equal(number(o, "n"), 1);
    json_decref(o);
    o = web_post(&w, 200, "/api/outbox/delete", "{\"exchange\": \"orders\"}");
    assert_int_equal(number(o, "n"), 2);
    json_decref(o);
    json_decref(web_post(&w, 400, "/api/outbox/retry", "{}"));
    json_decref(web_post(&w, 400, "/api/outbox/retry", "{\"ids\": [1], \"exchange\": \"orders\"}"));
    json_decref(web_post(&w, 400, "/api/outbox/retry", "{\"ids\": [\"x\"]}"));
    json_decref(web_post(&w, 400, "/api/outbox/delete", "{\"exchange\": 1}"));
    assert_true(test_sql_bool(fx, "SELECT array_agg(id ORDER BY id) = '{2,3}' FROM tenon.outbox"
                                  " WHERE state = 'deleted'"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit"), 2);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_read), WITH_DATABASE(test_acts)};
    return RUN_GROUP(tests);
}
