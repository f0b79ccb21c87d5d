/* label: unit */
/* What worker and handler say to each other, to the letter. */
#include "worker/line.h"

#include "core/base/log.h"
#include "core/base/scan.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct claim task(void)
{
    static const char payload[] = "{\"n\": 123456789012345678901234567890, \"s\": \"a\\nb\"}";
    return (struct claim){.id = 7,
                          .claims = 5,
                          .attempt = 2,
                          .key = (int64_t)0x8123456789abcdef,
                          .failures = 1,
                          .max_attempts = 25,
                          .timeout_ms = 3600000,
                          .queue = "default",
                          .kind = "mail",
                          .payload = payload,
                          .payload_bytes = strlen(payload)};
}

static void test_task_line_copies_the_payload(void **state)
{
    (void)state;
    struct claim c = task();
    struct buf b;
    buf_init(&b, 1 << 20);
    line_put_task(&b, &c);
    assert_string_equal(buf_text(&b),
                        "{\"id\":7,\"kind\":\"mail\",\"queue\":\"default\",\"attempt\":2,"
                        "\"failures\":1,\"max_attempts\":25,"
                        "\"timeout_ms\":3600000,"
                        "\"claim\":\"7/5/8123456789abcdef\","
                        "\"trace\":null,\"progress\":null,"
                        "\"payload\":{\"n\": 123456789012345678901234567890, \"s\": \"a\\nb\"}}\n");
    buf_clear(&b);
}

static const char *variable(char **env, const char *name)
{
    size_t len = strlen(name);
    for (char **e = env; *e; e++) {
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return NULL;
}

static void test_environment_has_the_task_and_no_secret(void **state)
{
    (void)state;
    struct claim c = task();
    char *own[] = {"A=b", NULL};
    char **env = line_environment(own, &c);
    assert_non_null(env);
    assert_string_equal(variable(env, "A"), "b");
    assert_string_equal(variable(env, "TENON_TASK_ID"), "7");
    assert_string_equal(variable(env, "TENON_TASK_KIND"), "mail");
    assert_string_equal(variable(env, "TENON_TASK_QUEUE"), "default");
    assert_string_equal(variable(env, "TENON_TASK_ATTEMPT"), "2");
    assert_string_equal(variable(env, "TENON_TASK_FAILURES"), "1");
    assert_string_equal(variable(env, "TENON_TASK_MAX_ATTEMPTS"), "25");
    assert_string_equal(variable(env, "TENON_TASK_TIMEOUT_MS"), "3600000");
    assert_string_equal(variable(env, "TENON_TASK_CLAIM"), "7/5/8123456789abcdef");
    assert_null(variable(env, "TENON_TASK_TRACE"));
    assert_null(variable(env, "TENON_TASK_PROGRESS"));
    free(env);
    c.progress = malloc(PROGRESS_BYTES_MAX + 1); /* as much as there may be */
    memset(c.progress, '7', PROGRESS_BYTES_MAX);
    c.progress[PROGRESS_BYTES_MAX] = '\0';
    env = line_environment(own, &c);
    assert_string_equal(variable(env, "TENON_TASK_PROGRESS"), c.progress);
    free(c.progress);
    free(env);
    env = line_environment(own, NULL); /* a pool child */
    assert_null(variable(env, "TENON_TASK_ID"));
    free(env);
}

static void test_hello(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int room; /* 0 = refused */
    } hellos[] = {{"{\"hello\":\"tenon\"}", 1},
                  {"{\"hello\":\"tenon\",\"in_flight\":64}", 64},
                  {"{\"hello\":\"tenon\",\"in_flight\":1024,\"more\":[]}", 1024},
                  {"{\"hello\":\"tenon\",\"in_flight\":1025}", 0},
                  {"{\"hello\":\"tenon\",\"in_flight\":0}", 0},
                  {"{\"hello\":\"tenon\",\"in_flight\":\"x\"}", 0},
                  {"{\"hello\":\"world\"}", 0},
                  {"[]", 0},
                  {"hello", 0},
                  {"", 0}};
    for (size_t i = 0; i < sizeof hellos / sizeof *hellos; i++) {
        struct fault f = {0};
        struct hello hello = {0};
        bool ok = line_parse_hello(hellos[i].line, strlen(hellos[i].line), &hello, &f);
        assert_int_equal(ok, hellos[i].room > 0);
        assert_int_equal(hello.in_flight, hellos[i].room);
        assert_int_equal(f.code != FAULT_NONE, !ok);
    }
}

