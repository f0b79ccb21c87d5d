/* label: unit */
/* The option table and what reads it: flags, variables, the config file, defaults. */
#include "core/base/log.h"
#include "core/base/processors.h"
#include "core/options/option_value.h"
#include "tests/support/temporary.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

/* --- helpers -------------------------------------------------------------------------------- */

static char config_path[TEMPORARY_BYTES];

static int start(void **state)
{
    (void)state;
    (void)unsetenv("AMQP_URL");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        option_variable(&option_rows[i], name, sizeof name);
        (void)unsetenv(name);
    }
    (void)setenv("DATABASE_URL", "postgresql://h/d", 1);
    temporary_file("", config_path);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return unlink(config_path);
}

static void write_config(const char *text)
{
    FILE *file = fopen(config_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The words after the command's name, separated by '|'. */
static bool read_words(enum command command, const char *words, struct options **ret,
                       struct fault *f)
{
    char *argv[32] = {"command"};
    int argc = 1;
    char *copy = strdup(words), *rest = copy, *word;
    while (*words && (word = strsep(&rest, "|"))) {
        argv[argc++] = word;
    }
    bool ok = options_read(command, argc, argv, ret, f);
    free(copy); /* arguments are not looked at afterwards, values are copies */
    return ok;
}

static struct options *must_read(enum command command, const char *words)
{
    struct options *o = NULL;
    struct fault f = {.code = FAULT_NONE};
    assert_ok(read_words(command, words, &o, &f), &f);
    return o;
}

/* Reading must fail with a fault CONFIG that holds each of `parts`, separated by '|'. */
static void must_refuse(enum command command, const char *words, const char *parts)
{
    struct options *o = NULL;
    struct fault f = {.code = FAULT_NONE};
    if (read_words(command, words, &o, &f)) {
        fail_msg("\"%s\" was taken", words);
    }
    assert_int_equal(f.code, FAULT_CONFIG);
    char *copy = strdup(parts), *rest = copy, *part;
    while ((part = strsep(&rest, "|"))) {
        assert_contains(f.text, part);
    }
    free(copy);
}

static char *printed(void (*print)(FILE *out, enum command command), enum command command)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print(out, command);
    (void)fclose(out);
    return text;
}

static void print_markdown(FILE *out, enum command command)
{
    (void)command;
    options_markdown(out);
}

/* --- the table ------------------------------------------------------------------------------ */

static void test_rows_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        assert_true(row->name && *row->name && row->text && *row->text);
        assert_true(row->commands != 0 && (row->commands & ~COMMANDS_ALL) == 0);
        assert_int_equal(row->required & ~row->commands, 0);
        assert_int_equal(row->arg == NULL, row->type == OPTION_TYPE_FLAG);
        assert_true(!row->fits || row->allowed);
        assert_true(!row->required || row->env);
        assert_int_equal(row->choices != NULL, row->type == OPTION_TYPE_CHOICE);
        if (row->type == OPTION_TYPE_INT || row->type == OPTION_TYPE_DURATION) {
            assert_true(row->min < row->max);
        }
        assert_ptr_equal(option_find(row->name, strlen(row->name)), row);
        for (size_t j = 0; j < i; j++) {
            assert_true(!row->letter || row->letter != option_rows[j].letter);
        }
    }
}

/* A text of an option for some commands: of those that take it, one for each, and not for all. */
static void test_uses_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_uses_n; i++) {
        const struct option_use *use = &option_uses[i];
        const struct option_row *row = &option_rows[use->id];
        uint64_t all = 0;
        assert_true(use->commands != 0 && (use->commands & ~row->commands) == 0);
        for (size_t j = 0; j < option_uses_n; j++) {
            assert_true(j == i || option_uses[j].id != use->id ||
                        (option_uses[j].commands & use->commands) == 0);
            all |= option_uses[j].id == use->id ? option_uses[j].commands : 0;
        }
        assert_int_not_equal(all, row->commands);
        for (enum command c = 0; c < COMMAND_COUNT; c++) {
            if (use->commands >> c & 1) {
                assert_string_equal(option_text_for(row, c), use->text);
            }
        }
    }
}

static void test_every_default_is_allowed(void **state)
{
    (void)state;
    struct fault f = {.code = FAULT_NONE};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        int64_t number;
        const struct option_row *row = &option_rows[i];
        assert_true(!row->def || !row->secret);
        if (row->def) {
            assert_ok(option_value_check(row, row->name, row->def, &number, &f), &f);
        }
    }
}

