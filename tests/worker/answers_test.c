/* label: unit */
/* tests/answers.json, as lines of a pool child and as what an exec handler prints. */
#include "tests/support/answers.h"
#include "worker/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(const char *line, struct event *event)
{
    struct fault f = {0};
    *event = (struct event){0};
    return line_parse(line, strlen(line), event, &f);
}

static struct event exec_outcome(const char *out)
{
    struct child c = {0};
    struct event e = {0};
    buf_init(&c.output, RESULT_BYTES_MAX);
    buf_put_text(&c.output, out);
    line_exec_outcome(&c, EXIT_DONE, "exit status 0", &e);
    buf_clear(&c.output);
    return e;
}

static const char *comes_of(const struct event *e)
{
    return e->outcome == OUTCOME_DONE     ? "done"
           : e->outcome == OUTCOME_FAILED ? "failed"
           : e->outcome == OUTCOME_DEAD   ? "dead"
                                          : "snooze";
}

static void test_lines_of_the_table(void **state)
{
    json_t *lines = answers_read("lines");
    const json_t *answer;
    size_t i;
    (void)state;
    json_array_foreach(lines, i, answer)
    {
        char *line = answers_text(json_object_get(answer, "line"), 7);
        const char *comes = answers_word(answer, "comes"), *error = answers_word(answer, "error");
        struct event e;
        if (strlen(line) > LINE_BYTES_MAX) {
            line[LINE_BYTES_MAX + 1] = '\0'; /* as it comes in */
        }
        bool ok = parse(line, &e);
        if (strcmp(ok ? comes_of(&e) : "ends", comes) != 0 || (ok && e.id != 7)) {
            fail_msg("%s: %s", answers_word(answer, "name"), ok ? comes_of(&e) : "ends");
        }
        if (error) {
            assert_contains(e.error, error);
        }
        free(e.reply);
        free(e.error);
        free(e.signal);
        free(line);
    }
    json_decref(lines);
}

static const char *kind_of_reply(const char *reply, const char *text)
{
    struct buf kept, string;
    bool marked = strncmp(text, "\xEF\xBB\xBF", 3) == 0;
    buf_init(&kept, 8 << 20);
    buf_init(&string, 8 << 20);
    text += marked ? 3 : 0;
    text += strspn(text, " ");
    buf_put_text(&kept, "{\"result\":");
    buf_put_text(&kept, text);
    while (kept.data[kept.len - 1] == ' ') {
        kept.len--;
    }
    buf_put_char(&kept, '}');
    buf_put_text(&string, "{\"result\":");
    buf_put_json(&string, text, strlen(text));
    buf_put_char(&string, '}');
    const char *kind = strcmp(reply, kept.data) == 0                     ? "kept"
                       : strcmp(reply, string.data) == 0                 ? "text"
                       : strstr(reply, "tenon: the result was not kept") ? "note"
                                                                         : reply;
    buf_clear(&kept);
    buf_clear(&string);
    return kind;
}

static void test_results_of_the_table(void **state)
{
    json_t *results = answers_read("results");
    const json_t *answer;
    size_t i;
    (void)state;
    json_array_foreach(results, i, answer)
    {
        char *text = answers_text(json_object_get(answer, "text"), 7);
        struct event e = exec_outcome(text);
        if (strcmp(kind_of_reply(e.reply, text), answers_word(answer, "exec")) != 0) {
            fail_msg("exec, %s: %.200s", answers_word(answer, "name"), e.reply);
        }
        free(e.reply);
        struct buf line;
        buf_init(&line, 8 << 20);
        buf_printf(&line, "{\"id\":7,\"outcome\":\"done\",\"result\":%s}", text);
        bool ok = parse(buf_text(&line), &e);
        const char *kind = ok ? kind_of_reply(e.reply, text) : "ends";
        if (strcmp(kind, answers_word(answer, "pool")) != 0) {
            fail_msg("pool, %s: %.200s", answers_word(answer, "name"), ok ? e.reply : "ends");
        }
        free(e.reply);
        buf_clear(&line);
        free(text);
    }
    json_decref(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_the_table),
        cmocka_unit_test(test_results_of_the_table),
    };
    return RUN_GROUP(tests);
}