/* What it does before its hello; a line that is no JSON was printed by something else. */
static void test_starting_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *starting; /* NULL = refused */
        const char *says;
    } lines[] = {
        {"{\"starting\":\"importing shop\"}", "importing shop", NULL},
        {"{\"starting\":\"a\\nb\",\"more\":1}", "a b", NULL},
        {"{\"starting\":\"\"}", "?", NULL},
        {"{\"starting\":\"x\",\"hello\":\"tenon\"}", "", NULL},
        {"{\"starting\":7}", NULL, "expected a hello on stdout, got: {\"starting\":7}"},
        {"> shop@1.0.0 start", NULL, "got: > shop@1.0.0 start (stdout is for the"},
        {"", NULL, "on stdout, got: an empty line (stdout is"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct fault f = {0};
        struct hello hello = {0};
        bool ok = line_parse_hello(lines[i].line, strlen(lines[i].line), &hello, &f);
        assert_int_equal(ok, lines[i].starting != NULL);
        assert_string_equal(hello.starting, ok ? lines[i].starting : "");
        assert_contains(f.text, ok ? "" : lines[i].says);
    }
    char line[512];
    struct fault f = {0};
    struct hello hello;
    (void)snprintf(line, sizeof line, "{\"starting\":\"%0300d\"}", 0);
    assert_ok(line_parse_hello(line, strlen(line), &hello, &f), &f);
    assert_in_range(strlen(hello.starting), 100, STARTING_BYTES - 1);
}

static bool parse(const char *line, struct event *event)
{
    struct fault f = {0};
    *event = (struct event){0};
    return line_parse(line, strlen(line), event, &f);
}

/* The log says so; nothing else happens to the task. */
static void assert_time_refused(const char *line, const char *progress)
{
    struct event e;
    assert_true(parse(line, &e));
    assert_int_equal(e.type, EVENT_PROGRESS);
    assert_int_equal(e.extend_ms, -1);
    assert_true(progress ? strcmp(e.progress, progress) == 0 : !e.progress);
    free(e.progress);
}

static void assert_progress_refused(const char *line)
{
    struct event e;
    assert_true(parse(line, &e));
    assert_int_equal(e.type, EVENT_PROGRESS);
    assert_string_equal(e.progress, "");
    free(e.progress);
}

static void test_progress_lines(void **state)
{
    (void)state;
    static const char line[] = "{\"id\":7,\"progress\":{\"n\":123456789012345678901234}}";
    struct event e;
    assert_true(parse(line, &e));
    assert_int_equal(e.type, EVENT_PROGRESS);
    assert_int_equal(e.id, 7);
    assert_string_equal(e.progress, "{\"progress\":{\"n\":123456789012345678901234}}");
    assert_int_equal(e.extend_ms, 0);
    free(e.progress);
    assert_true(parse("{\"id\":7,\"extend_ms\":60000}", &e));
    assert_int_equal(e.type, EVENT_PROGRESS);
    assert_null(e.progress);
    assert_int_equal(e.extend_ms, 60000);
    assert_true(parse("{\"id\":7,\"progress\":null,\"extend_ms\":2592000000}", &e));
    assert_non_null(e.progress);
    assert_true(e.extend_ms == 2592000000);
    free(e.progress);
    assert_time_refused("{\"id\":7,\"extend_ms\":0}", NULL);
    assert_time_refused("{\"id\":7,\"extend_ms\":2592000001}", NULL);
    assert_time_refused("{\"id\":7,\"extend_ms\":\"1 min\",\"progress\":1}", "{\"progress\":1}");
    assert_progress_refused("{\"id\":7,\"progress\":NaN}");
    assert_progress_refused("{\"id\":7,\"progress\":[\"\\ud83d\"]}");
    assert_false(parse("{\"progress\":1}", &e));
    /* with an outcome it is a reply, and says nothing of progress */
    assert_true(parse("{\"id\":7,\"outcome\":\"interrupted\",\"progress\":1,\"delay_ms\":5}", &e));
    assert_int_equal(e.type, EVENT_REPLY);
    assert_int_equal(e.outcome, OUTCOME_RELEASED);
    assert_int_equal(e.delay_ms, -1);
    assert_null(e.progress);
}

