/* label: e2e */
/* Handlers that take many tasks at once (`chunk_size` and `chunk_wait` of the handlers file): how
 * many there are in a call, and one outcome each, whatever happens to one of them. */
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READY_MS = 20000 };

/* A handlers file: many.py for kind "a", with these lines. */
static char *file_with(struct fixture *fx, char path[256], const char *lines)
{
    char text[600], program[256];
    handler_path("many.py", program, sizeof program);
    (void)snprintf(text, sizeof text, "handler a {\n command = {\"%s\"}\n mode = pool\n %s\n}\n",
                   program, lines);
    (void)snprintf(path, 256, "%s/handlers.conf", fx->dir);
    file_write(path, text);
    return path;
}

/* It polls; its one child takes tasks as `lines` say. */
static struct process *worker(struct fixture *fx, const char *lines)
{
    char path[256];
    return TENON(fx, "worker", "--amqp-url", "none", "--slots", "1", "--handlers",
                 file_with(fx, path, lines));
}

static void until_empty(struct fixture *fx, const char *lines)
{
    char path[256];
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--slots", "1", "--until-empty",
                   "--handlers", file_with(fx, path, lines)));
}

struct calls {
    int n;
    struct {
        int pid, tasks;
        char ids[1024];
    } all[16];
};

static int count_ids(const char *ids)
{
    int n = 1;
    for (; *ids; ids++) {
        n += *ids == ' ';
    }
    return n;
}

/* All calls so far, and forget them. */
static void take_calls(struct fixture *fx, struct calls *ret)
{
    char path[300];
    ret->n = 0;
    (void)snprintf(path, sizeof path, "%s.calls", fx->journal);
    FILE *file = fopen(path, "re");
    while (file && ret->n < 16 &&
           fscanf(file, "%d: %1023[^\n]", &ret->all[ret->n].pid, ret->all[ret->n].ids) == 2) {
        ret->all[ret->n].tasks = count_ids(ret->all[ret->n].ids);
        ret->n++;
    }
    if (file) {
        (void)fclose(file);
        (void)unlink(path);
    }
}

static void await_claimed(struct fixture *fx, int64_t n)
{
    test_await(fx, READY_MS,
               "SELECT count(*) = %lld, count(*) FROM tenon.task WHERE start_time IS NOT NULL",
               (long long)n);
}

static void test_so_many_in_a_call(void **state)
{
    struct fixture *fx = *state;
    struct calls calls;
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 300)");
    until_empty(fx, "chunk_size = 100\n chunk_wait = 10000ms");
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls.all[i].tasks, 100);
    }
    assert_true(test_sql_bool(fx, "SELECT count(*) = 300 AND bool_and(result = '100')"
                                  " AND max(claims) = 1 FROM tenon.history"));
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 5)"); /* and no more come */
    until_empty(fx, "chunk_size = 100\n chunk_wait = 300ms");
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 1);
    assert_int_equal(calls.all[0].tasks, 5);
}

/* One is claimed, and waits for two others; one that is cancelled meanwhile is not among them. */
static void test_they_wait_for_each_other(void **state)
{
    struct fixture *fx = *state;
    struct calls calls;
    struct process *p = worker(fx, "chunk_size = 3\n chunk_wait = 10000ms");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_claimed(fx, 1);
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 0);
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(2, 3)");
    await_done(fx, 3);
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 1);
    assert_string_equal(calls.all[0].ids, "1 2 3");

    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(4, 5)");
    await_claimed(fx, 2);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(4)"));
    test_await(fx, READY_MS,
               "SELECT clock_timestamp() > finished_at + interval '500 ms'"
               " FROM tenon.history WHERE id = 4");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(6, 7)");
    await_done(fx, 6);
    take_calls(fx, &calls);
    assert_int_equal(process_lines(p, "it is not started"), 1);
    for (int i = 0; i < calls.n; i++) {
        assert_null(strchr(calls.all[i].ids, '4'));
    }
    end_well(p);
}

/* It answers half of a call and dies: what it has answered stays, the oldest of the others is
 * charged, as of any child. */
