/* The parts of tenon-http that need no server: what a status means, whose addresses are refused,
 * what a task line is. */
#include "handlers/http_address.h"
#include "handlers/http_settings.h"
#include "handlers/http_verdict.h"
#include "tests/support/temporary.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

static bool is_private(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        return address_is_private((const struct sockaddr *)&in);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_is_private((const struct sockaddr *)&in6);
}

static void test_private_addresses(void **state)
{
    static const char *const private[] = {
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.168.1.1",
        "198.19.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    };
    static const char *const global[] = {
        "1.1.1.1",      "9.255.255.255",   "11.0.0.0",         "100.63.255.255",  "100.128.0.0",
        "172.15.0.1",   "172.32.0.0",      "192.167.255.255",  "192.169.0.0",     "198.17.0.1",
        "223.0.0.1",    "::ffff:8.8.8.8",  "64:ff9b::808:808", "2002:808:808::1", "2606:4700::1111",
        "2a00:1450::1", "2001:4860::8888",
    };
    (void)state;
    for (size_t i = 0; i < sizeof private / sizeof *private; i++) {
        if (!is_private(private[i])) {
            fail_msg("%s counts as global", private[i]);
        }
    }
    for (size_t i = 0; i < sizeof global / sizeof *global; i++) {
        if (is_private(global[i])) {
            fail_msg("%s counts as private", global[i]);
        }
    }
    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_true(address_is_private(&other));
}

static const char *outcome(long status, int64_t retry_after_ms, bool retry_4xx)
{
    static struct verdict v;
    struct http_reply r = {.status = status, .retry_after_ms = retry_after_ms, .body = ""};
    verdict_of(&r, retry_4xx, &v);
    return v.answer.outcome;
}

static void test_what_a_status_means(void **state)
{
    static const int dead[] = {300, 301, 302, 308, 400, 401, 403, 404, 410, 422, 451};
    static const int failed[] = {100, 408, 425, 429, 500, 501, 502, 503, 504, 599};
    (void)state;
    assert_string_equal(outcome(200, -1, false), "done");
    assert_string_equal(outcome(299, 7, false), "done");
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++) {
        assert_string_equal(outcome(dead[i], 7, false), "dead");
        assert_string_equal(outcome(dead[i], 7, true), "failed");
    }
    for (size_t i = 0; i < sizeof failed / sizeof *failed; i++) {
        assert_string_equal(outcome(failed[i], -1, false), "failed");
    }
    assert_string_equal(outcome(500, 7, false), "failed"); /* its Retry-After has no meaning */
    assert_string_equal(outcome(429, 7, false), "snooze");
    assert_string_equal(outcome(503, 7, true), "snooze");
}

static void test_how_long_later_is(void **state)
{
    static const time_t now_s = 1767225600; /* Thu, 01 Jan 2026 00:00:00 GMT */
    static const struct {
        const char *said;
        int64_t ms;
    } cases[] = {{"30", 30000},
                 {"  7 ", 7000},
                 {"1.5", 1500},
                 {"+2", 2000},
                 {"0", RETRY_AFTER_MS_MIN},
                 {"0.001", RETRY_AFTER_MS_MIN},
                 {"-120", RETRY_AFTER_MS_MIN},
                 {"-99999999999999999999999", RETRY_AFTER_MS_MIN},
                 {"86401", RETRY_AFTER_MS_MAX},
                 {"99999999999999999999999", RETRY_AFTER_MS_MAX},
                 {"Thu, 01 Jan 2026 00:01:30 GMT", 90000},
                 {"Thursday, 01-Jan-26 00:01:30 GMT", 90000},
                 {"Thu Jan  1 00:01:30 2026", 90000},
                 {"Thu, 01 Jan 2026 00:00:00 GMT", RETRY_AFTER_MS_MIN},
                 {"Wed, 21 Oct 2015 07:28:00 GMT", RETRY_AFTER_MS_MIN},
                 {"Fri, 01 Jan 2100 00:00:00 GMT", RETRY_AFTER_MS_MAX},
                 {"", RETRY_AFTER_MS_UNREAD},
                 {"soon", RETRY_AFTER_MS_UNREAD},
                 {"1 2", RETRY_AFTER_MS_UNREAD},
                 {"1,5", RETRY_AFTER_MS_UNREAD},
                 {"1e3", RETRY_AFTER_MS_UNREAD},
                 {"0x10", RETRY_AFTER_MS_UNREAD},
                 {"nan", RETRY_AFTER_MS_UNREAD},
                 {"inf", RETRY_AFTER_MS_UNREAD},
                 {".", RETRY_AFTER_MS_UNREAD},
                 {"5 min", RETRY_AFTER_MS_UNREAD},
                 {"Thu, 99 Jan 2026 00:00:00 GMT", RETRY_AFTER_MS_UNREAD}};
    struct http_reply r = {.status = 503, .retry_after_ms = 30000, .body = "in repair"};
    struct verdict v;
    (void)state;
    verdict_of(&r, false, &v);
    assert_string_equal(v.answer.outcome, "snooze");
    assert_int_equal(v.answer.delay_ms, 30000);
    assert_string_equal(v.answer.error, "HTTP 503: in repair");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = retry_after_ms(cases[i].said, now_s);
        if (ms != cases[i].ms) {
            fail_msg("%s: %lld ms, not %lld", cases[i].said, (long long)ms, (long long)cases[i].ms);
        }
    }
}

static void test_a_long_error_page(void **state)
{
    static char page[RESPONSE_BYTES_MAX];
    struct http_reply r = {.status = 500, .retry_after_ms = -1, .body = page};
    struct verdict v;
    (void)state;
    memset(page, 'x', sizeof page - 1);
    verdict_of(&r, false, &v);
    assert_int_equal(strlen(v.answer.error), strlen("HTTP 500: ") + EXCERPT_BYTES_MAX);
    assert_string_equal(v.answer.class, "http_500");
}