/* As it is printed: [1e-16383] is short, and 16 KB for PostgreSQL. */
static void test_progress_has_a_limit(void **state)
{
    (void)state;
    struct event e;
    char line[PROGRESS_BYTES_MAX + 1024];
    for (int over = 0; over < 2; over++) {
        size_t bytes = PROGRESS_BYTES_MAX - 2 + (over ? 200 : 0);
        int n = snprintf(line, sizeof line, "{\"id\":7,\"progress\":\"");
        memset(line + n, 'x', bytes);
        (void)snprintf(line + n + bytes, sizeof line - (size_t)n - bytes, "\"}");
        assert_true(parse(line, &e));
        assert_int_equal(*e.progress != '\0', !over);
        free(e.progress);
    }
    assert_progress_refused(
        "{\"id\":7,\"progress\":[1e-16383,1e-16383,1e-16383,1e-16383,1e-16383]}");
}

static void test_step_lines(void **state)
{
    (void)state;
    static const char line[] =
        "{\"id\":7,\"step\":{\"name\":\"pay\",\"value\":123456789012345678901234}}";
    static const struct {
        const char *line, *name;
    } refused[] = {{"{\"id\":7,\"step\":7}", ""},
                   {"{\"id\":7,\"step\":{\"value\":1}}", ""},
                   {"{\"id\":7,\"step\":{\"name\":\"\"}}", ""},
                   {"{\"id\":7,\"step\":{\"name\":\"a\\u0000b\"}}", "a\xEF\xBF\xBD"
                                                                    "b"},
                   {"{\"id\":7,\"step\":{\"name\":\"a\",\"value\":NaN}}", "a"},
                   {"{\"id\":7,\"step\":{\"name\":\"a\",\"value\":\"\\ud83d\"}}", "a"},
                   {"{\"id\":7,\"step\":{\"name\":\"a\"},\"progress\":1}", "a"},
                   {"{\"id\":7,\"step\":{\"name\":\"a\"},\"extend_ms\":1}", "a"}};
    struct event e;
    assert_true(parse(line, &e));
    assert_int_equal(e.type, EVENT_STEP);
    assert_int_equal(e.id, 7);
    assert_string_equal(e.name, "pay");
    assert_string_equal(e.step, "{\"step\":{\"name\":\"pay\",\"value\":123456789012345678901234}}");
    free(e.step);
    assert_false(parse("{\"step\":{\"name\":\"a\"}}", &e));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) { /* its child is told so */
        assert_true(parse(refused[i].line, &e));
        assert_int_equal(e.type, EVENT_STEP);
        assert_string_equal(e.name, refused[i].name);
        assert_string_equal(e.step, "");
        free(e.step);
    }
    assert_true(parse("{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"s\"}", &e));
    assert_int_equal(e.outcome, OUTCOME_WAIT_SIGNAL);
    assert_string_equal(e.signal, "s");
    assert_true(e.delay_ms == WAIT_MS_MAX);
    free(e.signal);
    assert_true(
        parse("{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"s\",\"timeout_ms\":5}", &e));
    assert_int_equal(e.delay_ms, 5);
    free(e.signal);
    struct buf b;
    buf_init(&b, 1000);
    line_put_step(&b, 7, "a\"b", true);
    line_put_step(&b, 8, "c", false);
    assert_string_equal(buf_text(&b), "{\"step\":7,\"name\":\"a\\\"b\",\"recorded\":true}\n"
                                      "{\"step\":8,\"name\":\"c\",\"recorded\":false}\n");
    buf_clear(&b);
}

