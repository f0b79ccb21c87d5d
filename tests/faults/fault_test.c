/* label: unit */
#include "tests/support/test.h"

#include "core/base/fault.h"

#include <stdio.h>

static void test_first_fault_wins(void **state)
{
    (void)state;
    struct fault f = {0};
    assert_false(fault_set(&f, FAULT_CONFIG, "port %d is taken", 5432));
    assert_false(fault_set(&f, FAULT_BUG, "something later"));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_string_equal(f.text, "port 5432 is taken");
    assert_string_equal(f.sqlstate, "");
}

static void test_callers_add_in_front(void **state)
{
    (void)state;
    struct fault f = {0};
    (void)fault_set(&f, FAULT_RETRY, "server closed the connection");
    assert_false(fault_add(&f, "could not claim %d tasks", 3));
    assert_false(fault_add(&f, "queue %s", "mail"));
    assert_string_equal(f.text,
                        "queue mail: could not claim 3 tasks: server closed the connection");
    assert_int_equal(f.code, FAULT_RETRY);
}

static void test_a_text_is_one_line(void **state)
{
    (void)state;
    struct fault f = {0};
    (void)fault_set(&f, FAULT_RETRY, "%s", "server closed\n\tThis probably means\nthe end \n\n");
    (void)fault_add(&f, "queue \"%s\"", "a\r\033[2J\n");
    assert_string_equal(f.text, "queue \"a??[2J \": server closed; This probably means the end");
}

static void test_clear(void **state)
{
    (void)state;
    struct fault f = {.sqlstate = "22P02"};
    (void)fault_set(&f, FAULT_ROW, "bad");
    fault_clear(&f);
    assert_int_equal(f.code, FAULT_NONE);
    assert_string_equal(f.text, "");
    assert_string_equal(f.sqlstate, "");
    (void)fault_memory(&f);
    assert_int_equal(f.code, FAULT_MEMORY);
    assert_string_equal(f.text, "out of memory");
}

/* The start of the text is what says what happened: it stays, the end is cut. */
static void test_long_texts_are_cut(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct fault f = {0};
    (void)fault_set(&f, FAULT_BUG, "begin %s", text);
    assert_int_equal(strlen(f.text), FAULT_TEXT_BYTES_MAX - 1);
    (void)fault_add(&f, "in front");
    assert_int_equal(strlen(f.text), FAULT_TEXT_BYTES_MAX - 1);
    assert_memory_equal(f.text, "in front: begin xxx", 19);
}

/* Every length of a prefix around the size of the text, so that no byte is written behind it. */
static void test_long_prefixes(void **state)
{
    (void)state;
    for (size_t len = FAULT_TEXT_BYTES_MAX - 8; len < FAULT_TEXT_BYTES_MAX + 8; len++) {
        char prefix[FAULT_TEXT_BYTES_MAX + 8];
        memset(prefix, 'p', len);
        prefix[len] = '\0';
        struct fault *f = calloc(1, sizeof *f);
        (void)fault_set(f, FAULT_BUG, "the cause");
        (void)fault_add(f, "%s", prefix);
        assert_int_equal(f->code, FAULT_BUG);
        assert_true(strlen(f->text) < FAULT_TEXT_BYTES_MAX);
        assert_true(f->text[0] == 'p' || strcmp(f->text, "the cause") == 0);
        free(f);
    }
}

static void test_every_code_has_a_word(void **state)
{
    (void)state;
    for (int a = FAULT_NONE; a <= FAULT_MEMORY; a++) {
        assert_non_null(fault_word((enum fault_code)a));
        for (int b = FAULT_NONE; b < a; b++) {
            assert_string_not_equal(fault_word((enum fault_code)a), fault_word((enum fault_code)b));
        }
    }
}

static void test_exit_codes(void **state)
{
    (void)state;
    static const int codes[] = {
        [FAULT_NONE] = 0,    [FAULT_RETRY] = 1,  [FAULT_AGAIN] = 1,  [FAULT_ROW] = 1,
        [FAULT_REFUSED] = 2, [FAULT_CONFIG] = 2, [FAULT_ABSENT] = 1, [FAULT_SCHEMA] = 3,
        [FAULT_BUG] = 1,     [FAULT_MEMORY] = 1};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct fault f = {.code = (enum fault_code)i};
        assert_int_equal(fault_exit_code(&f), codes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_fault_wins),      cmocka_unit_test(test_callers_add_in_front),
        cmocka_unit_test(test_a_text_is_one_line),    cmocka_unit_test(test_clear),
        cmocka_unit_test(test_long_texts_are_cut),    cmocka_unit_test(test_long_prefixes),
        cmocka_unit_test(test_every_code_has_a_word), cmocka_unit_test(test_exit_codes),
    };
    return RUN_GROUP(tests);
}
