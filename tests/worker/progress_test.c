/* label: e2e */
/* timeout: 180 */
/* only: all */
/* What a handler said last of its task is given to the next attempt, whatever ended this one; a
 * long task extends its deadline; a child that hears stop is told of a cancel and of a drain. */
#include "core/base/now.h"
#include "tests/support/working.h"
#include "worker/decide/writes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct process *start(struct fixture *fx)
{
    char h[256], told[300];
    (void)snprintf(told, sizeof told, "TEST_TOLD=%s/told", fx->dir);
    const char *const args[] = {
        "worker", "--slots", "1", "--handler", handler(h, "a=pool:exec %s", "teller"), NULL};
    const char *const env[] = {told, NULL};
    return tenon_spawn(fx, args, env);
}

static char *told(struct fixture *fx)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/told", fx->dir);
    return file_text(path);
}

static int64_t enqueue(struct fixture *fx, const char *rest)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('a', %s)", rest);
}

static void await_state(struct fixture *fx, int64_t id, const char *state)
{
    test_await(fx, LIMIT_MS, "SELECT state = '%s', t.* FROM tenon.tasks t WHERE id = %lld", state,
               (long long)id);
}

/* Until the row says so. */
static void await_progress(struct fixture *fx, int64_t id, int n)
{
    test_await(fx, LIMIT_MS,
               "SELECT (progress->>'n')::integer >= %d, progress FROM tenon.task WHERE id = %lld",
               n, (long long)id);
}

static int64_t progress_of(struct fixture *fx, int64_t id)
{
    return test_sql_int(fx, "SELECT progress->>'n' FROM tenon.task WHERE id = %lld", (long long)id);
}

static int64_t began_at(struct fixture *fx, int64_t id)
{
    return test_sql_int(fx, "SELECT result->>'from' FROM tenon.history WHERE id = %lld",
                        (long long)id);
}

static void run_now(struct fixture *fx, int64_t id)
{
    test_sql(fx, "UPDATE tenon.task SET run_at = now() WHERE id = %lld AND start_time IS NULL",
             (long long)id);
}

/* Its worker dies between progress and end: the next attempt begins where the row is. */
static void test_a_worker_that_is_killed(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    int64_t id = enqueue(fx, "'{\"to\": 100, \"ms\": 50}'"); /* 5 s */
    await_progress(fx, id, 10);
    process_kill(p);
    int64_t kept = progress_of(fx, id);
    assert_true(kept >= 10);
    recover_at_once(fx);
    p = start(fx);
    await_state(fx, id, "done");
    assert_int_equal(began_at(fx, id), kept);
    assert_true(test_sql_bool(fx, "SELECT crashes = 1 AND failures = 0 FROM tenon.history"));
    end_well(p);
}

/* The child's last word is read, and written before its failure is. */
static void test_a_child_that_dies(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    static const char *const ends[] = {"crash", "fail"};
    for (size_t i = 0; i < 2; i++) {
        char payload[96];
        (void)snprintf(payload, sizeof payload, "'{\"to\": %d, \"end\": \"%s\"}'", 1000, ends[i]);
        int64_t id = enqueue(fx, payload);
        await_state(fx, id, "retrying");
        assert_int_equal(progress_of(fx, id), 1000);
        char command[160];
        (void)snprintf(command, sizeof command, "%lld", (long long)id);
        char *shown = TENON_RUN(fx, 0, "show", command);
        assert_contains(shown, "{\"n\": 1000}");
        free(shown);
        run_now(fx, id);
        await_state(fx, id, "done");
        assert_int_equal(began_at(fx, id), 1000);
    }
    end_well(p);
}

/* As many lines as it can write, for some seconds: a write a second. */
static void test_a_flood_of_lines(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "CREATE TABLE public.written (n bigint);"
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.written VALUES ((NEW.progress->>'n')::bigint); RETURN NULL; END $$;"
        "CREATE TRIGGER note AFTER UPDATE OF progress ON tenon.task FOR EACH ROW"
        " EXECUTE FUNCTION public.note()");
    struct process *p = start(fx);
    int64_t id = enqueue(fx, "'{\"to\": 100000, \"end\": \"fail\"}'");
    await_state(fx, id, "running");
    int64_t since_ms = now_ms();
    await_state(fx, id, "retrying");
    int64_t took_ms = now_ms() - since_ms;
    assert_int_equal(progress_of(fx, id), 100000); /* the last */
    int64_t n = test_sql_int(fx, "SELECT count(*) FROM public.written");
    print_message("100,000 lines in %lld ms were written %lld times\n", (long long)took_ms,
                  (long long)n);
    assert_in_range(n, 1, 3 + took_ms / PROGRESS_EVERY_MS);
    end_well(p);
}