/* Whatever a log line contains, it is one, and fails nothing. */
static void test_log_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message, *fields;
        enum log_level level;
    } lines[] = {
        {"{\"id\":7,\"log\":{\"level\":\"error\",\"message\":\"a\\nb\",\"fields\":{\"n\":1}}}",
         "a\nb", "{\"n\":1}", LOG_ERROR},
        {"{\"id\":7,\"log\":{\"level\":\"warning\",\"message\":\"a\",\"fields\":[1]}}", "a", NULL,
         LOG_WARNING},
        {"{\"id\":7,\"log\":{\"level\":\"debug\",\"message\":\"a\"},\"progress\":1}", "a", NULL,
         LOG_DEBUG},
        {"{\"id\":7,\"log\":{\"level\":\"loud\",\"message\":5}}", "5", NULL, LOG_INFO},
        {"{\"id\":7,\"log\":{\"message\":\"\\ud83d\\u0000\"}}", "\xEF\xBF\xBD\xEF\xBF\xBD", NULL,
         LOG_INFO},
        {"{\"id\":7,\"log\":{\"message\":\"a\xFF\"}}", "a\xEF\xBF\xBD", NULL, LOG_INFO},
        {"{\"id\":7,\"log\":{}}", "{}", NULL, LOG_INFO},
        {"{\"id\":7,\"log\":\"a\"}", "a", NULL, LOG_INFO},
        {"{\"id\":7,\"log\":null}", "null", NULL, LOG_INFO},
    };
    struct event e;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_true(parse(lines[i].line, &e));
        assert_int_equal(e.type, EVENT_LOG);
        assert_int_equal(e.id, 7);
        assert_int_equal(e.log_level, lines[i].level);
        assert_string_equal(e.message, lines[i].message);
        assert_true(lines[i].fields ? e.fields && strcmp(e.fields, lines[i].fields) == 0
                                    : !e.fields);
        free(e.message);
        free(e.fields);
    }
    assert_true(parse("{\"id\":7,\"outcome\":\"done\",\"log\":{\"message\":\"a\"}}", &e));
    assert_int_equal(e.type, EVENT_REPLY);
    assert_false(parse("{\"log\":{\"message\":\"a\"}}", &e));
}

static void test_steps_of_a_task_line(void **state)
{
    (void)state;
    static char steps[] = "{\"pay\": [1e400]}";
    struct claim c = task();
    struct buf b;
    c.steps = steps;
    c.steps_bytes = strlen(steps);
    buf_init(&b, 1 << 20);
    line_put_task(&b, &c);
    assert_non_null(strstr(buf_text(&b), "\"progress\":null,\"steps\":{\"pay\": [1e400]},"));
    buf_clear(&b);
}

static void test_stop_lines(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    line_put_stop(&b, 17, "cancelled");
    line_put_stop(&b, 0, "drain");
    line_put_number(&b, 3);
    assert_string_equal(buf_text(&b), "{\"stop\":17,\"why\":\"cancelled\"}\n"
                                      "{\"stop\":null,\"why\":\"drain\"}\n"
                                      "{\"tasks\":3}\n");
    buf_clear(&b);
    struct hello hello;
    struct fault f = {0};
    static const char hears[] = "{\"hello\":\"tenon\",\"stop\":true,\"chunks\":true}";
    static const char deaf[] = "{\"hello\":\"tenon\",\"stop\":1}";
    assert_ok(line_parse_hello(hears, strlen(hears), &hello, &f), &f);
    assert_true(hello.stop && hello.chunks);
    assert_ok(line_parse_hello(deaf, strlen(deaf), &hello, &f), &f);
    assert_false(hello.stop || hello.chunks);
}

/* A pool child may say later that it takes more, or fewer. */
static void test_in_flight(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"in_flight\":0}",
        "{\"in_flight\":1025}",
        "{\"in_flight\":\"x\"}",
    };
    struct event e;
    assert_true(parse("{\"in_flight\":1024}", &e));
    assert_int_equal(e.type, EVENT_CHILD_READY);
    assert_int_equal(e.room, 1024);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(parse(wrong[i], &e));
    }
}

