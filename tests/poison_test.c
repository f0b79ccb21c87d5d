/* label: e2e */
/* timeout: 300 */
/* Tasks that kill what runs them end dead, and their neighbours do not. */
#include "core/now.h"
#include "tests/support/working.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { PILL_MS = 200, INNOCENT_MS = 1500 };

static struct process *start(struct fixture *fx, const char *slots, const char *in_flight)
{
    char h[256], format[64];
    (void)snprintf(format, sizeof format, "a=pool:exec %%s %s", in_flight);
    return TENON(fx, "worker", "--slots", slots, "--handler", handler(h, format, "concurrent"));
}

/* Three innocent tasks, and the pill that dies before any of them is done. */
static void enqueue_pill_and_three(struct fixture *fx, const char *dies)
{
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": %d}') FROM generate_series(1, 3)",
             INNOCENT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": %d, \"dies\": \"%s\"}')", PILL_MS, dies);
}

static void assert_pill_dead_and_three_done(struct fixture *fx)
{
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 1 AND bool_and(payload ? 'dies' AND reason = 'crashes' AND crashes = "
            "3) FROM tenon.dead"));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 3 AND bool_and(outcome = 'done' AND crashes <= "
                                  "2 AND failures = 0) FROM tenon.finished"));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.task)"));
}

static bool is_over(struct fixture *fx)
{
    return test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.task)");
}

/* As a supervisor does: started again whenever it is gone. */
static void run_until_over(struct fixture *fx, struct process *p)
{
    int64_t until_ms = now_ms() + 10 * LIMIT_MS;
    while (!is_over(fx)) {
        assert_true(now_ms() < until_ms);
        if (process_is_gone(p)) {
            p = start(fx, "4", "1");
        }
        (void)poll(NULL, 0, 20);
    }
    end_well(p);
}

static void test_a_worker_that_dies_of_a_pill(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner");
    enqueue_pill_and_three(fx, "worker");
    run_until_over(fx, start(fx, "4", "1"));
    assert_pill_dead_and_three_done(fx);
    end_well(cleaner);
}

static void test_a_busy_child_that_dies_of_a_pill(void **state)
{
    struct fixture *fx = *state;
    enqueue_pill_and_three(fx, "child");
    struct process *p = start(fx, "1", "4");
    test_await(fx, 10 * LIMIT_MS, "SELECT NOT EXISTS (SELECT FROM tenon.task), (SELECT "
                                  "string_agg(t.id || ' ' || t.state, ',') FROM tenon.tasks t)");
    assert_pill_dead_and_three_done(fx);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker_that_dies_of_a_pill),
        WITH_SERVERS(test_a_busy_child_that_dies_of_a_pill),
    };
    return RUN_GROUP(tests);
}
