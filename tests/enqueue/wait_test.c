/* label: e2e */
/* timeout: 120 */
/* only: all */
/* Waiting for tasks' ends: the command tenon wait, tenon_wait() of libtenon, and the example for
 * many waiters in one process. */
#include "tests/support/working.h"

#include "core/base/now.h"
#include "include/tenon/tenon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MANY = 1000, LATENCIES = 100, NET_MS = TENON_WAIT_ASK_MS };

static int64_t enqueue(struct fixture *fx, const char *payload)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('a', '%s')", payload);
}

static void wait_is(PGconn *conn, tenon_awaited *tasks, size_t n, int timeout_ms, int want)
{
    int code = tenon_wait(conn, tasks, n, timeout_ms);
    if (code != want) {
        fail_msg("%s (%s), not %s", tenon_strerror(code), tenon_errmsg(), tenon_strerror(want));
    }
}

static void clear(tenon_awaited *task)
{
    free(task->result);
    free(task->error);
    *task = (tenon_awaited){0};
}

/* tenon wait with one or two ids; its output must contain `want`, or be empty. */
static void command(struct fixture *fx, int code, int64_t one, int64_t two, const char *timeout,
                    const char *want)
{
    char ids[2][24];
    (void)snprintf(ids[0], sizeof ids[0], "%lld", (long long)one);
    (void)snprintf(ids[1], sizeof ids[1], "%lld", (long long)two);
    char *out = TENON_RUN(fx, code, "wait", "--timeout", timeout, ids[0], two ? ids[1] : NULL);
    if (*want) {
        assert_contains(out, want);
    } else {
        assert_string_equal(out, "");
    }
    free(out);
}

static void test_command(void **state)
{
    struct fixture *fx = *state;
    int64_t waits = enqueue(fx, "{\"do\": \"sleep\", \"ms\": 500}");
    command(fx, 75, waits, 0, "50ms", "");
    struct process *p = pool_worker(fx, "1", "4");
    command(fx, 0, waits, 0, "30s", "\"state\": \"done\", \"result\": null, \"error\": null}\n");
    int64_t result = enqueue(fx, "{\"do\": \"result\", \"n\": 1}");
    command(fx, 0, result, 0, "30s", "\"result\": {\"n\": 1, \"do\": \"result\"}");
    int64_t dead = enqueue(fx, "{\"do\": \"dead\"}");
    command(fx, 1, waits, dead, "30s", "\"state\": \"dead\", \"result\": null, \"error\": \"");
    int64_t cancelled = test_sql_int(fx, "SELECT tenon.enqueue('nobody')");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)cancelled);
    command(fx, 1, cancelled, 0, "30s", "\"state\": \"cancelled\"");
    int64_t expired = test_sql_int(fx, "SELECT tenon.enqueue('nobody', start_before => now() +"
                                       " interval '1 h')");
    command(fx, 75, expired, 0, "50ms", "");
    test_sql(fx,
             "UPDATE tenon.task SET start_before = now() WHERE id = %lld; SELECT tenon.settle()",
             (long long)expired);
    command(fx, 1, expired, waits, "30s",
            "\"state\": \"expired\", \"result\": null, \"error\": \"not started before ");
    command(fx, 1, 99999, 0, "30s",
            "\"state\": null, \"result\": null, \"error\": \"there is no task");
    int64_t later = enqueue(fx, "{\"do\": \"snooze\", \"delay_ms\": 3600000}");
    command(fx, 75, later, waits, "300ms", "\"state\": \"done\""); /* one of the two has */
    free(TENON_RUN(fx, 2, "wait", "x"));
    free(TENON_RUN(fx, 2, "wait"));
    end_well(p);
}

/* Whoever waits no longer is told for what he did; of many, of a few. */
static void test_what_has_not_ended(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', delay => '1 h'), tenon.enqueue_many('a',"
                 " array_fill('{}'::jsonb, ARRAY[4])), tenon.pause(everything => true)");
    struct process *p = TENON(fx, "wait", "--timeout", "1ms", "1", "2", "3", "4", "5");
    assert_int_equal(process_wait(p, LIMIT_MS), 75);
    char *log = file_text(p->log);
    assert_string_equal(log, "tenon wait: task 1 is scheduled; see: tenon why 1\n"
                             "tenon wait: task 2 is ready; see: tenon why 2\n"
                             "tenon wait: task 3 is ready; see: tenon why 3\n"
                             "tenon wait: 2 more have not ended\n");
    free(log);
}

