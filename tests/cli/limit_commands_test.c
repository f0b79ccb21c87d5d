/* label: e2e */
/* `tenon limit`, and what other commands say of tasks that wait for limits. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <jansson.h>

enum { LIMIT_MS = 30000 };

#define LIMIT(fx, code, out_part, log_part, ...)                                                   \
    TENON_SAYS(fx, code, out_part, log_part, "limit", __VA_ARGS__)

static void test_set_list_and_show(void **state)
{
    struct fixture *fx = *state;
    LIMIT(fx, 0, "no limits", "", "list");
    LIMIT(fx, 0, "the limit tenant is set", "", "set", "tenant", "--max-running", "2",
          "--max-starts", "100/1min", "--fair", "--weight", "3");
    LIMIT(fx, 0, "", "", "set", "order", "--strict", "--when-dead", "skip", "--until",
          "2100-01-01 UTC");
    assert_true(test_sql_bool(
        fx,
        "SELECT count(*) = 2 AND bool_and(CASE name WHEN 'tenant' THEN max_running = 2 AND"
        " max_starts = 100 AND per = '1 min' AND fair AND weight = 3 AND strict IS NULL AND"
        " until IS NULL"
        " ELSE strict AND when_dead = 'skip' AND until = '2100-01-01 UTC' END) FROM tenon.limit"));
    LIMIT(fx, 0, "100/00:01:00", "", "list");
    LIMIT(fx, 0, "strict, until 2100-01-01 00:00:00 UTC", "", "list");
    LIMIT(fx, 0, "at once        2\nstarts         100 in 00:01:00\n", "", "show", "tenant");
    LIMIT(fx, 1, "", "there is no limit none", "show", "none");
    LIMIT(fx, 2, "", "the limit tenant needs --max-running", "set", "tenant");
    LIMIT(fx, 2, "", "--max-starts \"5/week\" is not allowed", "set", "tenant", "--max-starts",
          "5/week");
}

static void test_json(void **state)
{
    struct fixture *fx = *state;
    json_error_t error;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1, max_starts => 5, per => '1 s');"
                 "SELECT tenon.enqueue('a', limit_keys => '{t:1}') FROM generate_series(1, 3);"
                 "SELECT tenon.settle()");
    char *out = TENON_RUN(fx, 0, "limit", "list", "--json");
    json_t *all = json_loads(out, 0, &error);
    json_t *row = json_array_get(json_object_get(all, "limits"), 1);
    assert_string_equal(json_string_value(json_object_get(row, "key")), "t:1");
    assert_string_equal(json_string_value(json_object_get(row, "rule")), "t");
    assert_int_equal(json_integer_value(json_object_get(row, "per_ms")), 1000);
    assert_int_equal(json_integer_value(json_object_get(row, "ready")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "waiting")), 2);
    free(out);
    json_decref(all);
    out = TENON_RUN(fx, 0, "limit", "show", "t:1", "--json");
    row = json_loads(out, 0, &error);
    assert_int_equal(json_integer_value(json_object_get(row, "max_running")), 1);
    free(out);
    json_decref(row);
    free(TENON_RUN(fx, 0, "limit", "set", "t", "--json", "--max-running", "3"));
    free(TENON_RUN(fx, 0, "limit", "remove", "t", "--json"));
}

static void test_pause_and_remove(void **state)
{
    struct fixture *fx = *state;
    LIMIT(fx, 0, "t:1 is paused", "", "pause", "t:1", "--why", "they asked");
    LIMIT(fx, 0, "they asked", "", "show", "t:1");
    LIMIT(fx, 0, "t:1 is resumed", "", "resume", "t:1");
    LIMIT(fx, 1, "", "the limit t:1 is not paused", "resume", "t:1");
    LIMIT(fx, 1, "", "there is no limit t", "remove", "t");
    LIMIT(fx, 0, "", "", "set", "t", "--fair");
    LIMIT(fx, 0, "t is removed", "", "remove", "t");
    LIMIT(fx, 2, "", "is not an action", "frob");
    LIMIT(fx, 2, "", "takes the name of a limit", "set");
    LIMIT(fx, 2, "", "takes no further argument", "list", "t");
    LIMIT(fx, 2, "", "max_starts 0", "set", "t", "--max-starts", "0/1s");
    LIMIT(fx, 2, "", "--max-starts \"5\" is not allowed", "set", "t", "--max-starts", "5");
    LIMIT(fx, 2, "", "without spaces", "set", "a b", "--max-running", "1");
}

static void test_enqueue_and_why(void **state)
{
    struct fixture *fx = *state;
    char *id = TENON_RUN(fx, 0, "enqueue", "a", "--limit-keys", "t:1,u");
    assert_string_equal(id, "1\n");
    free(id);
    free(TENON_RUN(fx, 0, "enqueue", "a", "--limit-keys", "t:1"));
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1); SELECT tenon.settle()");
    char *why = TENON_RUN(fx, 0, "why", "2");
    assert_contains(why, "It waits for the limit t:1 (1 at once, 1 taken), behind 0 tasks.");
    free(why);
    char *blocked = TENON_RUN(fx, 0, "list", "--state", "blocked");
    assert_contains(blocked, "2 ");
    free(blocked);
}

static void test_a_list_says_that_there_are_more(void **state)
{
    struct fixture *fx = *state;
    static const char *const more[] = {"\"more\": false", "\"more\": true"};
    test_sql(fx, "INSERT INTO tenon.limit (name, max_running) SELECT 'l' || i, 1 FROM"
                 " generate_series(1, 999) i");
    for (int i = 0; i < 2; i++) {
        test_sql(fx, "SELECT tenon.set_limit('z%d', max_running => 1)", i);
        char *out = TENON_RUN(fx, 0, "limit", "list");
        assert_int_equal(strstr(out, "(only the first 1000 by name)") != NULL, i);
        free(out);
        out = TENON_RUN(fx, 0, "limit", "list", "--json");
        json_t *all = json_loads(out, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(all, "limits")), 1000);
        assert_contains(out, more[i]);
        json_decref(all);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_set_list_and_show),
        WITH_SERVERS(test_json),
        WITH_SERVERS(test_a_list_says_that_there_are_more),
        WITH_SERVERS(test_pause_and_remove),
        WITH_SERVERS(test_enqueue_and_why),
    };
    return RUN_GROUP(tests);
}
