/* label: fault */
/* timeout: 120 */
/* long: 2400 */
/* serial: yes */
/* A backlog, and nobody to work it off: RabbitMQ holds a window on it, the database's load stays
 * flat; then workers come. With TEST_LONG: 1,000,000 tasks, ten minutes without a worker. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include "core/amqp_publisher.h"
#include "core/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    TASKS = 50000,
    TASKS_LONG = 1000000,
    WINDOW = 1000,
    WINDOW_LONG = 10000,
    ALONE_MS = 9000,
    ALONE_LONG_MS = 600000,
    WORKERS = 2,
    WORKERS_LONG = 4,
    READ_PER_S = 20000, /* rows that the cleaner alone may read in a second */
    URGENT_MS = 2000,
    OLD_MS = 60000,
    DRAIN_MS = 60000,
    DRAIN_LONG_MS = 900000,
};

static int64_t either(int64_t usual, int64_t in_the_night)
{
    return load_is_long() ? in_the_night : usual;
}

static void fill(struct fixture *fx, int64_t n)
{
    for (int64_t left = n; left > 0; left -= 10000) {
        test_sql(fx, "SELECT count(*) FROM unnest(tenon.enqueue_many('a', "
                     "array_fill('{}'::jsonb, ARRAY[10000]))) t");
    }
    test_sql(fx, "ANALYZE tenon.task");
}

/* Rows that this database's sessions have read so far. */
static int64_t rows_read(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT tup_fetched FROM pg_stat_database "
                            "WHERE datname = current_database()");
}

/* The cleaner alone for a while; ret: the most messages that waited. */
static int64_t watch(struct fixture *fx, struct broker *b, int64_t ms, int64_t *ret_read_per_s)
{
    int64_t most = 0, start_ms = now_ms(), before = rows_read(fx);
    while (now_ms() < start_ms + ms) {
        int64_t depth = broker_depth(b, "default");
        most = depth > most ? depth : most;
        (void)poll(NULL, 0, 20);
    }
    *ret_read_per_s = (rows_read(fx) - before) * 1000 / ms;
    return most;
}

static void nobody_works(struct fixture *fx, struct broker *b)
{
    int64_t window = either(WINDOW, WINDOW_LONG), ms = either(ALONE_MS, ALONE_LONG_MS) / 3, read[3];
    for (int64_t deadline_ms = now_ms() + LIMIT_MS; broker_depth(b, "default") == 0;) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 5);
    }
    for (int i = 0; i < 3; i++) {
        int64_t most = watch(fx, b, ms, &read[i]);
        print_message("part %d: at most %lld messages wait, %lld rows read a second\n", i + 1,
                      (long long)most, (long long)read[i]);
        assert_in_range(most, 1, window + PUBLISHER_ASK_EVERY);
        assert_in_range(read[i], 0, READ_PER_S);
        if (i == 2) {
            assert_in_range(most, window * 9 / 10, window + PUBLISHER_ASK_EVERY);
        }
    }
}

/* When a task started, by the journal, and how many had started before. */
static int64_t started_ns(const struct journal *j, int64_t id, size_t *ret_before)
{
    for (size_t i = 0; i < j->n; i++) {
        if (j->runs[i].id == id) {
            *ret_before = i;
            return j->runs[i].start_ns;
        }
    }
    fail_msg("task %lld never started", (long long)id);
    return 0;
}

static void test_a_backlog(void **state)
{
    struct fixture *fx = *state;
    struct process *p[WORKERS_LONG];
    struct journal j;
    size_t before = 0;
    char window[24], h[256];
    int64_t tasks = either(TASKS, TASKS_LONG), workers = either(WORKERS, WORKERS_LONG);
    (void)snprintf(window, sizeof window, "%lld", (long long)either(WINDOW, WINDOW_LONG));
    declare(fx);
    int64_t old = test_sql_int(fx, "SELECT tenon.enqueue('a', priority => 0)");
    fill(fx, tasks);
    struct process *cleaner = TENON(fx, "cleaner", "--window", window);
    struct broker *b = broker_open(fx->amqp_url);
    nobody_works(fx, b);

    int64_t start_ns = load_now_ns();
    for (int i = 0; i < workers; i++) {
        p[i] = TENON(fx, "worker", "--slots", "2", "--handler",
                     handler(h, "a=pool:exec %s 64", "pool"));
    }
    test_await(fx, either(DRAIN_MS, DRAIN_LONG_MS), "SELECT count(*) > %lld FROM tenon.finished",
               (long long)tasks / 4);
    int64_t urgent_ns = load_now_ns();
    int64_t urgent = test_sql_int(fx, "SELECT tenon.enqueue('a', priority => 9)");
    test_await(fx, either(DRAIN_MS, DRAIN_LONG_MS),
               "SELECT count(*) = 0, count(*) FROM (SELECT FROM tenon.task LIMIT 1) t");
    int64_t took_ms = (load_now_ns() - start_ns) / 1000000;

    journal_read(fx, &j);
    int64_t old_ms = (started_ns(&j, old, &before) - start_ns) / 1000000;
    assert_in_range(before, 0, tasks / 2); /* long before the rest was done */
    int64_t urgent_ms = (started_ns(&j, urgent, &before) - urgent_ns) / 1000000;
    assert_in_range(before, 0, tasks - 1);
    print_message("%lld tasks in %lld ms; the urgent one started after %lld ms, the old one of "
                  "priority 0 after %lld ms\n",
                  (long long)tasks, (long long)took_ms, (long long)urgent_ms, (long long)old_ms);
    assert_in_range(urgent_ms, 0, URGENT_MS);
    assert_in_range(old_ms, 0, OLD_MS);
    assert_int_equal(j.n, tasks + 2);
    assert_int_equal(journal_tasks(&j), tasks + 2);
    journal_clear(&j);
    for (int i = 0; i < workers; i++) {
        end_well(p[i]);
    }
    end_well(cleaner);
    broker_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_a_backlog)};
    return RUN_GROUP(tests);
}
