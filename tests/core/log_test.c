/* label: unit */
#include "tests/support/test.h"

#include "core/base/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static char captured[64 * 1024];
static int real_stderr, capture_fd;

static void capture_begin(void)
{
    FILE *file = tmpfile();
    real_stderr = dup(STDERR_FILENO);
    capture_fd = dup(fileno(file));
    (void)fclose(file);
    (void)dup2(capture_fd, STDERR_FILENO);
}

static void capture_end(void)
{
    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    ssize_t n = pread(capture_fd, captured, sizeof captured - 1, 0);
    (void)close(capture_fd);
    assert_true(n >= 0);
    captured[n] = '\0';
}

/* What was logged must be one line. */
static void is_one_line(void)
{
    size_t len = strlen(captured);
    assert_true(len > 0);
    assert_ptr_equal(strchr(captured, '\n'), captured + len - 1);
    captured[len - 1] = '\0';
}

/* One logfmt line as a JSON object of texts; the test's own reader. */
static json_t *logfmt_parse(const char *line)
{
    json_t *fields = json_object();
    while (*line) {
        char key[64], value[LOG_LINE_BYTES_MAX];
        size_t len = strcspn(line, "=");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, line);
        line += len;
        assert_int_equal(*line, '=');
        line++;
        json_error_t error;
        json_t *text;
        if (*line == '"') {
            text = json_loads(line, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);
            assert_non_null(text);
            line += error.position;
        } else {
            len = strcspn(line, " ");
            (void)snprintf(value, sizeof value, "%.*s", (int)len, line);
            text = json_string(value);
            line += len;
        }
        (void)json_object_set_new(fields, key, text);
        assert_true(*line == ' ' || *line == '\0');
        line += *line == ' ' ? 1 : 0;
    }
    return fields;
}

static json_t *parse(enum log_format format)
{
    is_one_line();
    json_t *fields = format == LOG_FORMAT_JSON ? json_loads(captured, 0, NULL)
                                               : logfmt_parse(captured);
    assert_true(json_is_object(fields));
    return fields;
}

static void has(const json_t *fields, const char *key, const char *value)
{
    const json_t *field = json_object_get(fields, key);
    char number[32];
    if (json_is_integer(field)) {
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(field));
        assert_string_equal(number, value);
        return;
    }
    assert_non_null(field);
    assert_string_equal(json_string_value(field), value);
}

static void both_formats(void (*test)(enum log_format))
{
    test(LOG_FORMAT_LOGFMT);
    test(LOG_FORMAT_JSON);
}

static void fields_come_back(enum log_format format)
{
    static const char nasty[] = "a b=\"c\"\n\t\\ level=error \x1B[31m\x7F \x01";
    log_setup("worker", LOG_INFO, format);
    capture_begin();
    log_event(LOG_WARNING, LOG_EVENT("task_done"), LOG_NUM("task", INT64_MIN),
              LOG_TEXT("plain", "mail"), LOG_TEXT("empty", ""), LOG_TEXT("nasty", nasty),
              LOG_TEXT("utf8", "h\xC3\xA9"), LOG_TEXT("none", NULL));
    capture_end();
    json_t *fields = parse(format);
    has(fields, "level", "warning");
    has(fields, "prog", "worker");
    has(fields, "event", "task_done");
    has(fields, "task", "-9223372036854775808");
    has(fields, "plain", "mail");
    has(fields, "empty", "");
    has(fields, "nasty", nasty);
    has(fields, "utf8", "h\xC3\xA9");
    assert_null(json_object_get(fields, "none"));
    assert_int_equal(strlen(json_string_value(json_object_get(fields, "ts"))), 24);
    json_decref(fields);
}

static void test_fields_come_back(void **state)
{
    (void)state;
    both_formats(fields_come_back);
}

static void no_raw_controls(enum log_format format)
{
    char text[257] = "";
    for (int c = 1; c < 256; c++) {
        text[c - 1] = (char)c;
    }
    log_setup("worker", LOG_INFO, format);
    capture_begin();
    log_event(LOG_INFO, LOG_EVENT("x"), LOG_TEXT("text", text));
    capture_end();
    json_decref(parse(format));
    for (const char *c = captured; *c; c++) {
        assert_true((unsigned char)*c >= ' ' && *c != 0x7F);
    }
}