static void test_help_and_docs_name_every_option(void **state)
{
    (void)state;
    char *markdown = printed(print_markdown, COMMAND_WORKER);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char name[64];
        (void)snprintf(name, sizeof name, "`--%s", row->name);
        assert_contains(markdown, name);
        for (enum command c = 0; c < COMMAND_COUNT; c++) {
            char *help = printed(options_help, c);
            (void)snprintf(name, sizeof name, "--%s", row->name);
            assert_true(!option_is_of(row, c) || strstr(help, name));
            free(help);
        }
    }
    free(markdown);
}

static void test_secrets_are_never_shown(void **state)
{
    (void)state;
    assert_true(option_rows[OPTION_DATABASE_URL].secret && option_rows[OPTION_AMQP_URL].secret &&
                option_rows[OPTION_PRESENCE_URL].secret);
    (void)setenv("AMQP_URL", "amqp://u:geheim@h", 1);
    (void)setenv("DATABASE_URL", "postgresql://u:geheim@h/d", 1);
    char *help = printed(options_help, COMMAND_WORKER);
    char *markdown = printed(print_markdown, COMMAND_WORKER);
    assert_null(strstr(help, "geheim"));
    assert_null(strstr(markdown, "geheim"));
    free(help);
    free(markdown);
    struct fault f = {.code = FAULT_NONE};
    struct options *o = NULL;
    assert_false(read_words(COMMAND_WORKER, "--amqp-url=http://geheim", &o, &f));
    assert_contains(f.text, "--amqp-url");
    assert_null(strstr(f.text, "geheim"));
    fault_clear(&f);
    write_config("amqp-url = 'http://geheim'\n");
    char words[TEMPORARY_BYTES + 64];
    (void)snprintf(words, sizeof words, "-c|%s", config_path);
    (void)unsetenv("AMQP_URL");
    assert_false(read_words(COMMAND_WORKER, words, &o, &f));
    assert_contains(f.text, "amqp-url");
    assert_null(strstr(f.text, "geheim"));
}

/* --- values --------------------------------------------------------------------------------- */

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0s", 0},        {"250ms", 250},    {"25s", 25000},          {"10min", 600000},
                {"1h", 3600000},  {"7d", 604800000}, {"3650d", 315360000000}, {"007s", 7000},
                {"1 h", 3600000}, {"5 min", 300000}};
    static const char *const bad[] = {"",
                                      "s",
                                      "25",
                                      "2m",
                                      "-1s",
                                      "1.5s",
                                      "1  s",
                                      "1 ",
                                      " 1s",
                                      "1s ",
                                      "1S",
                                      "1h30min",
                                      "1sec",
                                      "0x1s",
                                      "+1s",
                                      "1w",
                                      "1000000000000000s",
                                      "99999999999999d",
                                      "99999999999999999999s"};
    int64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (duration_parse(bad[i], &ms)) {
            fail_msg("\"%s\" was taken as %lld ms", bad[i], (long long)ms);
        }
    }
}

static void test_limits_of_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        enum option_id id;
        int64_t value;
    } good[] = {{"--priority|0|k", OPTION_PRIORITY, 0},
                {"--priority=9|k", OPTION_PRIORITY, 9},
                {"-p|3|k", OPTION_PRIORITY, 3},
                {"--max-attempts|1000|k", OPTION_MAX_ATTEMPTS, 1000},
                {"--timeout|1ms|k", OPTION_TIMEOUT, 1},
                {"--timeout|30d|k", OPTION_TIMEOUT, 2592000000},
                {"--delay|0s|k", OPTION_DELAY, 0},
                {"--delay|3650d|k", OPTION_DELAY, 315360000000}};
    (void)setenv("AMQP_URL", "none", 1);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct options *o = must_read(COMMAND_ENQUEUE, good[i].words);
        assert_true(option_is_given(o, good[i].id));
        assert_int_equal(option_int(o, good[i].id), good[i].value);
        options_free(o);
    }
    must_refuse(COMMAND_ENQUEUE, "--priority|10", "--priority|\"10\"|0 to 9");
    must_refuse(COMMAND_ENQUEUE, "--priority|-1", "--priority|\"-1\"|0 to 9");
    must_refuse(COMMAND_ENQUEUE, "--priority|4x", "--priority|\"4x\"|0 to 9");
    must_refuse(COMMAND_ENQUEUE, "--priority|99999999999999999999", "--priority|999|0 to 9");
    must_refuse(COMMAND_ENQUEUE, "--max-attempts|0", "--max-attempts|\"0\"|1 to 1000");
    must_refuse(COMMAND_ENQUEUE, "--timeout|0s", "--timeout|\"0s\"|1ms to 30d");
    must_refuse(COMMAND_ENQUEUE, "--timeout|31d", "--timeout|\"31d\"|1ms to 30d");
    must_refuse(COMMAND_ENQUEUE, "--delay|3651d", "--delay|\"3651d\"|0s to 3650d");
    must_refuse(COMMAND_ENQUEUE, "--delay|2m", "--delay|\"2m\"|in ms, s, min, h or d");
    must_refuse(COMMAND_ENQUEUE, "--delay|25", "--delay|\"25\"|in ms, s, min, h or d, such as 1h");
    (void)unsetenv("AMQP_URL");
}