static void test_a_child_that_dies(void **state)
{
    struct fixture *fx = *state;
    struct calls calls;
    test_sql(fx, "SELECT tenon.enqueue('a', CASE n WHEN 3 THEN '{\"then\": \"die\"}' ELSE '{}'"
                 " END::jsonb) FROM generate_series(1, 5) n");
    struct process *p = worker(fx, "chunk_size = 5\n chunk_wait = 500ms");
    await_done(fx, 5);
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 2);
    assert_string_equal(calls.all[0].ids, "1 2 3 4 5");
    assert_string_equal(calls.all[1].ids, "1 2 3");
    assert_true(calls.all[0].pid != calls.all[1].pid);
    assert_true(test_sql_bool(fx, "SELECT bool_and(failures = 0 AND crashes = (id < 4)::integer AND"
                                  " claims = 1 + crashes) FROM tenon.history"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(last_error LIKE 'the handler ended without an"
                                  " answer: exit status 3%%') FROM tenon.history WHERE id < 4"));
    end_well(p);
}

/* One is cancelled while it runs: the child answers it and gets the next call. One times out: the
 * others' answers count. */
static void test_one_of_them(void **state)
{
    struct fixture *fx = *state;
    struct calls calls;
    struct process *p = worker(fx, "chunk_size = 3\n chunk_wait = 10000ms");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"then\": \"hang\"}')");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(2, 3)");
    await_done(fx, 2);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(1)"));
    process_await_line(p, "event=claim_lost", READY_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"then\": \"hang\"}', timeout => '500 ms')");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(5, 6)");
    await_done(fx, 4);
    test_await(fx, READY_MS,
               "SELECT state = 'retrying' AND failures = 1 AND last_error LIKE 'timed out after"
               " 500 ms%%', last_error FROM tenon.tasks WHERE id = 4");
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 2);
    assert_string_equal(calls.all[1].ids, "4 5 6");
    assert_int_equal(calls.all[0].pid, calls.all[1].pid);
    assert_true(test_sql_bool(fx, "SELECT max(claims) = 1 FROM tenon.history"));
    end_well(p);
}

/* What runs is told to stop, what waits for others goes back; nothing is charged. */
static void test_a_drain(void **state)
{
    struct fixture *fx = *state;
    struct calls calls;
    struct process *p = worker(fx, "chunk_size = 2\n chunk_wait = 10000ms");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"then\": \"hang\"}') FROM generate_series(1, 2)");
    test_await(fx, READY_MS, "SELECT count(*) = 2 FROM tenon.tasks WHERE progress = '{\"of\": 2}'");
    end_well(p);
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 1);
    p = worker(fx, "chunk_size = 3\n chunk_wait = 10000ms");
    await_claimed(fx, 2);
    end_well(p);
    take_calls(fx, &calls);
    assert_int_equal(calls.n, 0);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 2 AND bool_and(state = 'ready' AND claims = 2"
                                  " AND failures + crashes = 0) FROM tenon.tasks"));
}

/* A handler that knows nothing of calls is not given any, and the log says why. */
static void test_a_handler_that_does_not_understand(void **state)
{
    struct fixture *fx = *state;
    char text[600], program[256], path[256];
    handler_path("pool", program, sizeof program);
    (void)snprintf(path, sizeof path, "%s/handlers.conf", fx->dir);
    (void)snprintf(text, sizeof text,
                   "handler a {\n command = {\"%s\", \"1\"}\n mode = pool\n chunk_size = 2\n}\n",
                   program);
    file_write(path, text);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--handlers", path);
    process_await_line(p, "the handlers file says chunk_size, and its hello not", READY_MS);
    end_well(p);
    assert_true(test_sql_bool(fx, "SELECT failures + crashes = 0 FROM tenon.task"));
}

static void test_run_one(void **state)
{
    struct fixture *fx = *state;
    char path[256], payload[256];
    (void)snprintf(payload, sizeof payload, "%s/payload.json", fx->dir);
    file_write(payload, "{}");
    char *out = TENON_RUN(fx, 0, "worker", "--handlers", file_with(fx, path, "chunk_size = 50"),
                          "--run-one", "a", payload);
    assert_string_equal(out, "1\n");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_so_many_in_a_call),
        WITH_DATABASE(test_they_wait_for_each_other),
        WITH_DATABASE(test_a_child_that_dies),
        WITH_DATABASE(test_one_of_them),
        WITH_DATABASE(test_a_drain),
        WITH_DATABASE(test_a_handler_that_does_not_understand),
        WITH_DATABASE(test_run_one),
    };
    return RUN_GROUP(tests);
}
