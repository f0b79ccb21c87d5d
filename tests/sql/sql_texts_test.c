/* label: sql */
/* timeout: 300 */
/* Every text that a producer, a handler or an operator can write has a limit; and what a text costs
 * that a handler answers has one. */
#include "tests/support/held.h"

static void test_each_text_has_a_limit(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SET tenon_test.claim = '%s'; SET tenon_test.role = '%s'", claim, fx->database);
    test_sql(fx,
             "CREATE ROLE %1$s_p; CREATE ROLE %1$s_o;"
             "SELECT tenon.grant_producer('%1$s_p'), tenon.grant_operator('%1$s_o'),"
             " tenon.grant_publisher('%1$s_p')",
             fx->database);
    test_sql_file(fx, "tests/sql/texts.sql");
    test_sql(fx, "DROP OWNED BY %1$s_p, %1$s_o; DROP ROLE %1$s_p, %1$s_o", fx->database);
}

/* A round may bring 2,048 failures, whose errors are 8 KB of what the handler likes; its statement
 * may take 15 s. */
static void test_no_error_is_dear_to_classify(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SET statement_timeout = '15 s'; CREATE FUNCTION pg_temp.classify(piece text, n integer)"
        " RETURNS bigint LANGUAGE sql AS $$ SELECT count(tenon.error_class('failed',"
        " left(repeat(piece, 8192), 8180) || i)) FROM generate_series(1, n) i $$");
    assert_int_equal(test_sql_int(fx, "SELECT pg_temp.classify(E'aError\n', 2048)"), 2048);
    static const char *const pieces[] = {"a.",
                                         "A",
                                         "a ",
                                         "\\n",
                                         "a Error\\n",
                                         "a.Exception: b\\n",
                                         "Ab: ",
                                         "Error ",
                                         "(Error",
                                         "a.b.Cd: e\\n",
                                         "exit status 1: ",
                                         "exit status 1: a.rb:1:in b (C"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_int_equal(test_sql_int(fx, "SELECT pg_temp.classify(E'%s', 200)", pieces[i]), 200);
        assert_int_equal(test_sql_int(fx,
                                      "SELECT pg_temp.classify('exit status 1: ' || E'%s', 200)",
                                      pieces[i]),
                         200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_each_text_has_a_limit),
        WITH_DATABASE(test_no_error_is_dear_to_classify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
