/* label: unit */
#include "tests/support/test.h"

#include "core/base/buf.h"

#include <jansson.h>

static void test_puts(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_string_equal(buf_text(&b), "");
    buf_put_text(&b, "a");
    buf_put_char(&b, 'b');
    buf_put_int(&b, 0);
    buf_put_char(&b, ' ');
    buf_put_int(&b, INT64_MIN);
    buf_put_char(&b, ' ');
    buf_put_int(&b, INT64_MAX);
    buf_printf(&b, " %s %d", "x", -7);
    assert_false(b.failed);
    assert_string_equal(buf_text(&b), "ab0 -9223372036854775808 9223372036854775807 x -7");
    assert_int_equal(b.len, strlen(b.data));
    buf_clear(&b);
    assert_string_equal(buf_text(&b), "");
}

static void test_limit_is_exact(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_put_text(&b, "12345");
    assert_false(b.failed);
    buf_put(&b, "", 0);
    assert_false(b.failed);
    buf_put_char(&b, '6');
    assert_true(b.failed);
    assert_string_equal(buf_text(&b), "12345");
    buf_clear(&b);
}

/* What follows something that did not fit is dropped too, or the text would have a hole. */
static void test_failure_sticks(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_put_text(&b, "123");
    buf_put_text(&b, "456");
    buf_put_text(&b, "4");
    assert_true(b.failed);
    assert_string_equal(buf_text(&b), "123");
    assert_null(buf_room(&b, 1));
    buf_empty(&b);
    buf_printf(&b, "%s", "123456");
    assert_true(b.failed);
    buf_empty(&b);
    assert_false(b.failed);
    buf_printf(&b, "%s", "12345");
    assert_string_equal(buf_text(&b), "12345");
    buf_clear(&b);
}

static void test_growth_keeps_content(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100000);
    for (int i = 0; i < 100000; i++) {
        buf_put_char(&b, (char)('a' + i % 26));
    }
    assert_false(b.failed);
    for (size_t i = 0; i < 100000; i++) {
        assert_int_equal(b.data[i], 'a' + i % 26);
    }
    assert_int_equal(b.data[100000], 0);
    buf_clear(&b);
}

static void test_room_and_drop(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_drop(&b, 0);
    char *at = buf_room(&b, 10);
    assert_non_null(at);
    memcpy(at, "hello", 5);
    buf_added(&b, 5);
    assert_string_equal(buf_text(&b), "hello");
    buf_drop(&b, 2);
    assert_string_equal(buf_text(&b), "llo");
    buf_drop(&b, 3);
    assert_string_equal(buf_text(&b), "");
    buf_clear(&b);
}

static void json_is(const char *text, size_t len, const char *want)
{
    struct buf b;
    buf_init(&b, 1000);
    buf_put_json(&b, text, len);
    assert_string_equal(buf_text(&b), want);
    buf_clear(&b);
}

#define REPLACED "\xEF\xBF\xBD"

static void test_json_escapes(void **state)
{
    (void)state;
    json_is("", 0, "\"\"");
    json_is("plain", 5, "\"plain\"");
    json_is("\"\\/\n\t\r\b\x01\x7F", 9, "\"\\\"\\\\/\\n\\t\\u000d\\u0008\\u0001\\u007f\"");
    json_is("a\0b", 3, "\"a" REPLACED "b\"");
    json_is("\xC2\x9B\xC2\x85\xE2\x80\xAE\xE2\x80\xA8", 10, "\"\\u009b\\u0085\\u202e\\u2028\"");
    json_is("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\x98", 12,
            "\"h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\x98\"");
}

static void test_json_bad_utf8(void **state)
{
    (void)state;
    json_is("a\xFFz", 3, "\"a" REPLACED "z\"");
    json_is("\xC3", 1, "\"" REPLACED "\"");                           /* cut off */
    json_is("\xE2\x82", 2, "\"" REPLACED REPLACED "\"");              /* cut off */
    json_is("\xC0\xAF", 2, "\"" REPLACED REPLACED "\"");              /* overlong '/' */
    json_is("\xE0\x80\xAF", 3, "\"" REPLACED REPLACED REPLACED "\""); /* overlong '/' */
    json_is("\xED\xA0\x80", 3, "\"" REPLACED REPLACED REPLACED "\""); /* a surrogate */
    json_is("\xF4\x90\x80\x80", 4,
            "\"" REPLACED REPLACED REPLACED REPLACED "\""); /* over U+10FFFF */
    json_is("\xF4\x8F\xBF\xBF", 4, "\"\xF4\x8F\xBF\xBF\""); /* U+10FFFF */
}

/* Whatever the bytes, what comes out is a JSON string; the seed is fixed. */
static void test_json_of_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 0x9E3779B97F4A7C15;
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 20000; i++) {
        char text[24];
        for (size_t k = 0; k < sizeof text; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[k] = (char)(random >> 56);
        }
        buf_empty(&b);
        buf_put_json(&b, text, sizeof text);
        json_t *value = json_loadb(b.data, b.len, JSON_DECODE_ANY, NULL);
        assert_true(json_is_string(value));
        json_decref(value);
    }
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_puts),           cmocka_unit_test(test_limit_is_exact),
        cmocka_unit_test(test_failure_sticks), cmocka_unit_test(test_growth_keeps_content),
        cmocka_unit_test(test_room_and_drop),  cmocka_unit_test(test_json_escapes),
        cmocka_unit_test(test_json_bad_utf8),  cmocka_unit_test(test_json_of_any_bytes),
    };
    return RUN_GROUP(tests);
}
