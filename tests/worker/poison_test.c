/* label: e2e */
/* timeout: 300 */
/* Tasks that kill what runs them end dead, and their neighbours do not. */
#include "core/base/now.h"
#include "tests/support/working.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { PILL_MS = 200, INNOCENT_MS = 1500, DEATHS = 6, SUSPECTS = 12 };

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
        fx,
        "SELECT count(*) = 1 AND bool_and(payload ? 'dies' AND reason = 'crashes' AND crashes = "
        "3) FROM tenon.dead"));
    assert_true(test_sql_bool(fx,
                              "SELECT count(*) = 3 AND bool_and(outcome = 'done' AND crashes <= "
                              "2 AND failures = 0) FROM tenon.history"));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.task)"));
}

static bool is_over(struct fixture *fx)
{
    return test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.task)");
}

/* As a supervisor does: started again whenever it is gone. */
static void run_until_over(struct fixture *fx, struct process *p)
{
    int64_t until_ms = patience_end_ms(10 * LIMIT_MS);
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
    test_await(fx, 10 * LIMIT_MS,
               "SELECT NOT EXISTS (SELECT FROM tenon.task), (SELECT "
               "string_agg(t.id || ' ' || t.state, ',') FROM tenon.tasks t)");
    assert_pill_dead_and_three_done(fx);
    end_well(p);
}

/* The worker dies after each step that its task records, ten times. */
static void test_a_death_at_each_step(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner"), *p = start(fx, "1", "1");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"ms\": -1}')");
    for (int i = 0; i < DEATHS; i++) {
        test_await(fx, LIMIT_MS,
                   "SELECT start_time IS NOT NULL AND crashes = %d, t.* FROM tenon.task t", i);
        test_sql(fx, "UPDATE tenon.task SET payload = '{\"ms\": 1}' WHERE crashes = %d",
                 DEATHS - 1);
        test_sql(fx, "SELECT tenon.put_step(id, 'step %d', '1') FROM tenon.task", i);
        process_kill(p);
        p = start(fx, "1", "1");
    }
    await_done(fx, 1);
    assert_true(test_sql_bool(fx, "SELECT crashes = %d FROM tenon.history", DEATHS));
    end_well(p);
    end_well(cleaner);
}

/* Two workers, whose ordinary tasks never run out, and suspects as long as ten of them. By count:
 * at most one of the two runs suspects, and while it does the other one does its share. */
static void test_ordinary_work_goes_on(void **state)
{
    struct fixture *fx = *state;
    struct process *both[] = {start(fx, "2", "1"), start(fx, "2", "1")};
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('{\"ms\": 100}'::jsonb, ARRAY[4000]))");
    test_sql(fx,
             "SELECT tenon.enqueue_many('a', array_fill('{\"ms\": 1000}'::jsonb, ARRAY[%d]), delay"
             " => '1 h'); UPDATE tenon.task SET run_at = 'infinity', delayed = false, crashes = 2"
             " WHERE run_at > now(); INSERT INTO tenon.suspect SELECT id, 2, 0, true, now() FROM"
             " tenon.task WHERE crashes = 2",
             SUSPECTS);
    test_await(fx, 10 * LIMIT_MS,
               "SELECT count(*) = %d, count(*) FROM tenon.history WHERE crashes = 2", SUSPECTS);
    assert_true(test_sql_bool(fx, "SELECT EXISTS (SELECT FROM tenon.task)"));
    assert_true(test_sql_bool(
        fx,
        "WITH f AS (SELECT * FROM tenon.history), s AS (SELECT * FROM f WHERE crashes = 2)"
        " SELECT NOT EXISTS (SELECT FROM s JOIN f ON f.worker_id = s.worker_id AND f.id <> s.id"
        " AND f.start_time < s.finished_at AND f.finished_at > s.start_time)" /* alone */
        " AND NOT EXISTS (SELECT FROM s JOIN s o ON o.worker_id <> s.worker_id AND o.start_time"
        " < s.finished_at AND o.finished_at > s.start_time)" /* one of the two */
        " AND (SELECT count(*) FROM f CROSS JOIN (SELECT min(start_time) AS a,"
        " max(finished_at) AS b FROM s) x WHERE f.crashes = 0 AND f.finished_at BETWEEN a AND b)"
        " >= (SELECT count(*) * 10 FROM s)")); /* one slot of the other worker at least */
    for (int i = 0; i < 2; i++) {
        end_well(both[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker_that_dies_of_a_pill),
        WITH_SERVERS(test_a_busy_child_that_dies_of_a_pill),
        WITH_SERVERS(test_a_death_at_each_step),
        WITH_SERVERS(test_ordinary_work_goes_on),
    };
    return RUN_GROUP(tests);
}
