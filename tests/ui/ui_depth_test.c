/* label: e2e */
/* The page's numbers of a queue that is too large to be counted for a request. */
#include "tests/support/fixture.h"
#include "tests/support/web.h"

#include <jansson.h>

static json_int_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static bool is_true(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    assert_true(json_is_boolean(value));
    return json_is_true(value);
}

/* At least so many; then as the leading cleaner counted them, and when that was. */
static void test_a_large_queue(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('1'::jsonb, '{30000}'))");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/overview");
    const json_t *q = json_array_get(json_object_get(o, "queues"), 0);
    const json_t *now = json_object_get(o, "now");
    assert_int_equal(number(q, "ready"), 10000);
    assert_true(is_true(q, "at_least"));
    assert_true(is_true(now, "ready_at_least"));
    json_decref(o);
    test_sql(fx, "SELECT tenon.count_depth()");
    test_sql(fx, "UPDATE tenon.depth_count SET counted_at = counted_at - interval '12 s'");
    o = web_get(&w, 200, "/api/overview");
    q = json_array_get(json_object_get(o, "queues"), 0);
    now = json_object_get(o, "now");
    assert_int_equal(number(q, "ready"), 30000);
    assert_true(number(q, "age_s") >= 12);
    assert_false(is_true(q, "at_least"));
    assert_int_equal(number(now, "ready"), 30000);
    assert_true(number(now, "ready_age_s") >= 12);
    assert_false(is_true(now, "ready_at_least"));
    json_decref(o);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_large_queue),
    };
    return RUN_GROUP(tests);
}