/* Also what jansson could not read: numbers of any size, and whatever stands in progress. */
static void test_task_lines(void **state)
{
    static const char line[] =
        "{\"id\":17,\"kind\":\"a\",\"queue\":\"q\",\"attempt\":2,\"failures\":1,"
        "\"max_attempts\":25,"
        "\"timeout_ms\":3600000,\"claim\":\"17/1/2/x\",\"trace\":null,"
        "\"progress\":{\"payload\":\"},{\\\"\",\"n\":[1e999]},"
        "\"payload\":[123456789012345678901234]}"
        "\n{\"stop\":17,\"why\":\"lost\"}\n{\"stop\":null,\"why\":\"drain\"}\n{\"id\":";
    struct fault f = {.code = FAULT_NONE};
    struct pool p;
    struct pool_message m;
    (void)state;
    pool_open(&p, 1);
    buf_put_text(&p.in, line);
    assert_ok(pool_take(&p, &m, &f), &f);
    assert_int_equal(m.type, POOL_TASK);
    assert_int_equal(m.task.id, 17);
    assert_int_equal(m.task.attempt, 2);
    assert_int_equal(m.task.timeout_ms, 3600000);
    assert_string_equal(m.task.claim, "17/1/2/x");
    assert_null(m.task.trace);
    assert_string_equal(m.task.progress, "{\"payload\":\"},{\\\"\",\"n\":[1e999]}");
    assert_string_equal(m.task.payload, "[123456789012345678901234]");
    assert_int_equal(m.task.payload_bytes, strlen(m.task.payload));
    pool_task_clear(&m.task);
    assert_ok(pool_take(&p, &m, &f), &f);
    assert_int_equal(m.type, POOL_STOP);
    assert_int_equal(m.stop, 17);
    assert_ok(pool_take(&p, &m, &f), &f);
    assert_int_equal(m.type, POOL_DRAIN);
    assert_ok(pool_take(&p, &m, &f), &f);
    assert_int_equal(m.type, POOL_NOTHING);
    pool_close(&p);
}

static void test_lines_of_nobody(void **state)
{
    static const char *const lines[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"id\":17}",
                                        "{\"id\":17,\"payload\":",
                                        "{\"id\"}",
                                        "{\"id",
                                        "{\"payload\":\"",
                                        "{\"a\":[{\"b\""};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct fault f = {.code = FAULT_NONE};
        struct pool p;
        struct pool_message m;
        pool_open(&p, 1);
        buf_put_text(&p.in, lines[i]);
        buf_put_char(&p.in, '\n');
        assert_false(pool_take(&p, &m, &f));
        assert_contains(f.text, "not a line of a worker");
        pool_close(&p);
    }
}

/* What came back may break no line, and may be no line of its own. */
static void test_results_stay_results(void **state)
{
    static const char *const bad[] = {
        "{", "1,\"x\":2", "1,\"outcome\":\"dead\"", "1}\n{\"id\":2", "[\"\\x\"]", ""};
    struct pool p;
    (void)state;
    pool_open(&p, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        buf_empty(&p.out);
        pool_done(&p, 7, bad[i], strlen(bad[i]), NULL);
        assert_string_equal(buf_text(&p.out), "{\"id\":7,\"outcome\":\"done\"}\n");
    }
    buf_empty(&p.out);
    pool_done(&p, 7, "[1,\r\n 2]", 8, NULL);
    assert_string_equal(buf_text(&p.out), "{\"id\":7,\"outcome\":\"done\",\"result\":[1,   2]}\n");
    pool_close(&p);
}

static void test_options(void **state)
{
    static const struct {
        const char *args[5], *error;
    } wrong[] = {
        {{"tenon-http"}, "--url is missing"},
        {{"tenon-http", "--url", "ftp://example.org/"}, "must begin with http:// or https://"},
        {{"tenon-http", "--url", "example.org"}, "must begin with http:// or https://"},
        {{"tenon-http", "--url"}, "--url is not an option, or its value is missing"},
        {{"tenon-http", "--in-flight", "1025"}, "not a number from 1 to 1024"},
        {{"tenon-http", "--secret-file", "/nowhere"}, "/nowhere"},
        {{"tenon-http", "x"}, "x is not an option"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fault f = {.code = FAULT_NONE};
        struct http_settings s;
        char *argv[6] = {NULL};
        int argc = 0;
        for (; wrong[i].args[argc]; argc++) {
            argv[argc] = (char *)(uintptr_t)wrong[i].args[argc];
        }
        optind = 0;
        assert_false(http_settings_read(&s, argc, argv, &f));
        assert_int_equal(f.code, FAULT_CONFIG);
        assert_contains(f.text, wrong[i].error);
        http_settings_clear(&s);
    }
}

static void test_secrets(void **state)
{
    static const char *const wrong[] = {"", "\n\n", "short\n"};
    char path[TEMPORARY_BYTES];
    struct secrets s;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fault f = {.code = FAULT_NONE};
        temporary_file(wrong[i], path);
        assert_false(secrets_read(&s, path, &f));
        assert_int_equal(f.code, FAULT_CONFIG);
        secrets_clear(&s);
        (void)unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_addresses),
        cmocka_unit_test(test_what_a_status_means),
        cmocka_unit_test(test_how_long_later_is),
        cmocka_unit_test(test_a_long_error_page),
        cmocka_unit_test(test_task_lines),
        cmocka_unit_test(test_lines_of_nobody),
        cmocka_unit_test(test_results_stay_results),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_secrets),
    };
    return RUN_GROUP(tests);
}