static void test_choices_flags_and_texts(void **state)
{
    (void)state;
    struct options *o = must_read(COMMAND_STATUS, "--log-level|debug|--log-format=json|--json");
    assert_string_equal(option_text(o, OPTION_LOG_LEVEL), "debug");
    assert_string_equal(option_text(o, OPTION_LOG_FORMAT), "json");
    assert_int_equal(option_int(o, OPTION_LOG_LEVEL), LOG_DEBUG);
    assert_int_equal(option_int(o, OPTION_LOG_FORMAT), LOG_FORMAT_JSON);
    assert_true(option_flag(o, OPTION_JSON));
    options_free(o);
    o = must_read(COMMAND_STATUS, "--json=no");
    assert_false(option_flag(o, OPTION_JSON));
    assert_true(option_is_given(o, OPTION_JSON));
    options_free(o);
    must_refuse(COMMAND_STATUS, "--log-level|loud",
                "--log-level|\"loud\"|error warning info debug");
    must_refuse(COMMAND_STATUS, "--log-level|info debug", "--log-level|one of");
    must_refuse(COMMAND_STATUS, "--log-level|", "--log-level|\"\"|one of");
    must_refuse(COMMAND_STATUS, "--json=maybe", "--json|\"maybe\"|yes or no");
    must_refuse(COMMAND_SETUP, "--grant-producer=", "--grant-producer|empty");
    (void)setenv("AMQP_URL", "none", 1);
    must_refuse(COMMAND_ENQUEUE, "--queue|A b|k", "--queue|\"A b\"|1 to 63 of a-z");
    must_refuse(COMMAND_ENQUEUE, "--trace|00-1|k", "--trace|\"00-1\"|traceparent");
    must_refuse(COMMAND_WORKER, "--run-one|a b|f", "--run-one|\"a b\"|1 to 100");
    must_refuse(COMMAND_WORKER, "--handler|mail", "--handler|\"mail\"|KIND=COMMAND");
    must_refuse(COMMAND_WORKER, "--handler|=x", "--handler|\"=x\"|KIND=COMMAND");
    must_refuse(COMMAND_WORKER, "--handler|mail=", "--handler|\"mail=\"|KIND=COMMAND");
    (void)unsetenv("AMQP_URL");
}

