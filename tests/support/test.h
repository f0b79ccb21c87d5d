/* What every test includes: cmocka, and a few words on top of it. */
#ifndef TENON_TESTS_SUPPORT_TEST_H
#define TENON_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef stop // a macro of cmocka 2

#include "core/base/fault.h"
#include "tests/support/patience.h"

/* Run the table of tests of one program: return RUN_GROUP(tests); */
#define RUN_GROUP(tests) cmocka_run_group_tests_name(__FILE__, (tests), NULL, NULL)

/* Skip this test, as something is missing here: what, and which script/... brings it. script/test
 * prints that. With TEST_NO_SKIP, as at night, it fails. */
#define skip_missing(...)                                                                          \
    do {                                                                                           \
        print_message("skipped: " __VA_ARGS__);                                                    \
        print_message("\n");                                                                       \
        if (getenv("TEST_NO_SKIP")) {                                                              \
            fail_msg("TEST_NO_SKIP is set, and something is missing here");                        \
        }                                                                                          \
        skip();                                                                                    \
    } while (0)

/* Fail with the fault's text when a call that must succeed did not. */
#define assert_ok(call, fault)                                                                     \
    do {                                                                                           \
        if (!(call)) {                                                                             \
            fail_msg("%s: %s: %s", #call, fault_word((fault)->code), (fault)->text);               \
        }                                                                                          \
    } while (0)

/* Fail unless `text` contains `part`. */
#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        const char *contains_text = (text), *contains_part = (part);                               \
        if (!contains_text || !strstr(contains_text, contains_part)) {                             \
            fail_msg("\"%s\" does not contain \"%s\"", contains_text ? contains_text : "(null)",   \
                     contains_part);                                                               \
        }                                                                                          \
    } while (0)

#endif