static void test_no_raw_controls(void **state)
{
    (void)state;
    both_formats(no_raw_controls);
}

/* A long text is cut; the line and its other fields are not lost. */
static void long_text_is_cut(enum log_format format)
{
    static char text[3 * LOG_LINE_BYTES_MAX];
    static const char fill[] = {'x', '\x01', '\xFF'};
    for (size_t i = 0; i < sizeof fill; i++) {
        memset(text, fill[i], sizeof text - 1);
        log_setup("worker", LOG_INFO, format);
        capture_begin();
        log_event(LOG_ERROR, LOG_EVENT("handler_failed"), LOG_TEXT("error", text),
                  LOG_NUM("task", 7));
        capture_end();
        assert_true(strlen(captured) <= LOG_LINE_BYTES_MAX);
        json_t *fields = parse(format);
        has(fields, "event", "handler_failed");
        has(fields, "task", "7");
        assert_true(strlen(json_string_value(json_object_get(fields, "error"))) > 500);
        json_decref(fields);
    }
}

static void test_long_text_is_cut(void **state)
{
    (void)state;
    both_formats(long_text_is_cut);
}

static void test_levels(void **state)
{
    (void)state;
    log_setup("worker", LOG_WARNING, LOG_FORMAT_LOGFMT);
    assert_true(log_enabled(LOG_WARNING));
    assert_false(log_enabled(LOG_INFO));
    capture_begin();
    log_event(LOG_INFO, LOG_EVENT("quiet"));
    capture_end();
    assert_string_equal(captured, "");
}

static void test_fault(void **state)
{
    (void)state;
    struct fault f = {0};
    (void)fault_set(&f, FAULT_ROW, "value \"x\" is bad");
    (void)snprintf(f.sqlstate, sizeof f.sqlstate, "22P02");
    log_setup("cleaner", LOG_INFO, LOG_FORMAT_JSON);
    capture_begin();
    log_fault(LOG_ERROR, "chore_failed", &f);
    capture_end();
    json_t *fields = parse(LOG_FORMAT_JSON);
    has(fields, "event", "chore_failed");
    has(fields, "fault", "row");
    has(fields, "sqlstate", "22P02");
    has(fields, "error", "value \"x\" is bad");
    json_decref(fields);
}

/* Lines that a full pipe does not take are dropped and counted; one of two pages may be cut. */
static void test_a_full_pipe_blocks_nobody(void **state)
{
    (void)state;
    char long_text[LOG_LINE_BYTES_MAX / 2 + 1000], page[4096];
    int pipe_fds[2], n = 0;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    log_setup("test", LOG_INFO, LOG_FORMAT_JSON);
    assert_int_equal(pipe(pipe_fds), 0);
    real_stderr = dup(STDERR_FILENO);
    (void)dup2(pipe_fds[1], STDERR_FILENO);
    for (; n < 1000; n++) {
        log_event(LOG_INFO, LOG_EVENT("nobody_reads"), LOG_TEXT("text", long_text));
    }
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    (void)fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    while (read(pipe_fds[0], page, sizeof page) > 0) {
    }
    log_event(LOG_INFO, LOG_EVENT("read_again"));
    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    ssize_t bytes = read(pipe_fds[0], page, sizeof page - 1);
    page[bytes > 0 ? bytes : 0] = '\0';
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    assert_int_equal(flags & O_NONBLOCK, 0); /* others share it */
    const char *line = *page == '\n' ? page + 1 : page, *count = strstr(line, "count\":");
    assert_contains(line, "log_lines_dropped");
    assert_non_null(count);
    assert_in_range(strtol(count + 7, NULL, 10), 980, 999);
    assert_contains(strchr(line, '\n'), "read_again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_come_back),
        cmocka_unit_test(test_no_raw_controls),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_a_full_pipe_blocks_nobody),
    };
    return RUN_GROUP(tests);
}