/* All by one connection, and each is told, not found: that would take ten seconds. */
static void test_many_at_once(void **state)
{
    struct fixture *fx = *state;
    static tenon_awaited tasks[MANY];
    PGconn *conn = sql_connect(fx->database_url);
    test_sql(fx, "UPDATE tenon.setting SET history_keep = '0'"); /* what is waited for is kept */
    test_sql(fx,
             "SELECT tenon.enqueue_many('a', array_fill('{\"do\": \"result\"}'::jsonb,"
             " ARRAY[%d]))",
             MANY);
    for (int i = 0; i < MANY; i++) {
        tasks[i].id = i + 1;
    }
    wait_is(conn, tasks, MANY, 0, TENON_NOT_YET);
    struct process *p = pool_worker(fx, "2", "8");
    int64_t began_ms = now_ms();
    for (size_t ended = 0; ended < MANY;) {
        wait_is(conn, tasks, MANY, LIMIT_MS * PATIENCE, TENON_OK);
        ended = 0;
        for (int i = 0; i < MANY; i++) {
            ended += tasks[i].state == TENON_TASK_DONE;
        }
    }
    int64_t took_ms = now_ms() - began_ms;
    print_message("%d tasks were waited for by one connection in %lld ms\n", MANY,
                  (long long)took_ms);
    for (int i = 0; i < MANY; i++) {
        assert_string_equal(tasks[i].result, "{\"do\": \"result\"}");
        clear(&tasks[i]);
    }
    end_well(p);
    PQfinish(conn);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From the end as its row says it, which is before the commit; sorted. */
static void measure(struct fixture *fx, PGconn *conn, double ms[LATENCIES])
{
    for (int i = 0; i < LATENCIES; i++) {
        struct timespec at;
        tenon_awaited task = {.id = enqueue(fx, "{\"do\": \"sleep\", \"ms\": 5}")};
        publish(fx, task.id);
        wait_is(conn, &task, 1, LIMIT_MS * PATIENCE, TENON_OK);
        (void)clock_gettime(CLOCK_REALTIME, &at);
        char *ended = test_sql_text(fx,
                                    "SELECT extract(epoch FROM finished_at) FROM tenon.history"
                                    " WHERE id = %lld",
                                    (long long)task.id);
        ms[i] = ((double)at.tv_sec - strtod(ended, NULL)) * 1000 + (double)at.tv_nsec / 1e6;
        free(ended);
        clear(&task);
    }
    qsort(ms, LATENCIES, sizeof *ms, compare);
    print_message("from end to waiter: p10 %.2f ms, p50 %.2f ms, p99 %.2f ms\n", ms[LATENCIES / 10],
                  ms[LATENCIES / 2], ms[LATENCIES * 99 / 100]);
}

/* Too soon for a waiter that asks again and again; a busy machine may need more than one try. */
static void test_how_soon(void **state)
{
    enum { TRIES = 3, P10_MS = 20, P50_MS = 50 };
    struct fixture *fx = *state;
    double ms[LATENCIES];
    bool soon = false;
    PGconn *conn = sql_connect(fx->database_url);
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    for (int i = 0; i < TRIES && !soon; i++) {
        measure(fx, conn, ms);
        soon = ms[LATENCIES / 10] < (double)patience_loaded_ms(P10_MS) &&
               ms[LATENCIES / 2] < (double)patience_loaded_ms(P50_MS);
    }
    assert_true(soon);
    end_well(p);
    PQfinish(conn);
}

/* While it waits it asks nothing, and what a stranger says there is only a reason to ask. */
static void test_waits_without_polling(void **state)
{
    struct fixture *fx = *state;
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('nobody')");
    struct process *p = TENON(fx, "wait", "1");
    test_await(fx, LIMIT_MS,
               "SELECT state = 'idle' AND now() - state_change > '3 s', state, query"
               " FROM pg_stat_activity WHERE application_name = 'tenon wait'");
    test_sql(fx, "SELECT pg_notify('tenon_ended', '%lld'), pg_notify('tenon_ended', 'x')",
             (long long)id);
    test_await(fx, LIMIT_MS,
               "SELECT state = 'idle' AND query ~ 'tenon.result', state, query"
               " FROM pg_stat_activity WHERE application_name = 'tenon wait'");
    assert_false(process_is_gone(p));
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
}

static void test_what_may_happen_to_a_connection(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    tenon_awaited task = {.id = test_sql_int(fx, "SELECT tenon.enqueue('nobody')")};
    wait_is(NULL, &task, 1, 0, TENON_MISUSE);
    sql_run(conn, "BEGIN");
    wait_is(conn, &task, 1, 0, TENON_MISUSE);
    sql_run(conn, "ROLLBACK");
    wait_is(conn, &task, 0, -1, TENON_OK); /* none is left to wait for */
    wait_is(conn, &task, 1, 10, TENON_NOT_YET);
    test_sql(fx, "CREATE ROLE %s_p; SELECT tenon.grant_producer('%s_p')", fx->database,
             fx->database);
    sql_run(conn, "SET SESSION AUTHORIZATION %s_p", fx->database);
    tenon_awaited another = {.id = task.id};
    wait_is(conn, &another, 1, 10, TENON_DENIED);
    sql_run(conn, "RESET SESSION AUTHORIZATION");
    test_sql(fx, "SELECT pg_terminate_backend(%d)", PQbackendPID(conn));
    wait_is(conn, &task, 1, LIMIT_MS, TENON_RETRY);
    PQreset(conn); /* it goes on with the next session */
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)task.id);
    task.asked_ms = 0; /* at once, and not in ten seconds */
    wait_is(conn, &task, 1, LIMIT_MS * PATIENCE, TENON_OK);
    assert_int_equal(task.state, TENON_TASK_CANCELLED);
    assert_contains(task.error, "cancelled by ");
    clear(&task);
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
}

static void test_many_waiters_of_one_process(void **state)
{
    struct fixture *fx = *state;
    char program[300];
    (void)snprintf(program, sizeof program, "%s/examples/wait.py", repository);
    struct process *p = pool_worker(fx, "2", "8");
    const char *const argv[] = {"/usr/bin/python3", program, "a", "1000", NULL};
    struct process *waiter = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(waiter, LIMIT_MS), 0);
    char *out = file_text(waiter->out);
    assert_string_equal(out, "1000 of 1000 are done\n");
    free(out);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_command),
        WITH_DATABASE(test_what_has_not_ended),
        WITH_DATABASE(test_many_at_once),
        WITH_SERVERS(test_how_soon),
        WITH_DATABASE(test_waits_without_polling),
        WITH_DATABASE(test_what_may_happen_to_a_connection),
        WITH_DATABASE(test_many_waiters_of_one_process),
    };
    return RUN_GROUP(tests);
}
