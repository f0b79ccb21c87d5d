/* label: unit */
/* The handlers file: what it says, and what is said about a wrong one. */
#include "worker/handler.h"

#include "tests/support/temporary.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool load(const char *path, struct handlers *ret, struct fault *f)
{
    char *argv[] = {(char *)(uintptr_t) "worker",
                    (char *)(uintptr_t) "--handlers",
                    (char *)(uintptr_t)path,
                    (char *)(uintptr_t) "--database-url",
                    (char *)(uintptr_t) "postgresql://h",
                    (char *)(uintptr_t) "--amqp-url",
                    (char *)(uintptr_t) "none",
                    NULL};
    struct options *o = NULL;
    assert_ok(options_read(COMMAND_WORKER, 7, argv, &o, f), f);
    bool ok = handlers_load(o, ret, f);
    options_free(o);
    return ok;
}

static bool load_text(const char *text, struct handlers *ret, struct fault *f)
{
    char path[TEMPORARY_BYTES];
    temporary_file(text, path);
    bool ok = load(path, ret, f);
    (void)unlink(path);
    return ok;
}

static void refuses(const char *text, const char *part)
{
    struct handlers hs;
    struct fault f = {0};
    assert_false(load_text(text, &hs, &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, part);
}

static void test_what_it_says(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    assert_ok(load_text("handler \"mail,sms\" {\n command = {\"/bin/cat\", \"-x\"}\n mode = pool\n"
                        " in_flight = 8\n directory = /tmp\n pass_env = {PGHOST}\n}"
                        "handler b { command = sh }"
                        "handler c { command = sh mode = pool chunk_size = 50 chunk_wait = 200ms }",
                        &hs, &f),
              &f);
    assert_int_equal(hs.n, 3);
    assert_int_equal(handlers_find(&hs, "sms"), 0);
    assert_int_equal(handlers_find(&hs, "b"), 1);
    assert_true(hs.items[0].pool && !hs.items[1].pool);
    assert_true(hs.items[0].chunk_size == 0 && hs.items[0].chunk_wait_ms == 0);
    assert_true(hs.items[2].chunk_size == 50 && hs.items[2].chunk_wait_ms == 200);
    assert_int_equal(hs.items[0].in_flight, 8);
    assert_string_equal(hs.items[0].argv[1], "-x");
    assert_string_equal(hs.items[0].directory, "/tmp");
    assert_string_equal(hs.items[0].pass_env[0], "PGHOST");
    handlers_clear(&hs);
}

/* The kinds of "*" take their place among those of the others. */
static void test_a_handler_for_all_kinds(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    assert_ok(load_text("handler b { command = sh }"
                        "handler \"*\" { command = sh mode = pool in_flight = 3 }"
                        "handler z { command = sh }",
                        &hs, &f),
              &f);
    assert_int_equal(handlers_any(&hs), 1);
    assert_int_equal(hs.n_kinds, 2);
    assert_int_equal(handlers_find(&hs, "*"), -1);
    assert_ok(handlers_name(&hs, 1, "a,b,c,z", &f), &f);
    assert_string_equal(hs.items[1].kinds, "a,c");
    assert_string_equal(hs.items[1].named, "a,b,c,z");
    static const char *const names[] = {"b", "a", "c", "z"};
    assert_int_equal(hs.n_kinds, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(hs.kinds[i].name, names[i]);
    }
    assert_int_equal(handlers_find(&hs, "c"), 1);
    assert_int_equal(handlers_find(&hs, "z"), 2);
    handlers_clear(&hs);
    assert_ok(load_text("handler b { command = sh } handler \"*\" { command = sh mode = pool }",
                        &hs, &f),
              &f);
    assert_false(handlers_name(&hs, 1, "b", &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "other handlers have all kinds that it names: b");
    handlers_clear(&hs);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    refuses("handler a {\n command = {x}\n colour = red\n}", ":3: no such option 'colour'");
    refuses("handler a {\n command = sh\n mode = slow\n}",
            ":3: mode \"slow\" is not allowed: exec or pool");
    refuses("handler a { }", "handler \"a\": command must have 1 to 100 words");
    refuses("handler a { command = sh in_flight = -1 }",
            ":1: in_flight -1 is not allowed: 0 to 1024");
    refuses("handler a {\n command = sh\n mode = pool\n chunk_size = 1001\n}",
            ":4: chunk_size 1001 is not allowed: 0 to 1000");
    refuses("handler a { command = sh mode = pool chunk_size = 2 chunk_wait = 10001ms }",
            ":1: handler \"a\": chunk_wait \"10001ms\" is not allowed: a time up to 10s");
    refuses("handler a { command = sh chunk_size = 2 }",
            ":1: handler \"a\": chunk_size requires mode \"pool\"");
    refuses("handler a { command = sh mode = pool chunk_size = 2 in_flight = 3 }",
            "chunk_size and in_flight cannot be used together");
    refuses("handler a { command = sh mode = pool chunk_wait = 3ms }",
            "chunk_wait requires chunk_size");
    refuses("handler \"a b\" { command = sh }", "kind \"a b\" is not allowed");
    refuses("handler \"a,a\" { command = sh }\nhandler \"b,a\" { command = sh }",
            ":2: handler \"b,a\": kind \"a\" has two handlers");
    refuses("handler a { command = sh }\n# x\nhandler a2 {\n command = sh\n",
            ":4: a section, string or comment is not closed");
    refuses("handler a { command = sh } /* handler b {",
            ":1: a section, string or comment is not closed");
    refuses("handler a { command = /no/such/program }",
            ":1: handler \"a\": there is no executable /no/such/program");
    refuses("handler a { command = no-such-program }",
            "there is no executable no-such-program in PATH");
    refuses("handler a { command = /etc/passwd }", "there is no executable /etc/passwd");
    refuses("handler a { command = ./sh directory = /tmp }", "there is no executable ./sh in /tmp");
    char here[400], says[500];
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(says, sizeof says, "handler \"a\": there is no executable ./no-such in %s",
                   here);
    refuses("handler a { command = ./no-such }", says);
    refuses("handler \"*\" { command = sh }",
            ":1: handler \"*\": handler \"*\" requires mode \"pool\"");
    refuses("handler \"a,*\" { command = sh mode = pool }", "kind \"*\" is not allowed");
    refuses("", "no handler is given");
    refuses("handler a { command = \"", ":1: a section, string or comment is not closed");
}

static void test_start_limit(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    assert_ok(load_text("handler a { command = sh mode = pool }"
                        "handler b { command = sh mode = pool start_limit = 3min }",
                        &hs, &f),
              &f);
    assert_int_equal(hs.items[0].start_limit_ms, 60000);
    assert_int_equal(hs.items[1].start_limit_ms, 180000);
    handlers_clear(&hs);
    refuses(
        "handler a { command = sh mode = pool start_limit = 90 }",
        ":1: handler \"a\": start_limit \"90\" is not allowed: a time from 1s to 1h, such as 90s");
    refuses("handler a { command = sh mode = pool start_limit = 999ms }", "is not allowed");
    refuses("handler a { command = sh mode = pool start_limit = 2h }", "is not allowed");
    refuses("handler a { command = sh start_limit = 90s }", "start_limit requires mode \"pool\"");
}

static void test_variables(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    (void)setenv("SET", "/bin/cat", 1);
    (void)setenv("EMPTY", "", 1);
    (void)unsetenv("UNSET");
    assert_ok(load_text("# ${UNSET} it's\n// \"${UNSET}\n/* ${UNSET}\n '\" */\n"
                        "handler a { command = {\"${SET}\", \"${EMPTY}\", \"${UNSET:-a b}\", "
                        "'${UNSET}', \"\\${UNSET}\", \"it's # /* ${UNSET:-} \\\"\"} }",
                        &hs, &f),
              &f);
    assert_string_equal(hs.items[0].argv[0], "/bin/cat");
    assert_string_equal(hs.items[0].argv[1], "");
    assert_string_equal(hs.items[0].argv[2], "a b");
    assert_string_equal(hs.items[0].argv[3], "${UNSET}");
    assert_string_equal(hs.items[0].argv[4], "${UNSET}");
    assert_string_equal(hs.items[0].argv[5], "it's # /*  \"");
    handlers_clear(&hs);
    refuses("/*\n*/\nhandler a {\n command = {sh, \"it's ${SET} ${UNSET}\"}\n}",
            ":4: the variable UNSET is not set; to give a default, write ${UNSET:-value}");
    refuses("handler a { command = ${UNSET} }", ":1: the variable UNSET is not set");
    refuses("handler a { command = sh /* a */ directory = \"${UNSET}\" }", "UNSET is not set");
}

static void test_a_byte_order_mark(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    assert_ok(load_text("\xEF\xBB\xBFhandler a { command = sh }", &hs, &f), &f);
    assert_int_equal(hs.n, 1);
    handlers_clear(&hs);
}

/* The kernel, and a shell, would say "not found" of a script that is there. */
static void test_a_script_with_carriage_returns(void **state)
{
    (void)state;
    char script[TEMPORARY_BYTES], text[TEMPORARY_BYTES + 64];
    temporary_file("#!/bin/sh\r\nexit 0\r\n", script);
    assert_int_equal(chmod(script, 0700), 0);
    (void)snprintf(text, sizeof text, "handler a { command = %s }", script);
    refuses(text, "ends in a carriage return, so that its interpreter cannot be found");
    assert_int_equal(unlink(script), 0);
}

/* libconfuse would end the program. */
static void test_a_folder_is_no_file(void **state)
{
    (void)state;
    struct handlers hs;
    struct fault f = {0};
    assert_false(load("/tmp", &hs, &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "the handlers file /tmp cannot be read: Is a directory");
    fault_clear(&f);
    assert_false(load("/nowhere/x", &hs, &f));
    assert_contains(f.text, "the handlers file /nowhere/x cannot be read: No such file");
    fault_clear(&f);
    assert_false(load("/dev/zero", &hs, &f));
    assert_contains(f.text, "over the limit of 1048576 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_a_handler_for_all_kinds),
        cmocka_unit_test(test_start_limit),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_a_byte_order_mark),
        cmocka_unit_test(test_a_script_with_carriage_returns),
        cmocka_unit_test(test_a_folder_is_no_file),
    };
    return RUN_GROUP(tests);
}