static void test_replies(void **state)
{
    (void)state;
    struct event e;
    assert_true(parse("{\"id\":7,\"outcome\":\"done\"}", &e));
    assert_int_equal(e.id, 7);
    assert_int_equal(e.outcome, OUTCOME_DONE);
    assert_null(e.reply);
    assert_int_equal(e.delay_ms, -1);

    const char *big = "{\"id\":7,\"outcome\":\"done\",\"result\":{\"n\":12345678901234567890123}}";
    assert_true(parse(big, &e));
    assert_int_equal(e.id, 7);
    assert_string_equal(e.reply, "{\"result\":{\"n\":12345678901234567890123}}");
    free(e.reply);

    assert_true(parse("{\"id\":8,\"outcome\":\"failed\",\"error\":\"no\",\"delay_ms\":1500}", &e));
    assert_int_equal(e.outcome, OUTCOME_FAILED);
    assert_string_equal(e.error, "no");
    assert_int_equal(e.delay_ms, 1500);
    free(e.error);

    assert_true(parse("{\"id\":8,\"outcome\":\"snooze\"}", &e));
    assert_int_equal(e.outcome, OUTCOME_SNOOZE);
    assert_int_equal(e.delay_ms, SNOOZE_DELAY_MS);
    assert_true(parse("{\"id\":8,\"outcome\":\"dead\"}", &e));
    assert_int_equal(e.outcome, OUTCOME_DEAD);
}

/* Nobody can tell which task is meant. */
static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "x",
                                        "7",
                                        "null",
                                        "{\"outcome\":\"done\"}",
                                        "{\"id\":\"7\",\"outcome\":\"done\"}",
                                        "{\"id\":7,\"id\":8,\"outcome\":\"done\"}",
                                        "{\"id\":7,\"outcome\":\"done\"",
                                        "{\"id\":7,\"outcome\":\"done\",\"result\":tru}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct event e;
        assert_false(parse(lines[i], &e));
        assert_null(e.reply);
        assert_null(e.error);
    }
}

/* The task is told: it fails, and costs nobody else anything. */
static void test_bad_replies(void **state)
{
    (void)state;
    static const struct {
        const char *line, *error;
    } lines[] = {
        {"{\"id\":7}", "\"outcome\""},
        {"{\"id\":7,\"outcome\":\"ok\"}", "\"outcome\""},
        {"{\"id\":7,\"outcome\":null}", "\"outcome\""},
        {"{\"id\":7,\"in_flight\":8}", "\"outcome\""},
        {"{\"id\":7,\"outcome\":\"snooze\",\"delay_ms\":-1}", "\"delay_ms\""},
        {"{\"id\":7,\"outcome\":\"failed\",\"delay_ms\":0}", "\"delay_ms\""},
        {"{\"id\":7,\"outcome\":\"snooze\",\"delay_ms\":\"5\"}", "\"delay_ms\""},
        {"{\"id\":7,\"outcome\":\"snooze\",\"delay_ms\":99999999999}", "\"delay_ms\""},
        {"{\"id\":7,\"outcome\":\"wait_signal\"}", "\"signal\""},
        {"{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"\"}", "\"signal\""},
        {"{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"s\",\"timeout_ms\":0}",
         "\"timeout_ms\""},
        {"{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"s\",\"timeout_ms\":31536000001}",
         "\"timeout_ms\""},
        {"{\"id\":7,\"outcome\":\"wait_signal\",\"signal\":\"s\",\"timeout_ms\":\"1 d\"}",
         "\"timeout_ms\""}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct event e;
        assert_true(parse(lines[i].line, &e));
        assert_int_equal(e.type, EVENT_REPLY);
        assert_int_equal(e.id, 7);
        assert_int_equal(e.outcome, OUTCOME_FAILED);
        assert_int_equal(e.delay_ms, -1);
        assert_contains(e.error, "protocol error: ");
        assert_contains(e.error, lines[i].error);
        assert_null(e.signal);
        free(e.error);
    }
}

static struct event exec_outcome_bytes(int status, const char *out, size_t bytes, const char *err)
{
    struct child c = {0};
    struct event e = {0};
    buf_init(&c.output, RESULT_BYTES_MAX);
    buf_put(&c.output, out, bytes);
    c.tail_bytes = strlen(err);
    memcpy(c.tail, err, c.tail_bytes + 1);
    line_exec_outcome(&c, status, status < 0 ? "killed by signal 9 (Killed)" : "exit status", &e);
    buf_clear(&c.output);
    return e;
}

static struct event exec_outcome(int status, const char *out, const char *err)
{
    return exec_outcome_bytes(status, out, strlen(out), err);
}

static void assert_result(const char *out, const char *reply)
{
    struct event e = exec_outcome(0, out, "");
    assert_int_equal(e.outcome, OUTCOME_DONE);
    if (reply) {
        assert_string_equal(e.reply, reply);
    } else {
        assert_null(e.reply);
    }
    free(e.reply);
}

