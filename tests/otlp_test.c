/* Spans on their way out, without servers: texts that JSON does not take, and names that the
 * resolver does not find. traces_test.c has the rest. */
#include "core/http.h"
#include "core/otlp.h"
#include "tests/support/test.h"

#include <sched.h>
#include <stdio.h>

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct span *span_with(int64_t task, const char *error)
{
    struct span *s = span_new(TRACE, task, 1, "default", "a");
    assert_non_null(s);
    s->outcome = "failed";
    span_fail(s, "", error);
    return s;
}

/* --- texts that are not UTF-8 --- */

static void test_a_service_that_is_not_utf8_is_refused(void **state)
{
    static const char *const names[] = {"caf\xE9", "\xC3", "\xED\xA0\x80", "x\xF5y", NULL};
    struct otlp *o;
    (void)state;
    for (size_t i = 0; names[i]; i++) {
        struct fault f = {0};
        assert_int_equal(setenv("OTEL_SERVICE_NAME", names[i], 1), 0);
        assert_false(otlp_open("http://127.0.0.1:1", &o, &f));
        assert_int_equal(f.code, FAULT_CONFIG);
        assert_contains(f.text, "OTEL_SERVICE_NAME is not UTF-8");
    }
    struct fault f = {0};
    assert_int_equal(setenv("OTEL_SERVICE_NAME", "caf\xC3\xA9 \xF0\x9F\x98\x80", 1), 0);
    assert_ok(otlp_open("http://127.0.0.1:1", &o, &f), &f);
    assert_true(otlp_close(o, 1));
    assert_int_equal(unsetenv("OTEL_SERVICE_NAME"), 0);
}

static void collect(void *owner, const struct http_request *r, struct http_answer *a)
{
    (void)a;
    (void)snprintf(owner, 4096, "%s", r->body);
}

static void test_a_span_with_a_bad_text_is_left_out_alone(void **state)
{
    struct fault f = {0};
    struct http *collector;
    struct otlp *o;
    struct otlp_stats stats = {0};
    char body[4096], url[64];
    (void)state;
    assert_ok(http_listen("127.0.0.1:0", &collector, &f), &f);
    assert_ok(http_serve(collector, collect, body, &f), &f);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", http_port(collector));
    assert_ok(otlp_open(url, &o, &f), &f);
    otlp_put(o, span_with(17, "good"));
    otlp_put(o, span_with(18, "b\xFF" "ad"));
    otlp_put(o, span_with(19, "good"));
    while (stats.sent + stats.dropped < 3) {
        (void)sched_yield();
        otlp_stats(o, &stats);
    }
    assert_int_equal(stats.sent, 2);
    assert_true(otlp_close(o, 1000));
    http_close(collector);
    assert_contains(body, "\"17\"");
    assert_null(strstr(body, "\"18\""));
    assert_contains(body, "\"19\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_service_that_is_not_utf8_is_refused),
        cmocka_unit_test(test_a_span_with_a_bad_text_is_left_out_alone),
    };
    return RUN_GROUP(tests);
}
