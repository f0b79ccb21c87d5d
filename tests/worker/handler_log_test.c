/* label: e2e */
/* timeout: 180 */
/* Log lines of a pool child: the worker's log and tenon.log_line have them with their task, they
 * are bounded, and they fail no task. */
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LOG(value) "{\"id\":$ID,\"log\":" value "}"

/* All lines of all tasks; whether they are the argument. */
#define STORED                                                                                     \
    "SELECT x = '%s', x FROM (SELECT string_agg(concat_ws(' ', task_id, attempt, level, message, " \
    "fields), '|' ORDER BY id) AS x FROM tenon.log_line) y"

static struct process *start(struct fixture *fx, const char *level)
{
    char h[400];
    (void)snprintf(h, sizeof h,
                   "a=pool:exec /usr/bin/python3 %s/tests/support/handlers/answers.py pool",
                   repository);
    struct process *p = TENON(fx, "worker", "--slots", "1", "--log-level", level, "--handler", h);
    return p;
}

/* A task that says the lines of this SQL array before it ends. */
static void says(struct fixture *fx, const char *lines, const char *rest)
{
    (void)
        test_sql_int(fx,
                     "SELECT tenon.enqueue('a', jsonb_build_object('said', (SELECT "
                     "coalesce(jsonb_agg(jsonb_build_array(l)), '[]') FROM unnest(%s::text[]) l)) "
                     "|| '%s')",
                     lines, rest);
}

static void test_a_line_is_logged_with_its_task(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    static const char lines[] =
        "ARRAY['{\"id\":$ID,\"log\":{\"level\":\"warning\",\"message\":\"two words\","
        "\"fields\":{\"n\":1}}}',"
        "'{\"id\":$ID,\"log\":{\"level\":\"debug\",\"message\":\"unseen\"}}',"
        "'{\"id\":$ID,\"log\":7}']";
    says(fx, lines, "{}");
    await_done(fx, 1);
    process_await_line(p,
                       "event=handler_log task=1 kind=a attempt=1 message=\"two words\" "
                       "fields=\"{\\\"n\\\":1}\"",
                       LIMIT_MS);
    process_await_line(p, "event=handler_log task=1 kind=a attempt=1 message=7", LIMIT_MS);
    test_await(fx, LIMIT_MS, STORED, "1 1 warning two words {\"n\": 1}|1 1 info 7");
    assert_true(test_sql_bool(fx, "SELECT bool_and(l.at BETWEEN h.start_time AND clock_timestamp())"
                                  " FROM tenon.log_line l JOIN tenon.history h ON h.id = task_id"));
    assert_int_equal(process_lines(p, "unseen"), 0);
    assert_int_equal(process_lines(p, "event=task_done"), 0);
    end_well(p);
}

/* Bytes that are not UTF-8, NUL, half of a pair, numbers out of range: no line is lost for them. */
static void test_what_cannot_be_stored(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
#define ODD(text) "{\"id\":$ID,\"log\":{\"message\":\"<" text ">\",\"fields\":{\"n\":1e-20000}}}"
    says(fx, "ARRAY['" ODD("\u00ff\u00c3(") "', '" ODD("a\\u0000b") "', '" ODD("\\ud800") "']",
         "{\"latin\": true}");
#undef ODD
    await_done(fx, 1);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 3, string_agg(message, ' ') FROM tenon.log_line");
    assert_true(test_sql_bool(fx, "SELECT bool_and(message ~ U&'^<.*\\FFFD.*>$' AND fields IS NULL)"
                                  " FROM tenon.log_line"));
    assert_true(test_sql_bool(fx, "SELECT claims = 1 FROM tenon.history"));
    end_well(p);
}

/* Without lines there is no statement; one that fails is told once, and no task minds it. */
static void test_no_lines(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN RAISE 'no more lines' USING ERRCODE = 'disk_full'; END $$;"
                 "CREATE TRIGGER refuse BEFORE INSERT ON tenon.log_line"
                 " FOR EACH STATEMENT EXECUTE FUNCTION public.refuse()");
    struct process *p = start(fx, "info");
    says(fx, "'{}'", "{}");
    await_done(fx, 1);
    assert_int_equal(process_lines(p, "event=handler_log_failed"), 0);
    says(fx, "ARRAY['" LOG("{\"message\":\"waits\"}") "']", "{}");
    process_await_line(p, "event=handler_log_failed", LIMIT_MS);
    await_done(fx, 2);
    test_sql(fx, "DROP TRIGGER refuse ON tenon.log_line");
    test_await(fx, LIMIT_MS, STORED, "2 1 info waits");
    assert_int_equal(process_lines(p, "event=round_failed"), 0);
    assert_int_equal(process_lines(p, "event=handler_log_failed"), 1);
    end_well(p);
}

