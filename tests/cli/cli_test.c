/* label: e2e */
/* The frame of the program tenon: commands, help, version, and what scripts ask of it. */
#include "core/options/option.h"
#include "tests/support/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 30000 };

static void test_usage(void **state)
{
    struct fixture *fx = *state;
    TENON_SAYS(fx, 2, "", "usage: tenon COMMAND", NULL);
    TENON_SAYS(fx, 0, "usage: tenon COMMAND", "", "--help");
    TENON_SAYS(fx, 0, "enqueue", "", "-h");
    TENON_SAYS(fx, 0, "tenon " TENON_VERSION, "", "--version");
    TENON_SAYS(fx, 0, "\nlibpq ", "", "--version");
    TENON_SAYS(fx, 0, "\nrabbitmq-c ", "", "--version");
    TENON_SAYS(fx, 0, "\njansson ", "", "--version");
}

/* An example of a command: its words, and only options that it takes. */
static void check_example(enum command c, char *line)
{
    char *rest = line, *word;
    for (char *at = line, quoted = 0; *at; at++) { /* what is quoted is a value */
        quoted ^= *at == '\'';
        *at = quoted ? '.' : *at;
    }
    assert_string_equal(strsep(&rest, " "), "tenon");
    assert_string_equal(strsep(&rest, " "), command_word(c));
    while ((word = strsep(&rest, " "))) {
        if (strncmp(word, "--", 2) == 0) {
            const struct option_row *row = option_find(word + 2, strlen(word) - 2);
            if (!row || !option_is_of(row, c)) {
                fail_msg("an example of tenon %s has %s", command_word(c), word);
            }
        }
    }
}

static void check_examples(enum command c, char *help)
{
    static const char head[] = "\nExamples:\n";
    char *rest = strstr(help, head), *line;
    int n = 0;
    assert_non_null(rest);
    rest += strlen(head);
    for (; (line = strsep(&rest, "\n")) && *line; n++) {
        assert_int_equal(strncmp(line, "  ", 2), 0);
        check_example(c, line + 2);
    }
    if (n < 2) {
        fail_msg("tenon %s --help has fewer than two examples", command_word(c));
    }
}

static void test_every_command_has_help(void **state)
{
    for (enum command c = 0; c < COMMAND_COUNT; c++) {
        const char *const args[] = {command_word(c), c % 2 ? "--help" : "-h", NULL};
        struct process *p = tenon_spawn(*state, args, NULL);
        assert_int_equal(process_wait(p, LIMIT_MS), 0);
        char *out = file_text(p->out), usage[64];
        (void)snprintf(usage, sizeof usage, "usage: tenon %s [OPTIONS]", command_word(c));
        assert_int_equal(strncmp(out, usage, strlen(usage)), 0);
        assert_contains(out, "--database-url URL");
        check_examples(c, out);
        free(out);
    }
}

/* A shared option says what it does in this command, and speaks of no other. */
static void test_help_is_of_its_command(void **state)
{
    struct fixture *fx = *state;
    TENON_SAYS(fx, 0, "The kind, in all queues.", "", "pause", "--help");
    TENON_SAYS(fx, 0, "Only tasks of this kind.", "", "list", "--help");
    TENON_SAYS(fx, 0, "The kind of the schedule's tasks.", "", "schedule", "--help");
    TENON_SAYS(fx, 0, "man tenon\n", "", "pause", "--help");
    TENON_SAYS(fx, 0, "\n\nSchedules and limits\n  schedule ", "", "--help");
}

static void test_unknown_commands(void **state)
{
    struct fixture *fx = *state;
    TENON_SAYS(fx, 2, "", "\"frobnicate\"; tenon --help lists them", "frobnicate");
    TENON_SAYS(fx, 2, "", "no command", "options");
    TENON_SAYS(fx, 0, "| `--slots N` |", "", "options", "--markdown");
}

static void test_wrong_words(void **state)
{
    struct fixture *fx = *state;
    TENON_SAYS(fx, 2, "", "tenon show: an argument is missing: tenon show ID", "show");
    TENON_SAYS(fx, 2, "", "unexpected argument \"now\": tenon setup takes no arguments", "setup",
               "now");
    TENON_SAYS(fx, 2, "", "--frob is not an option of tenon status", "status", "--frob");
    TENON_SAYS(fx, 2, "", "--slots \"0\" is not allowed", "worker", "--slots=0");
}

/* A person gets one sentence; log lines are for daemons. */
static void test_a_fault_is_one_sentence(void **state)
{
    struct fixture *fx = *state;
    static const char *const commands[][2] = {{"setup", NULL},
                                              {"status", NULL},
                                              {"show", "17"},
                                              {"enqueue", "mail"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char begin[128];
        (void)snprintf(begin, sizeof begin,
                       "tenon %s: could not connect to PostgreSQL: ", commands[i][0]);
        const char *const args[] = {commands[i][0], commands[i][1], NULL};
        const char *const env[] = {"DATABASE_URL=postgresql://127.0.0.1:1/", NULL};
        struct process *p = tenon_spawn(fx, args, env);
        assert_int_equal(process_wait(p, LIMIT_MS), 1);
        char *log = file_text(p->log);
        assert_int_equal(strncmp(log, begin, strlen(begin)), 0);
        assert_ptr_equal(strchr(log, '\n'), log + strlen(log) - 1);
        free(log);
    }
}

/* Nobody waits for a database that was never named. */
static void test_no_database_is_given(void **state)
{
    struct fixture *fx = *state;
    static const char *const commands[] = {"setup", "worker", "cleaner", "status"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const args[] = {commands[i], NULL};
        const char *const env[] = {"DATABASE_URL", NULL};
        struct process *p = tenon_spawn(fx, args, env);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log,
                        "--database-url is missing: set it, or the variable DATABASE_URL, to a");
        free(log);
    }
}

