/* label: fault */
/* timeout: 120 */
/* long: 300 */
/* measures: yes */
/* only: all */
/* What the poll promises, on real servers: in a backlog it decides what starts next, and rows that
 * nobody handles cost the others nothing. With TEST_LONG: 3,200 tasks and 1,000,000 such rows. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS = 16,
    PRIORITIES = 10,
    TASKS = 640,
    TASKS_LONG = 3200,
    TASK_MS = 200,
    ENDS_MS = 100000,
    URGENT_MS = 3 * TASK_MS, /* until a slot is free, a round, and what a busy machine takes */
    UNHANDLED = 200000,
    UNHANDLED_LONG = 1000000,
    SINGLE = 15, /* tasks one after the other */
    TRIES = 3,
    WAKEUP_SLACK_US = 2000,
    POLL_SLACK_US = 50000, /* a tenth of the time between two polls */
};

static int64_t either(int64_t usual, int64_t in_the_night)
{
    return load_is_long() ? in_the_night : usual;
}

/* Of how many tasks of a lower priority, which were enqueued with it, did each start after? The
 * priorities by id: the first of all `n` have 0, the next 1. ret: the most */
static int64_t most_overtaken(const struct journal *j, int64_t n)
{
    int64_t most = 0;
    for (size_t i = 0; i < j->n; i++) {
        int64_t overtaken = 0;
        int64_t priority = (j->runs[i].id - 1) * PRIORITIES / n;
        for (size_t k = 0; k < i && j->runs[i].id <= n; k++) {
            overtaken += j->runs[k].id <= n && (j->runs[k].id - 1) * PRIORITIES / n < priority;
        }
        most = overtaken > most ? overtaken : most;
    }
    return most;
}

/* After how long did it start, and how many others in this time? */
static int64_t started_after_ms(const struct journal *j, int64_t id, int64_t since_ns,
                                int *ret_others)
{
    *ret_others = 0;
    for (size_t i = 0; i < j->n; i++) {
        if (j->runs[i].id == id) {
            return (j->runs[i].start_ns - since_ns) / 1000000;
        }
        *ret_others += j->runs[i].start_ns > since_ns;
    }
    fail_msg("task %lld did not start", (long long)id);
    return 0;
}

/* The wake-ups come in the order of the ids, the lowest priority first: they do not matter. */
static void test_in_a_backlog_priorities_hold(void **state)
{
    struct fixture *fx = *state;
    int64_t n = either(TASKS, TASKS_LONG);
    int others = 0;
    declare(fx);
    test_sql(fx,
             "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": %d}', announced => true,"
             " priority => ((i - 1) * %d / %lld)::integer) FROM generate_series(1, %lld) i",
             TASK_MS, PRIORITIES, (long long)n, (long long)n);
    for (int64_t id = 1; id <= n; id++) {
        publish(fx, id);
    }
    struct process *p = pool_worker(fx, "16", "1");
    test_await(fx, ENDS_MS, "SELECT count(*) > %lld FROM tenon.history", (long long)n / 2);
    int64_t since_ns = load_now_ns();
    int64_t urgent = test_sql_int(fx, "SELECT tenon.enqueue('a', priority => 9)");
    test_await(fx, ENDS_MS, "SELECT count(*) = %lld FROM tenon.history", (long long)n + 1);
    struct journal j;
    journal_read(fx, &j);
    int64_t most = most_overtaken(&j, n);
    int64_t ms = started_after_ms(&j, urgent, since_ns, &others);
    print_message("of %lld tasks none was overtaken by more than %lld of lower priority; an urgent"
                  " one started after %lld ms and %d others\n",
                  (long long)n, (long long)most, (long long)ms, others);
    assert_in_range(most, 0, SLOTS);
    assert_in_range(ms, 0, patience_loaded_ms(URGENT_MS));
    assert_in_range(others, 0, SLOTS);
    journal_clear(&j);
    end_well(p);
}

/* --- a kind that nobody handles --- */

/* How long half of the tasks wait at most that come one after the other, in microseconds. */
static int64_t wait_us(struct fixture *fx, bool woken)
{
    int64_t first = 0;
    for (int i = 0; i < SINGLE; i++) {
        int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', announced => true)");
        if (woken) {
            publish(fx, id);
        }
        test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
                   (long long)id);
        first = first ? first : id;
    }
    return test_sql_int(fx,
                        "SELECT (1000000 * percentile_cont(0.5) WITHIN GROUP (ORDER BY extract("
                        "epoch FROM start_time - created_at)))::bigint FROM tenon.history"
                        " WHERE id >= %lld",
                        (long long)first);
}

/* All of one moment, and so before all that comes later. */
static void add_unhandled(struct fixture *fx)
{
    test_sql(fx,
             "INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority,"
             " delayed, announced, queue, kind, payload) SELECT now(), now(), 1000, 1, 4, false,"
             " true, 'default', 'nobodys', '1' FROM generate_series(1, %lld)",
             (long long)either(UNHANDLED, UNHANDLED_LONG));
    test_sql(fx, "VACUUM ANALYZE tenon.task");
}

/* Before polls have read them all, nothing is measured: then a task that lies behind is done. */
static void unhandled_rows_delay_nobody(struct fixture *fx, struct process *p, bool woken)
{
    int64_t before_us = wait_us(fx, woken);
    add_unhandled(fx);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', announced => true)");
    test_await(fx, ENDS_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
               (long long)id);
    int64_t limit_us = 2 * before_us + (woken ? WAKEUP_SLACK_US : POLL_SLACK_US);
    int64_t after_us = wait_us(fx, woken);
    for (int i = 1; i < TRIES && after_us > patience_loaded_ms(limit_us);
         i++) { /* the machine may be busy just now */
        after_us = wait_us(fx, woken);
    }
    print_message(
        "%s half of the tasks wait %.1f ms, beside %lld rows that nobody handles %.1f ms\n",
        woken ? "with its wake-up" : "without wake-ups", (double)before_us / 1000,
        (long long)either(UNHANDLED, UNHANDLED_LONG), (double)after_us / 1000);
    /* it cannot do without a clock: rows that sweeps read are many, and their number says nothing
     * of whom they delay */
    assert_in_range(after_us, 0, patience_loaded_ms(limit_us));
    end_well(p);
}

static void test_unhandled_rows_delay_no_wakeup(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    struct process *p = pool_worker(fx, "2", "1");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    unhandled_rows_delay_nobody(fx, p, true);
}

static void test_unhandled_rows_delay_no_poll(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--slots", "2", "--handler",
                              handler(h, "a=pool:exec %s 1", "pool"));
    unhandled_rows_delay_nobody(fx, p, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_in_a_backlog_priorities_hold),
        WITH_SERVERS(test_unhandled_rows_delay_no_wakeup),
        WITH_SERVERS(test_unhandled_rows_delay_no_poll),
    };
    return RUN_GROUP(tests);
}