/* While others hold the table, tasks run as ever; a partition that is missing is made. */
static void test_the_table_is_locked(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "DROP TABLE tenon.log_line_1");
    struct process *p = start(fx, "info");
    sql_run(other, "BEGIN; LOCK TABLE tenon.log_line IN ACCESS EXCLUSIVE MODE");
    says(fx, "ARRAY['" LOG("{\"message\":\"waits\"}") "']", "{}");
    process_await_line(p, "event=handler_log_failed", LIMIT_MS);
    says(fx, "'{}'", "{}");
    await_done(fx, 2);
    sql_run(other, "COMMIT");
    test_await(fx, LIMIT_MS, STORED, "1 1 info waits");
    PQfinish(other);
    end_well(p);
}

/* The last lines on stderr of an attempt that fails are kept with it, if its child has no other
 * task; those of a task that is done are not. */
static void test_what_a_failing_attempt_prints(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    static const char failed[] = "{\"err\": \"one\\ntwo \\u00ff\\n\", \"line\": "
                                 "[\"{\\\"id\\\":$ID,\\\"outcome\\\":\\\"dead\\\"}\"]}";
    says(fx, "'{}'", "{\"err\": \"unseen\\n\"}");
    await_done(fx, 1);
    says(fx, "ARRAY['" LOG("{\"message\":\"logged\"}") "']", failed);
    test_await(fx, LIMIT_MS, STORED,
               "2 1 info logged|2 1 info one {\"stream\": \"stderr\"}|"
               "2 1 info two \uFFFD {\"stream\": \"stderr\"}");
    process_await_line(p, "event=handler_log task=2 kind=a attempt=1 message=one", LIMIT_MS);
    assert_int_equal(process_lines(p, "unseen"), 0);
    test_sql(fx, "SELECT tenon.enqueue('a', jsonb_build_object('said', '[]'::jsonb, 'line', "
                 "jsonb_build_array('{\"id\":$ID,\"outcome\":\"dead\"}'), 'err', "
                 "(SELECT string_agg('line ' || n, E'\\n') FROM generate_series(1, 2000) n)))");
    test_await(fx, LIMIT_MS,
               "SELECT max(message) = 'line 2000' AND min(message) LIKE 'line 1___' AND"
               " sum(length(message)) BETWEEN 3500 AND 4096, count(*)"
               " FROM tenon.log_line WHERE task_id = 3");
    end_well(p);
}

/* The same for an attempt that runs into its time limit, and for one whose child dies. */
static void test_what_a_stopped_attempt_prints(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    char fifo[300], waits[400];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", fx->dir);
    (void)snprintf(waits, sizeof waits, "{\"err\": \"slow\\n\", \"until\": \"%s\"}", fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    test_sql(fx, "SELECT tenon.set_kind('a', timeout => '500 ms')");
    says(fx, "ARRAY['" LOG("{\"message\":\"logged\"}") "']", waits);
    process_await_line(p, "event=task_timed_out task=1", LIMIT_MS);
    test_await(fx, LIMIT_MS, STORED, "1 1 info logged|1 1 info slow {\"stream\": \"stderr\"}");
    assert_int_equal(process_lines(p, "event=handler_log task=1 kind=a attempt=1 message=slow"), 1);
    test_sql(fx, "DELETE FROM tenon.log_line; DELETE FROM tenon.task");
    says(fx, "'{}'", "{\"kill\": true, \"err\": \"killed\\n\"}");
    test_await(fx, LIMIT_MS, STORED, "2 1 info killed {\"stream\": \"stderr\"}");
    end_well(p);
}

/* --log-stderr: each line, with its task. */
static void test_stderr_in_the_log(void **state)
{
    struct fixture *fx = *state;
    char h[400];
    (void)snprintf(h, sizeof h,
                   "a=pool:exec /usr/bin/python3 %s/tests/support/handlers/answers.py pool",
                   repository);
    struct process *p = TENON(fx, "worker", "--slots", "2", "--log-stderr", "--handler", h,
                              "--handler", "b=echo 'as exec' >&2; printf 'no newline' >&2");
    says(fx, "'{}'", "{\"err\": \"two words\\n\"}");
    test_sql(fx, "SELECT tenon.enqueue('b')");
    process_await_line(p, "event=handler_stderr task=1 kind=a attempt=1 text=\"two words\"",
                       LIMIT_MS);
    process_await_line(p, "event=handler_stderr task=2 kind=b attempt=1 text=\"as exec\"",
                       LIMIT_MS);
    process_await_line(p, "event=handler_stderr task=2 kind=b attempt=1 text=\"no newline\"",
                       LIMIT_MS);
    await_done(fx, 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.log_line"), 0);
    end_well(p);
}

/* What waits is written when the worker ends, also more than one statement takes; with log_keep = 0
 * nothing is. */
static void test_the_end_of_a_worker(void **state)
{
    struct fixture *fx = *state;
    struct process *flood = start(fx, "info");
    for (int i = 0; i < 4; i++) {
        says(fx, "array_fill('" LOG("{\"message\":\"flood\"}") "'::text, ARRAY[1000])", "{}");
    }
    await_done(fx, 4);
    end_well(flood);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.log_line"), 4000);
    test_sql(fx, "DELETE FROM tenon.log_line; DELETE FROM tenon.history");
    for (int i = 1; i <= 2; i++) {
        struct process *p = start(fx, "info");
        says(fx, "ARRAY['" LOG("{\"message\":\"last\"}") "']", "{}");
        await_done(fx, i);
        end_well(p);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.log_line"), 1);
        test_sql(fx, "SELECT tenon.set_settings('{\"log_keep\": \"0\"}')");
    }
}

/* At level debug there is a line for each task that is done. */
static void test_a_done_task_is_logged(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "debug");
    says(fx, "'{}'", "{}");
    process_await_line(p, "event=task_done task=1 text=\"a attempt 1: ", LIMIT_MS);
    assert_int_equal(process_lines(p, "level=debug"), 1);
    end_well(p);
}

static void test_a_flood_is_bounded(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    says(fx, "array_fill('" LOG("{\"message\":\"flood\"}") "'::text, ARRAY[3000])", "{}");
    says(fx, "array_fill('" LOG("{\"message\":\"after\"}") "'::text, ARRAY[1])", "{}");
    await_done(fx, 2);
    process_await_line(p, "message=after", LIMIT_MS);
    assert_int_equal(process_lines(p, "message=flood"), 1000);
    assert_int_equal(process_lines(p, "event=handler_log_full task=1 kind=a attempt=1"), 1);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1002, count(*) FROM tenon.log_line");
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1001 AND max(id) = 1001 AND"
                                  " (array_agg(message ORDER BY id DESC))[1] ~ 'is left out'"
                                  " FROM tenon.log_line WHERE task_id = 1"));
    end_well(p);
}

