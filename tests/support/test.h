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

#include "core/fault.h"

/* Run the table of tests of one program: return RUN_GROUP(tests); */
#define RUN_GROUP(tests) cmocka_run_group_tests_name(__FILE__, (tests), NULL, NULL)

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
