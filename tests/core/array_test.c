/* label: sql */
#include "tests/support/fixture.h"

#include "core/base/array.h"

#include <stdio.h>

static const char *const texts[] = {
    "",
    "NULL",
    "null",
    "\"",
    "\\",
    "{",
    "}",
    ",",
    " x ",
    "a\nb\tc",
    "it's",
    "\\\"\\",
    "{\"a\":\"\\n\"}",
    "h\xC3\xA9 \xF0\x9F\x90\x98",
    NULL,
    "\\x41",
    "end",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static PGresult *elements(struct fixture *fx, const char *type, const char *literal)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT * FROM unnest($1::%s[])", type);
    PGresult *result = PQexecParams(fx->conn, sql, 1, NULL, &literal, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", literal, PQresultErrorMessage(result));
    }
    return result;
}

static void test_texts_come_back(void **state)
{
    struct fixture *fx = *state;
    struct buf b;
    buf_init(&b, 10000);
    array_begin(&b);
    for (int i = 0; i < TEXTS; i++) {
        array_put_text(&b, texts[i]);
    }
    PGresult *result = elements(fx, "text", array_end(&b));
    assert_int_equal(PQntuples(result), TEXTS);
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(PQgetisnull(result, i, 0), texts[i] == NULL);
        assert_string_equal(PQgetvalue(result, i, 0), texts[i] ? texts[i] : "");
    }
    PQclear(result);
    buf_clear(&b);
}

static void test_integers_come_back(void **state)
{
    struct fixture *fx = *state;
    struct buf b;
    buf_init(&b, 10000);
    array_begin(&b);
    array_put_int(&b, INT64_MIN);
    array_put_int(&b, 0);
    array_put_text(&b, NULL);
    array_put_int(&b, INT64_MAX);
    PGresult *result = elements(fx, "bigint", array_end(&b));
    assert_int_equal(PQntuples(result), 4);
    assert_string_equal(PQgetvalue(result, 0, 0), "-9223372036854775808");
    assert_true(PQgetisnull(result, 2, 0));
    assert_string_equal(PQgetvalue(result, 3, 0), "9223372036854775807");
    PQclear(result);
    buf_clear(&b);
}

static void test_empty_and_used_again(void **state)
{
    struct fixture *fx = *state;
    struct buf b;
    buf_init(&b, 10000);
    array_begin(&b);
    array_put_text(&b, "before");
    array_begin(&b);
    PGresult *result = elements(fx, "text", array_end(&b));
    assert_int_equal(PQntuples(result), 0);
    PQclear(result);
    buf_clear(&b);
}

static void test_too_long_is_no_literal(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    array_begin(&b);
    array_put_text(&b, "0123456789");
    assert_null(array_end(&b));
    array_begin(&b);
    array_put_text(&b, "012345");
    assert_string_equal(array_end(&b), "{\"012345\"}");
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_texts_come_back),
        WITH_DATABASE(test_integers_come_back),
        WITH_DATABASE(test_empty_and_used_again),
        cmocka_unit_test(test_too_long_is_no_literal),
    };
    return RUN_GROUP(tests);
}