static void test_names_fit_as_in_sql(void **state)
{
    (void)state;
    char longest[102];
    memset(longest, 'a', sizeof longest);
    longest[63] = '\0';
    assert_true(fits_queue(longest) && fits_queue("_a.b-c9"));
    longest[63] = 'a';
    longest[64] = '\0';
    assert_false(fits_queue(longest) || fits_queue("") || fits_queue(".a") || fits_queue("-a") ||
                 fits_queue("A") || fits_queue("a b") || fits_queue("\xC3\xA4") ||
                 fits_queue("a\n"));
    longest[64] = 'a';
    longest[100] = '\0';
    assert_true(fits_kind(longest) && fits_kind("Mail.send:v-2_x"));
    longest[100] = 'a';
    longest[101] = '\0';
    assert_false(fits_kind(longest) || fits_kind("") || fits_kind("a/b") || fits_kind("\xC3\xA4"));
    assert_true(fits_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(fits_trace("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(fits_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 "));
}

static void test_lists(void **state)
{
    (void)state;
    struct options *o = must_read(COMMAND_WORKER,
                                  "--amqp-url=none|-Q|a, b ,c|--handler|m=x,y|--handler|n=z");
    assert_int_equal(option_items(o, OPTION_QUEUES), 3);
    assert_string_equal(option_item(o, OPTION_QUEUES, 1), "b");
    assert_int_equal(option_items(o, OPTION_HANDLER), 2);
    assert_string_equal(option_item(o, OPTION_HANDLER, 0), "m=x,y");
    options_free(o);
    must_refuse(COMMAND_WORKER, "--amqp-url=none|--queues|a,,b", "--queues|\"\"|1 to 63");
    must_refuse(COMMAND_WORKER, "--amqp-url=none|--queues|a,", "--queues|\"\"|1 to 63");
    (void)setenv("TENON_HANDLER", "m=x\nn=y z", 1);
    o = must_read(COMMAND_WORKER, "--amqp-url=none|--queues|a|--queues|b");
    assert_int_equal(option_items(o, OPTION_QUEUES), 1);
    assert_string_equal(option_item(o, OPTION_QUEUES, 0), "b");
    assert_int_equal(option_items(o, OPTION_HANDLER), 2);
    assert_string_equal(option_item(o, OPTION_HANDLER, 1), "n=y z");
    options_free(o);
    (void)unsetenv("TENON_HANDLER");
}

/* --- the sources ---------------------------------------------------------------------------- */

static void test_precedence(void **state)
{
    (void)state;
    char words[TEMPORARY_BYTES + 64];
    struct options *o = must_read(COMMAND_WORKER, "--amqp-url=none");
    assert_int_equal(option_int(o, OPTION_DRAIN_LIMIT), 25000);
    assert_false(option_is_given(o, OPTION_DRAIN_LIMIT));
    options_free(o);

    write_config("\xEF\xBB\xBF"
                 "drain-limit = \"${NO_SUCH:-3ms}\"\namqp-url = none\n"
                 "log-level = debug\nonce = yes\n");
    (void)snprintf(words, sizeof words, "--config|%s", config_path);
    o = must_read(COMMAND_WORKER, words);
    assert_int_equal(option_int(o, OPTION_DRAIN_LIMIT), 3);
    assert_string_equal(option_text(o, OPTION_AMQP_URL), "none");
    assert_string_equal(option_text(o, OPTION_LOG_LEVEL), "debug");
    options_free(o);

    (void)setenv("TENON_CONFIG", config_path, 1);
    (void)setenv("TENON_DRAIN_LIMIT", "5ms", 1);
    (void)setenv("AMQP_URL", "amqp://second", 1);
    o = must_read(COMMAND_WORKER, "");
    assert_int_equal(option_int(o, OPTION_DRAIN_LIMIT), 5);
    assert_string_equal(option_text(o, OPTION_AMQP_URL), "amqp://second");
    options_free(o);

    (void)setenv("TENON_AMQP_URL", "amqp://first", 1);
    (void)setenv("TENON_LOG_LEVEL", "", 1); /* as if not given */
    o = must_read(COMMAND_WORKER, "--drain-limit|7ms");
    assert_int_equal(option_int(o, OPTION_DRAIN_LIMIT), 7);
    assert_true(option_is_given(o, OPTION_DRAIN_LIMIT));
    assert_string_equal(option_text(o, OPTION_AMQP_URL), "amqp://first");
    assert_string_equal(option_text(o, OPTION_LOG_LEVEL), "debug");
    options_free(o);
    (void)setenv("TENON_DRAIN_LIMIT", "-1", 1);
    must_refuse(COMMAND_WORKER, "", "TENON_DRAIN_LIMIT|\"-1\"|0s to 1d");
    (void)unsetenv("TENON_CONFIG");
    (void)unsetenv("TENON_DRAIN_LIMIT");
    (void)unsetenv("TENON_AMQP_URL");
    (void)unsetenv("TENON_LOG_LEVEL");
    (void)unsetenv("AMQP_URL");
}

static void test_config_lists(void **state)
{
    (void)state;
    char words[TEMPORARY_BYTES + 64];
    (void)snprintf(words, sizeof words, "--config|%s", config_path);
    write_config("# comment\namqp-url = 'amqp://u:p#w@h/%2f'\nqueues = {default, \"mail\"}\n"
                 "handler = {'a=run me', 'b=x'}\nuntil-empty = yes\ndrain-limit = 2s\n");
    struct options *o = must_read(COMMAND_WORKER, words);
    assert_string_equal(option_text(o, OPTION_AMQP_URL), "amqp://u:p#w@h/%2f");
    assert_int_equal(option_items(o, OPTION_QUEUES), 2);
    assert_string_equal(option_item(o, OPTION_QUEUES, 1), "mail");
    assert_int_equal(option_items(o, OPTION_HANDLER), 2);
    assert_string_equal(option_item(o, OPTION_HANDLER, 0), "a=run me");
    assert_true(option_flag(o, OPTION_UNTIL_EMPTY));
    assert_int_equal(option_int(o, OPTION_DRAIN_LIMIT), 2000);
    options_free(o);
}

static void test_config_is_refused_with_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *parts;
    } bad[] = {
        {"\n\nslotz = 3\n", ":3: |slotz"},
        {"slots = 3\nhelp = yes\n", ":2: |help"},
        {"slots = 3\namqp-url = \"amqp://${NO_SUCH}@h\"\n", ":2: the variable NO_SUCH is not set"},
        {"slots = 3\nslots = 1001\n", ":2: slots|\"1001\"|1 to 1000"},
        {"slots 3\n", ":1: |slots"},
        {"slots = {3}\n", ":1: "},
        {"slots = \"3\n", "premature end"},
        {"queues = {a, \"B x\"}\n", ":1: queues|\"B x\"|1 to 63"},
        {"\npriority = 12\n",
         ":2: priority|\"12\"|0 to 9"}, /* another command's, checked all the same */
        {"once = maybe", ":1: once|\"maybe\""},
        {"log-level = loud\n", ":1: log-level|\"loud\"|one of"},
    };
    char words[TEMPORARY_BYTES + 64];
    (void)snprintf(words, sizeof words, "--amqp-url=none|--slots|4|--config|%s", config_path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_config(bad[i].text);
        must_refuse(COMMAND_WORKER, words, config_path);
        must_refuse(COMMAND_WORKER, words, bad[i].parts);
    }
    must_refuse(COMMAND_STATUS, "--config|/nowhere/tenon.conf", "/nowhere/tenon.conf|No such file");
    must_refuse(COMMAND_STATUS, "--config|/tmp", "/tmp|directory");
}