/* A second is not enough for 3 s of work, but those who ask get more, by a line or by SQL. */
static void test_more_time(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    int64_t by_line =
        enqueue(fx, "'{\"to\": 30, \"ms\": 100, \"extend_ms\": 60000}', timeout => '1 s'");
    int64_t by_sql =
        enqueue(fx, "'{\"to\": 30, \"ms\": 100, \"extend\": \"1 min\"}', timeout => '1 s'");
    await_state(fx, by_line, "running");
    /* and its row says so as well, for the cleaner */
    test_await(fx, LIMIT_MS,
               "SELECT timeout_ms >= 60000, timeout_ms FROM tenon.task WHERE id = %lld",
               (long long)by_line);
    await_state(fx, by_line, "done");
    await_state(fx, by_sql, "done");
    int64_t neither = enqueue(fx, "'{\"to\": 30, \"ms\": 100}', timeout => '1 s'");
    await_state(fx, neither, "retrying");
    assert_true(
        test_sql_bool(fx,
                      "SELECT last_error LIKE 'timed out after 1000 ms%%' AND progress IS NOT NULL"
                      " FROM tenon.task WHERE id = %lld",
                      (long long)neither));
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(failures = 0 AND crashes = 0) FROM tenon.history"));
    end_well(p);
}

static void test_more_time_than_there_is(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    int64_t id =
        enqueue(fx, "'{\"to\": 3, \"ms\": 100, \"extend_ms\": 2592000001}', max_attempts => 1");
    process_await_line(p, "event=progress_refused", LIMIT_MS);
    await_state(fx, id, "done");
    end_well(p);
}

/* It stops by itself, and goes on with the next task in the same process. */
static void test_stop_at_a_cancel(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    int64_t id = enqueue(fx, "'{\"to\": 1000, \"ms\": 100, \"stop\": \"interrupted\"}'");
    await_progress(fx, id, 1);
    int64_t before = enqueue(fx, "'{}'"), after;
    (void)before;
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    await_state(fx, before, "done");
    process_await_line(p, "event=claim_lost", LIMIT_MS);
    char want[64], *got = told(fx);
    (void)snprintf(want, sizeof want, "{\"stop\":%lld,\"why\":\"cancelled\"}\n", (long long)id);
    assert_string_equal(got, want);
    free(got);
    /* who does not obey is stopped, as before */
    id = enqueue(fx, "'{\"to\": 1000, \"ms\": 100, \"stop\": \"deaf\"}'");
    await_progress(fx, id, 1);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    after = enqueue(fx, "'{}'");
    await_state(fx, after, "done");
    assert_true(test_sql_bool(fx,
                              "SELECT count(DISTINCT result->'pid') = 2 FROM tenon.history"
                              " WHERE id IN (%lld, %lld)",
                              (long long)before, (long long)after));
    end_well(p);
}

/* What a drain interrupts is ready at once, uncharged, with its progress. */
static void test_stop_at_a_drain(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx);
    int64_t id = enqueue(fx, "'{\"to\": 1000, \"ms\": 20, \"stop\": \"interrupted\"}'");
    await_progress(fx, id, 2);
    end_well(p); /* in time: it would take 20 s */
    char *got = told(fx);
    assert_string_equal(got, "{\"stop\":null,\"why\":\"drain\"}\n");
    free(got);
    assert_true(test_sql_bool(
        fx, "SELECT state = 'ready' AND attempt = 0 AND failures = 0 AND crashes = 0 AND claims = 1"
            " AND last_error IS NULL FROM tenon.tasks"));
    int64_t kept = progress_of(fx, id);
    test_sql(fx, "UPDATE tenon.task SET payload = payload || '{\"ms\": 0}'");
    p = start(fx);
    await_state(fx, id, "done");
    assert_int_equal(began_at(fx, id), kept);
    end_well(p);
}

