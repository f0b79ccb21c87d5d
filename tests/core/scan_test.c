/* label: sql */
/* What is JSON, and what PostgreSQL can store of it: core/base/scan says the same as PostgreSQL. */
#include "core/base/scan.h"

#include "tests/support/answers.h"
#include "tests/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_TEXTS = 20000, PIECES_MAX = 12 };

static const char judge[] =
    "CREATE FUNCTION judge(t text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN"
    " RETURN octet_length(t::jsonb::text);"
    " EXCEPTION WHEN data_exception OR program_limit_exceeded THEN RETURN -1; END $$";

/* As PostgreSQL prints it; -1 = it takes it for no JSON, or cannot store it. */
static long long stored_bytes(PGconn *conn, const char *text)
{
    PGresult *r = PQexecParams(conn, "SELECT judge($1)", 1, NULL, &text, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        fail_msg("%.60s: %s", text, PQerrorMessage(conn));
    }
    long long bytes = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return bytes;
}

static void compare(PGconn *conn, const char *text)
{
    struct scanned v;
    bool ok = scan_value(text, strlen(text), &v);
    bool deep = ok && v.why && strstr(v.why, "nested");
    long long bytes = stored_bytes(conn, text);
    if ((ok && !v.loose && !v.why) != (bytes >= 0) && !deep) {
        fail_msg("%.200s: %s%s, PostgreSQL: %lld", text, ok ? "JSON " : "no JSON",
                 ok && v.why ? v.why : "", bytes);
    }
    if (bytes >= 0 && !deep && (long long)v.printed < bytes) {
        fail_msg("%.200s: %zu bytes, PostgreSQL prints %lld", text, v.printed, bytes);
    }
}

static void test_answers(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    json_t *results = answers_read("results");
    const json_t *answer;
    size_t i;
    sql_run(conn, judge);
    json_array_foreach(results, i, answer)
    {
        struct scanned v;
        char *text = answers_text(json_object_get(answer, "text"), 0);
        const char *pool = answers_word(answer, "pool"), *exec = answers_word(answer, "exec");
        bool ok = scan_value(text, strlen(text), &v);
        if (strncmp(text, "\xEF\xBB\xBF", 3) != 0) { /* PostgreSQL takes no mark */
            compare(conn, text);
            assert_int_equal(ok, strcmp(pool, "ends") != 0);
            assert_int_equal(ok && !v.loose, strcmp(exec, "text") != 0);
        }
        assert_true(!ok || v.why || v.printed > 2 << 20 || strcmp(pool, "note") != 0);
        free(text);
    }
    json_decref(results);
    PQfinish(conn);
}

static unsigned random_below(unsigned n)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (unsigned)(x % n);
}

static void test_random_texts(void **state)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "\"a\"",
                                         "\"b\":",
                                         "1",
                                         "0",
                                         "-",
                                         ".",
                                         "e",
                                         "E+",
                                         "00000",
                                         "\\u0000",
                                         "\\ud83d",
                                         "\\ude00",
                                         "\\n",
                                         "\\x",
                                         "\\u12g4",
                                         "\t",
                                         " ",
                                         "\n",
                                         "true",
                                         "null",
                                         "fals",
                                         "NaN",
                                         "-Infinity",
                                         "\xC3\xA4",
                                         "131071",
                                         "131072",
                                         "-16383",
                                         "16384",
                                         "e-9",
                                         "[[[[",
                                         "]]]]",
                                         "{\"a\":",
                                         "0.00",
                                         "\"\\ud83d\\ude00\"",
                                         "2147483647",
                                         "1.5e1073741822",
                                         "\x7F",
                                         "\\/",
                                         "\\u0001",
                                         "\\\\"};
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    size_t stored = 0;
    sql_run(conn, judge);
    for (int i = 0; i < RANDOM_TEXTS; i++) {
        char text[512] = "";
        size_t len = 0;
        bool in_text = i % 5 == 0, number = i % 5 == 1; /* where mistakes are rare */
        len = (size_t)snprintf(text, sizeof text, "%s", in_text ? "[\"" : number ? "1" : "");
        for (unsigned n = 1 + random_below(PIECES_MAX); n > 0; n--) {
            const char *piece =
                pieces[number ? 9 + random_below(7) : random_below(sizeof pieces / sizeof *pieces)];
            len += (size_t)snprintf(text + len, sizeof text - len, "%s", piece);
        }
        (void)snprintf(text + len, sizeof text - len, "%s", in_text ? "\"]" : "");
        compare(conn, text);
        stored += stored_bytes(conn, text) >= 0;
    }
    print_message("%zu of %d could be stored\n", stored, RANDOM_TEXTS);
    assert_in_range(stored, RANDOM_TEXTS / 100, RANDOM_TEXTS);
    PQfinish(conn);
}

static void test_objects(void **state)
{
    static const char text[] = " { \"id\" : 7 , \"a\\u0062\":[\"x\",{\"id\":8}],\"id\":9,"
                               "\"t\":\"\\ud83d\\ude00\\ud83d\\n\\u0000\"}";
    struct scan_member m[] = {{.key = "id"}, {.key = "ab"}, {.key = "t"}, {.key = "none"}};
    int64_t id = 0;
    struct buf b;
    (void)state;
    assert_true(scan_object(text, strlen(text), m, 4));
    assert_true(scanned_id(&m[0].value, &id));
    assert_int_equal(id, 9);
    assert_int_equal(m[0].times, 2);
    assert_memory_equal(m[1].value.text, "[\"x\",{\"id\":8}]", m[1].value.bytes);
    assert_int_equal(m[1].value.bytes, 14);
    assert_int_equal(m[3].times, 0);
    assert_false(scanned_is_text(&m[3].value));
    buf_init(&b, 100);
    scanned_put(&m[2].value, &b);
    assert_string_equal(buf_text(&b), "\xF0\x9F\x98\x80\xEF\xBF\xBD\n\xEF\xBF\xBD");
    buf_clear(&b);
    /* cut anywhere: what is whole is there, and nothing is read beyond the end */
    for (size_t bytes = 0; bytes < strlen(text); bytes++) {
        struct scan_member c[] = {{.key = "id"}, {.key = "ab"}, {.key = "t"}};
        char *copy = malloc(bytes + 1); /* of this size: AddressSanitizer sees what is behind it */
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        assert_false(scan_object(copy, bytes, c, 3));
        assert_true(bytes < 12 || c[0].times > 0);
        free(copy);
    }
}

static void test_ids(void **state)
{
    static const struct {
        const char *text;
        int64_t id; /* 0 = none */
    } ids[] = {{"1", 1},
               {"7.0", 7},
               {"1e3", 1000},
               {"9007199254740993", 9007199254740993},
               {"9223372036854775807", INT64_MAX},
               {"9223372036854775808", 0},
               {"0", 0},
               {"-1", 0},
               {"1.5", 0},
               {"\"1\"", 0},
               {"true", 0},
               {"1e400", 0},
               {"NaN", 0},
               {"[1]", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct scanned v;
        int64_t id = 0;
        assert_true(scan_value(ids[i].text, strlen(ids[i].text), &v));
        assert_int_equal(scanned_id(&v, &id), ids[i].id > 0);
        assert_true(ids[i].id == 0 || id == ids[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_answers),
        WITH_DATABASE(test_random_texts),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_ids),
    };
    return RUN_GROUP(tests);
}