static void test_command_line_is_refused(void **state)
{
    (void)state;
    must_refuse(COMMAND_STATUS, "--frob", "--frob|tenon status --help");
    must_refuse(COMMAND_STATUS, "--frob=geheim", "--frob is not");
    must_refuse(COMMAND_STATUS, "-z", "-z|tenon status --help");
    must_refuse(COMMAND_STATUS, "--slots|3", "--slots|tenon status");
    must_refuse(COMMAND_STATUS, "--log-level", "--log-level|needs a value|error warning");
    must_refuse(COMMAND_STATUS, "-c", "--config|needs a value");
}

static void test_servers_are_required(void **state)
{
    (void)state;
    (void)unsetenv("DATABASE_URL");
    for (enum command c = 0; c < COMMAND_COUNT; c++) {
        if (c != COMMAND_DEV && c != COMMAND_HEALTH) { /* it may start its own; it asks no server */
            must_refuse(c, "", "--database-url|DATABASE_URL|postgresql://");
        }
    }
    (void)setenv("DATABASE_URL", "postgresql://h/d", 1);
    must_refuse(COMMAND_WORKER, "", "--amqp-url|AMQP_URL|none");
    must_refuse(COMMAND_ENQUEUE, "k", "--amqp-url|AMQP_URL|none");
    must_refuse(COMMAND_CLEANER, "", "--amqp-url|AMQP_URL|none");
    must_refuse(COMMAND_WORKER, "--amqp-url|localhost", "--amqp-url|amqp://");
    struct options *o = must_read(COMMAND_SETUP, "");
    assert_null(option_text(o, OPTION_AMQP_URL));
    options_free(o);
    options_free(must_read(COMMAND_WORKER, "--help"));
    options_free(must_read(COMMAND_WORKER, "--run-one|mail|file"));
}

static void test_arguments(void **state)
{
    (void)state;
    struct options *o = NULL;
    struct fault f = {.code = FAULT_NONE};
    char *argv[] = {"show", "12", "--json", "--", "-3"};
    assert_ok(options_read(COMMAND_SHOW, 5, argv, &o, &f), &f);
    assert_true(option_flag(o, OPTION_JSON));
    assert_int_equal(options_args(o), 2);
    assert_string_equal(options_arg(o, 0), "12");
    assert_string_equal(options_arg(o, 1), "-3");
    options_free(o);
}

static void test_slots_are_the_processors(void **state)
{
    (void)state;
    struct options *o = must_read(COMMAND_WORKER, "--amqp-url=none");
    assert_int_equal(option_int(o, OPTION_SLOTS), processors());
    options_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_uses_are_whole),
        cmocka_unit_test(test_every_default_is_allowed),
        cmocka_unit_test(test_help_and_docs_name_every_option),
        cmocka_unit_test(test_secrets_are_never_shown),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_limits_of_numbers),
        cmocka_unit_test(test_choices_flags_and_texts),
        cmocka_unit_test(test_names_fit_as_in_sql),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_config_lists),
        cmocka_unit_test(test_config_is_refused_with_file_and_line),
        cmocka_unit_test(test_command_line_is_refused),
        cmocka_unit_test(test_servers_are_required),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_slots_are_the_processors),
    };
    return cmocka_run_group_tests_name(__FILE__, tests, start, end);
}
