/* only: all */
/* Spans on their way out, without servers: texts that JSON does not take, and names that the
 * resolver does not find. traces_test.c has the rest. */
#include "core/base/insecure.h"
#include "core/base/now.h"
#include "core/http/http.h"
#include "core/http/otlp.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

enum { AWAY_CEILING_MS = 4000 }; /* 250 ms; and 5 s, after which libcurl gives up by itself */

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
    otlp_put(o, span_with(18, "b\xFF"
                              "ad"));
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

/* --- a name that is not found --- */

static sem_t asked, let_go;
static int n_failing; /* look-ups that fail at once; the next one hangs until it is let go */

/* libcurl's look-ups come here. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    if (!name || strcmp(name, "collector.test") != 0) {
        __typeof__(getaddrinfo) *real = (__typeof__(getaddrinfo) *)dlsym(RTLD_NEXT, "getaddrinfo");
        return real(name, service, hints, ret);
    }
    bool hangs = n_failing-- <= 0;
    (void)sem_post(&asked);
    if (hangs) {
        (void)sem_wait(&let_go);
    }
    return EAI_AGAIN;
}

static struct otlp *ask_for_collector(int failing)
{
    struct fault f = {0};
    struct otlp *o;
    n_failing = failing;
    assert_int_equal(sem_init(&asked, 0, 0), 0);
    assert_int_equal(sem_init(&let_go, 0, 0), 0);
    assert_ok(otlp_open("http://collector.test:4318", &o, &f), &f);
    otlp_put(o, span_with(17, "good"));
    assert_int_equal(sem_wait(&asked), 0);
    return o;
}

/* The end waits for no resolver. */
static void test_a_look_up_that_hangs(void **state)
{
    struct otlp *o = ask_for_collector(0);
    (void)state;
    assert_true(otlp_close(o, 1));
    (void)sem_post(&let_go);
}

/* One that could not be reached before is not waited for until the limit, a minute here. */
static void test_a_collector_that_was_away_is_not_waited_for(void **state)
{
    struct otlp *o = ask_for_collector(1);
    int64_t from_ms = now_ms();
    (void)state;
    assert_true(otlp_close(o, 60000));
    assert_took(from_ms, AWAY_CEILING_MS);
    (void)sem_post(&let_go);
}

/* --- the way to it --- */

static void test_what_is_insecure(void **state)
{
    static const struct {
        const char *database, *amqp, *otlp, *text;
    } cases[] = {
        {NULL, NULL, NULL, NULL},
        {NULL, "none", "http://localhost:4318", NULL},
        {NULL, "none", "http://127.0.0.1", NULL},
        {NULL, "none", "http://[::1]:4318/x", NULL},
        {NULL, "amqps://rabbit", "https://collector:4318", NULL},
        {NULL, "none", "http://collector:4318", "collector not encrypted"},
        {NULL, "none", "HTTP://collector/x", "collector not encrypted"},
        {NULL, "none", "http://[2001:db8::1]:4318", "collector not encrypted"},
        {"not verified", "amqp://rabbit", "http://collector",
         "PostgreSQL not verified, RabbitMQ not encrypted, collector not encrypted"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[INSECURE_BYTES];
        const char *got = insecure_text(cases[i].database, cases[i].amqp, cases[i].otlp, text);
        assert_string_equal(got ? got : "", cases[i].text ? cases[i].text : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_service_that_is_not_utf8_is_refused),
        cmocka_unit_test(test_a_span_with_a_bad_text_is_left_out_alone),
        cmocka_unit_test(test_a_look_up_that_hangs),
        cmocka_unit_test(test_a_collector_that_was_away_is_not_waited_for),
        cmocka_unit_test(test_what_is_insecure),
    };
    return RUN_GROUP(tests);
}