static void test_exec_results(void **state)
{
    (void)state;
    assert_result("", NULL);
    assert_result("\n", NULL);
    assert_result("{\"a\": 1.50}\n", "{\"result\":{\"a\": 1.50}}");
    assert_result("17", "{\"result\":17}");
    assert_result("two\nlines\n", "{\"result\":\"two\\nlines\"}");
    assert_result("\xff\xfe", "{\"result\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}");
}

static void test_a_result_with_a_nul_is_a_text(void **state)
{
    (void)state;
    struct event e = exec_outcome_bytes(0, "3\0x\n", 4, "");
    assert_int_equal(e.outcome, OUTCOME_DONE);
    assert_string_equal(e.reply, "{\"result\":\"3\xEF\xBF\xBDx\"}");
    free(e.reply);
}

static void test_exec_outcomes(void **state)
{
    (void)state;
    struct event e = exec_outcome(1, "", "boom\n");
    assert_int_equal(e.outcome, OUTCOME_FAILED);
    assert_string_equal(e.error, "exit status: boom");
    free(e.error);
    e = exec_outcome(EXIT_DEAD, "", "");
    assert_int_equal(e.outcome, OUTCOME_DEAD);
    free(e.error);
    e = exec_outcome(EXIT_SNOOZE, "", "");
    assert_int_equal(e.outcome, OUTCOME_SNOOZE);
    assert_int_equal(e.delay_ms, SNOOZE_DELAY_MS);
    free(e.error);
    e = exec_outcome(-1, "", "last \xff words");
    assert_int_equal(e.outcome, OUTCOME_FAILED);
    assert_string_equal(e.error, "killed by signal 9 (Killed): last \xEF\xBF\xBD words");
    free(e.error);
}

/* Beside each text what PostgreSQL makes of it: SELECT octet_length(text::jsonb::text). */
static void test_how_long_postgresql_prints_it(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"1", 1},
        {"-0.50", 5},
        {"1e5", 6},
        {"1E+5", 6},
        {"1e-5", 7},
        {"-12.345e1", 7},
        {"-12.345e4", 7},
        {"-12.345e-4", 10},
        {"12e-1", 3},
        {"[1e-16383]", 16387},
        {" [ 1 , 2 ] ", 6},
        {"{\"a\":[true,null],\"b\":\"1e9 , \\\" :\"}", 38},
        {"1e999999999999999999999", 1000001},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scanned v;
        assert_true(scan_value(cases[i].text, strlen(cases[i].text), &v));
        size_t bytes = v.printed;
        if (bytes < cases[i].bytes || (bytes != cases[i].bytes && bytes < 2000000)) {
            fail_msg("%s: %zu, not %zu", cases[i].text, bytes, cases[i].bytes);
        }
    }
}

static void test_a_result_that_prints_as_a_gigabyte_is_not_kept(void **state)
{
    (void)state;
    struct buf line;
    struct event e;
    buf_init(&line, LINE_BYTES_MAX);
    buf_put_text(&line, "{\"id\":7,\"outcome\":\"done\",\"result\":[0");
    for (int i = 0; i < 200; i++) {
        buf_put_text(&line, ",1e-16383");
    }
    buf_put_text(&line, "]}");
    assert_true(parse(buf_text(&line), &e));
    assert_int_equal(e.outcome, OUTCOME_DONE);
    assert_string_equal(e.reply, "{\"result\":\"tenon: the result was not kept, it is longer than "
                                 "2 MiB as text\"}");
    free(e.reply);
    buf_clear(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_line_copies_the_payload),
        cmocka_unit_test(test_environment_has_the_task_and_no_secret),
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_progress_lines),
        cmocka_unit_test(test_progress_has_a_limit),
        cmocka_unit_test(test_step_lines),
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_steps_of_a_task_line),
        cmocka_unit_test(test_stop_lines),
        cmocka_unit_test(test_starting_lines),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_bad_replies),
        cmocka_unit_test(test_exec_results),
        cmocka_unit_test(test_a_result_with_a_nul_is_a_text),
        cmocka_unit_test(test_exec_outcomes),
        cmocka_unit_test(test_how_long_postgresql_prints_it),
        cmocka_unit_test(test_a_result_that_prints_as_a_gigabyte_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