/* Of a line above 2 MiB the message is lost, and not the task; a line of a task that has been
 * answered is dropped. The child survives both. */
static void test_long_and_late_lines(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    (void)test_sql_int(fx, "SELECT tenon.enqueue('a', jsonb_build_object('said', "
                           "jsonb_build_array(jsonb_build_array('{\"id\":$ID,\"log\":"
                           "{\"message\":\"', '[\"x\", 3000000]'::jsonb, '\"}}'))))");
    says(fx, "ARRAY['{\"id\":$ID,\"outcome\":\"done\"}']",
         "{\"line\": [\"{\\\"id\\\":$ID,\\\"log\\\":{\\\"message\\\":\\\"late\\\"}}\"]}");
    says(fx, "'{}'", "{}");
    await_done(fx, 3);
    assert_true(test_sql_bool(fx, "SELECT bool_and(claims = 1) FROM tenon.history"));
    assert_int_equal(process_lines(p, "event=handler_log task=1"), 1);
    assert_int_equal(process_lines(p, "message=late"), 0);
    end_well(p);
}

/* What the child wrote before kill -9 is read, and each attempt has its own lines. */
static void test_a_child_that_is_killed(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    says(fx, "ARRAY['" LOG("{\"message\":\"last words\"}") "']", "{\"kill\": true}");
    await_done(fx, 1);
    process_await_line(p, "attempt=1 message=\"last words\"", LIMIT_MS);
    process_await_line(p, "attempt=2 message=\"last words\"", LIMIT_MS);
    test_await(fx, LIMIT_MS, STORED, "1 1 info last words|1 2 info last words");
    end_well(p);
}

/* Of an attempt whose worker is killed, the lines are kept that were stored before. */
static void test_a_worker_that_is_killed(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "info");
    char fifo[300], waits[400];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", fx->dir);
    (void)snprintf(waits, sizeof waits, "{\"until\": \"%s\"}", fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    says(fx, "ARRAY['" LOG("{\"message\":\"came\"}") "']", waits);
    test_await(fx, LIMIT_MS, STORED, "1 1 info came");
    process_kill(p);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 FROM tenon.log_line"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_line_is_logged_with_its_task),
        WITH_DATABASE(test_what_cannot_be_stored),
        WITH_DATABASE(test_no_lines),
        WITH_DATABASE(test_the_table_is_locked),
        WITH_DATABASE(test_what_a_failing_attempt_prints),
        WITH_DATABASE(test_what_a_stopped_attempt_prints),
        WITH_DATABASE(test_stderr_in_the_log),
        WITH_DATABASE(test_the_end_of_a_worker),
        WITH_DATABASE(test_a_done_task_is_logged),
        WITH_DATABASE(test_a_flood_is_bounded),
        WITH_DATABASE(test_long_and_late_lines),
        WITH_DATABASE(test_a_child_that_is_killed),
        WITH_DATABASE(test_a_worker_that_is_killed),
    };
    return RUN_GROUP(tests);
}