/* An exec handler gets it as a variable, and may say it by SQL. */
static void test_exec(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(
        fx, "worker", "--pass-env", "DATABASE_URL", "--handler",
        "a=if [ -n \"$TENON_TASK_PROGRESS\" ]; then echo \"$TENON_TASK_PROGRESS\"; else"
        " psql -qXc \""
        "SELECT tenon.progress('$TENON_TASK_CLAIM', '{\\\"n\\\": 7}')\" \"$DATABASE_URL\" >&2;"
        " exit 1; fi");
    int64_t id = enqueue(fx, "'{}'");
    await_state(fx, id, "retrying");
    assert_int_equal(progress_of(fx, id), 7);
    run_now(fx, id);
    await_state(fx, id, "done");
    assert_true(test_sql_bool(fx, "SELECT result = '{\"n\": 7}' FROM tenon.history"));
    end_well(p);
}

/* By hand, without servers: what it says is printed. */
static void test_run_one(void **state)
{
    struct fixture *fx = *state;
    char h[256], path[300], *log;
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("{\"to\": 2, \"ms\": 1, \"extend_ms\": 7}", file);
    (void)fclose(file);
    struct process *p = TENON(fx, "worker", "--handler", handler(h, "a=pool:exec %s", "teller"),
                              "--run-one", "a", path);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    log = file_text(p->log);
    assert_string_equal(log, "more time is asked for\n{\"progress\":{\"n\":1}}\n"
                             "{\"progress\":{\"n\":2}}\n");
    free(log);
}

/* --- examples/checkpoint.py --- */

static struct process *start_example(struct fixture *fx)
{
    char items[300], h[768];
    (void)snprintf(items, sizeof items, "ITEMS=%s/items", fx->dir);
    (void)snprintf(h, sizeof h, "import=pool:echo $$ >%s/pid; exec '%s/examples/checkpoint.py'",
                   fx->dir, repository);
    const char *const args[] = {"worker", "--slots", "1", "--handler", h, NULL};
    const char *const env[] = {items, "ITEM_S=0.03", NULL};
    return tenon_spawn(fx, args, env);
}

static void await_items(struct fixture *fx, int64_t id, int done)
{
    test_await(
        fx, LIMIT_MS,
        "SELECT (progress->>'done')::integer >= %d, progress FROM tenon.task WHERE id = %lld", done,
        (long long)id);
}

static void kill_child(struct fixture *fx)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/pid", fx->dir);
    char *text = file_text(path);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
    free(text);
}

/* Each item was done, and the same one again only by the attempt after a kill. */
static void check_items(struct fixture *fx, long n, int kills)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/items", fx->dir);
    char *text = file_text(path), *at = text;
    long next = 0;
    int back = 0;
    while (*at) {
        long item = strtol(at, &at, 10);
        assert_true(item <= next); /* none was left out */
        back += item < next;
        next = item + 1;
        at += *at == '\n';
    }
    assert_int_equal(next, n);
    assert_true(back <= kills);
    free(text);
}

static void test_the_example_under_kill(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start_example(fx);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('import', '{\"items\": 200}',"
                                  " timeout => '1 minute')"); /* 6 s */
    await_items(fx, id, 20);
    process_kill(p); /* 1: with its child */
    recover_at_once(fx);
    p = start_example(fx);
    await_items(fx, id, 60);
    end_well(p); /* a drain: nothing is done again */
    await_state(fx, id, "ready");
    p = start_example(fx);
    await_items(fx, id, 100);
    kill_child(fx); /* 2 */
    await_state(fx, id, "retrying");
    run_now(fx, id);
    await_state(fx, id, "done");
    check_items(fx, 200, 2);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_worker_that_is_killed),
        WITH_DATABASE(test_a_child_that_dies),
        WITH_DATABASE(test_a_flood_of_lines),
        WITH_DATABASE(test_more_time),
        WITH_DATABASE(test_more_time_than_there_is),
        WITH_DATABASE(test_stop_at_a_cancel),
        WITH_DATABASE(test_stop_at_a_drain),
        WITH_DATABASE(test_exec),
        WITH_DATABASE(test_run_one),
        WITH_DATABASE(test_the_example_under_kill),
    };
    return RUN_GROUP(tests);
}
