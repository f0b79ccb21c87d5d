/* label: e2e */
/* timeout: 180 */
/* Several tasks in one pool child: what happens to one of them hurts no other. */
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

/* A worker of one slot for kind "a", whose child takes four tasks at once. */
static struct process *start(struct fixture *fx, const char *arguments)
{
    char h[256], format[64];
    (void)snprintf(format, sizeof format, "a=pool:exec %%s %s", arguments);
    return TENON(fx, "worker", "--slots", "1", "--handler", handler(h, format, "concurrent"));
}

static void assert_neighbours_ran_once(struct fixture *fx, int64_t not_this)
{
    struct journal j;
    journal_read(fx, &j);
    for (int64_t id = 1; id <= 4; id++) {
        assert_int_equal(journal_runs(&j, id), 1);
        assert_int_equal(journal_ended(&j, id), id == not_this ? 0 : 1);
    }
    journal_clear(&j);
}

static void test_a_timeout_hurts_no_neighbour(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "4");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": 2500}') FROM generate_series(1, 3)");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": -1}', timeout => '500 ms')"); /* 4 */
    await_done(fx, 3);
    test_await(fx, LIMIT_MS,
               "SELECT state = 'retrying' AND failures = 1 AND last_error LIKE 'timed out after "
               "500 ms%%', last_error FROM tenon.tasks WHERE id = 4");
    assert_neighbours_ran_once(fx, 4);
    end_well(p);
}

static void test_a_cancel_hurts_no_neighbour(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "4");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": -1}')"); /* 1 */
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": 8000}') FROM generate_series(1, 3)");
    journal_await_started(fx, 4, LIMIT_MS);
    test_sql(fx, "SELECT tenon.cancel(1)");
    await_done(fx, 3);
    process_await_line(p, "event=claim_lost", LIMIT_MS); /* its child was stopped */
    assert_neighbours_ran_once(fx, 1);
    assert_int_equal(process_lines(p, "event=task_released"), 0);
    end_well(p);
}

/* After 20 answers it goes, with three tasks in hand or just on their way. */
static void retire(struct fixture *fx, const char *arguments)
{
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('{\"ms\": 2}'::jsonb, ARRAY[400]))");
    struct process *p = start(fx, arguments);
    await_done(fx, 400);
    assert_true(test_sql_bool(
        fx,
        "SELECT bool_and(failures = 0 AND crashes = 0 AND last_error IS NULL) FROM tenon.tasks"));
    assert_int_equal(process_lines(p, "event=handler_backs_off"), 0);
    end_well(p);
}

static void test_a_child_that_exits_takes_no_task_along(void **state)
{
    retire(*state, "4 20");
}

static void test_a_child_that_says_bye_takes_no_task_along(void **state)
{
    retire(*state, "4 20 bye");
}

static void test_on_timeout_dead(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.kind (name, timeout_ms, on_timeout) VALUES ('a', 1000, 'dead')");
    struct process *p = start(fx, "4");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": -1}')");
    test_await(
        fx, LIMIT_MS,
        "SELECT reason = 'timeout' AND failures = 1 AND max_attempts > 1 AND last_error LIKE "
        "'timed out after 1000 ms%%', d.* FROM tenon.dead d");
    process_await_line(p, "event=task_dead", LIMIT_MS);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_timeout_hurts_no_neighbour),
        WITH_SERVERS(test_a_cancel_hurts_no_neighbour),
        WITH_SERVERS(test_a_child_that_exits_takes_no_task_along),
        WITH_SERVERS(test_a_child_that_says_bye_takes_no_task_along),
        WITH_SERVERS(test_on_timeout_dead),
    };
    return RUN_GROUP(tests);
}
