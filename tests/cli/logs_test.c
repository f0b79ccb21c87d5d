/* label: e2e */
/* tenon logs, and the last lines in tenon show. */
#include "tests/support/held.h"
#include "tests/support/working.h"

#include <stdlib.h>
#include <string.h>

/* A running task, and so many lines of it. */
static void make_lines(struct fixture *fx, struct held *c, int n)
{
    held_new(fx, c);
    test_sql(fx,
             "INSERT INTO tenon.log_line (task_id, attempt, level, message, fields)"
             " SELECT %lld, 1 + n / 3, (ARRAY['info', 'warning', 'debug'])[1 + n %% 3],"
             " 'line ' || n, CASE n WHEN 2 THEN '{\"a\": \"b\\n\"}'::jsonb END"
             " FROM generate_series(1, %d) n",
             (long long)c->id, n);
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

static void assert_prints(char *out, size_t n, const char *first, const char *last)
{
    assert_int_equal(lines_of(out), n);
    assert_contains(out, first);
    char *end = strrchr(out, '\n');
    if (end) {
        *end = '\0';
        assert_contains(strrchr(out, '\n') ? strrchr(out, '\n') : out, last);
    }
    free(out);
}

static void test_logs(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    make_lines(fx, &c, 4);
    assert_prints(TENON_RUN(fx, 0, "logs", "1"), 4,
                  "  attempt 1  debug    line 2  {\"a\": \"b\\n\"}\n",
                  "  attempt 2  warning  line 4");
    assert_prints(TENON_RUN(fx, 0, "logs", "1", "--level", "info"), 3, "line 1", "line 4");
    assert_prints(TENON_RUN(fx, 0, "logs", "1", "--level", "warning"), 2, "line 1", "line 4");
    assert_prints(TENON_RUN(fx, 0, "logs", "1", "--level", "error"), 0, "", "");
    assert_prints(TENON_RUN(fx, 0, "logs", "1", "--json"), 4,
                  "\"attempt\" : 1, \"level\" : \"warning\"",
                  "\"message\" : \"line 4\", \"fields\" : null}");
    assert_prints(TENON_RUN(fx, 1, "logs", "2"), 0, "", "");
    assert_prints(TENON_RUN(fx, 2, "logs", "x"), 0, "", "");
}

/* More than one statement reads; also of a task whose row is gone. */
static void test_many_lines(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    make_lines(fx, &c, 2500);
    test_sql(fx, "DELETE FROM tenon.task");
    assert_prints(TENON_RUN(fx, 0, "logs", "1"), 2500, "line 1", "line 2500");
}

static void test_show_has_the_last_lines(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    make_lines(fx, &c, 12);
    char *out = TENON_RUN(fx, 0, "show", "1");
    assert_contains(out, "info line 3\n");
    assert_contains(out, "log, attempt 5 ");
    assert_null(strstr(out, "line 2 "));
    free(out);
}

/* It prints new lines until the task has ended. */
static void test_follow(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    make_lines(fx, &c, 1);
    struct process *p = TENON(fx, "logs", "1", "--follow");
    memcpy(p->log, p->out, sizeof p->log); /* what it prints is awaited */
    process_await_line(p, "line 1", LIMIT_MS);
    test_sql(fx, "INSERT INTO tenon.log_line (task_id, attempt, level, message)"
                 " VALUES (1, 1, 'info', 'line 2')");
    process_await_line(p, "line 2", LIMIT_MS);
    free(held_requeue(fx, &c, "failed", NULL, "0"));
    assert_true(held_take(fx, c.worker, c.id, &c));
    free(held_requeue(fx, &c, "dead", NULL, NULL));
    test_sql(fx, "INSERT INTO tenon.log_line (task_id, attempt, level, message)"
                 " VALUES (1, 2, 'info', 'the last')");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "the last"), 1);
    assert_int_equal(process_lines(p, "line 1"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_logs),
        WITH_DATABASE(test_many_lines),
        WITH_DATABASE(test_show_has_the_last_lines),
        WITH_DATABASE(test_follow),
    };
    return RUN_GROUP(tests);
}