/* What each command needs besides, so that it goes on to the database. */
static const char *const words_of[][4] = {
    {"setup"},
    {"enqueue", "mail"},
    {"worker", "--handler", "mail=true"},
    {"cleaner", "--once"},
    {"status"},
    {"show", "17"},
    {"schedule", "list"},
    {"list"},
    {"retry", "17"},
    {"cancel", "17"},
    {"delete", "17"},
    {"run-now", "17"},
    {"set", "17", "--priority", "3"},
    {"pause", "mail"},
    {"resume", "mail"},
    {"queue"},
    {"kind"},
    {"audit"},
    {"why", "17"},
    {"adopt"},
    {"doctor"},
    {"dead"},
    {"flow", "list"},
    {"limit", "list"},
    {"wait", "17"},
    {"signal", "paid"},
    {"scaler"},
    {"canary"},
    {"ui"},
    {"dev", "--handler", "mail=true"},
};
enum { COMMANDS = sizeof words_of / sizeof *words_of };

/* The forms of other tools, and passwords that are not encoded. Every command says what is wrong,
 * and none repeats the password. */
static void test_no_password_in_a_complaint(void **state)
{
    struct fixture *fx = *state;
    static const char *const urls[] = {"postgresql+asyncpg://app:Geheim@h/d?ssl=require",
                                       "jdbc:postgresql://h/d?user=app&password=Geheim",
                                       "\"postgresql://app:Geheim@h/d\"",
                                       " postgresql://app:Geheim@h/d",
                                       "postgresql://app:Geheim@h/d\n",
                                       "postgresql://app:x@Geheim@h/d",
                                       "postgresql://app:Geheim%zz@h/d",
                                       "host=h password=no Geheim"};
    for (size_t i = 0; i < COMMANDS * sizeof urls / sizeof *urls; i++) {
        const char *const *words = words_of[i % COMMANDS];
        char url[100];
        (void)snprintf(url, sizeof url, "DATABASE_URL=%s", urls[i / COMMANDS]);
        const char *const args[] = {words[0], words[1], words[2], words[3], NULL};
        const char *const env[] = {url, NULL};
        struct process *p = tenon_spawn(fx, args, env);
        int code = process_wait(p, LIMIT_MS);
        char *out = file_text(p->out), *log = file_text(p->log);
        if (code != 2 || !strstr(*log ? log : out, "the database URL cannot be read") ||
            strstr(log, "Geheim") || strstr(out, "Geheim")) {
            fail_msg("tenon %s, %s: exit code %d: %s%s", words[0], url, code, out, log);
        }
        free(out);
        free(log);
    }
}

/* The program helper says a sentence without the password, and ends with code 2. */
static void helper_refuses(struct fixture *fx, const char *const *argv, const char *env,
                           const char *part)
{
    const char *const envs[] = {env, NULL};
    struct process *p = process_spawn(fx, argv, envs);
    int code = process_wait(p, LIMIT_MS);
    char *out = file_text(p->out), *log = file_text(p->log);
    if (code != 2 || !strstr(log, part) || strstr(log, "Geheim") || strstr(out, "Geheim")) {
        fail_msg("%s, %s: exit code %d: %s%s", argv[0], env, code, out, log);
    }
    free(out);
    free(log);
}

static void test_no_password_in_a_complaint_of_helpers(void **state)
{
    struct fixture *fx = *state;
    char program[PATH_MAX];
    (void)snprintf(program, sizeof program, "%s-sql", tenon_program);
    helper_refuses(fx, (const char *const[]){program, "--function", "app.f", NULL},
                   "DATABASE_URL=postgresql+asyncpg://app:Geheim@h/d", "names a driver");
    static const char *const urls[] = {"AMQP_URL='amqp://app:Geheim@h/v'",
                                       "AMQP_URL=amqp://app:x@Geheim@h/v",
                                       "AMQP_URL=amqp://app:1/Geheim@h/v",
                                       "AMQP_URL=amqp://app:Geheim@h/v\n",
                                       "OTEL_EXPORTER_OTLP_ENDPOINT=http://app:Geheim@h:4318",
                                       "OTEL_EXPORTER_OTLP_ENDPOINT=http://app:1/Geheim@h:4318"};
    const char *const worker[] = {tenon_program, "worker", "--handler", "mail=true", NULL};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        helper_refuses(fx, worker, urls[i], "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_usage),
        WITH_DATABASE(test_every_command_has_help),
        WITH_DATABASE(test_help_is_of_its_command),
        WITH_DATABASE(test_unknown_commands),
        WITH_DATABASE(test_wrong_words),
        WITH_DATABASE(test_a_fault_is_one_sentence),
        WITH_DATABASE(test_no_database_is_given),
        WITH_DATABASE(test_no_password_in_a_complaint),
        WITH_DATABASE(test_no_password_in_a_complaint_of_helpers),
    };
    return RUN_GROUP(tests);
}
