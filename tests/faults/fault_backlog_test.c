/* label: fault */
/* timeout: 300 */
/* long: 2400 */
/* measures: yes */
/* only: all */
/* A backlog, and nobody to work it off: RabbitMQ holds no more than a window, the database's load
 * stays flat; then workers come, and take it in order, but for two queues by turns. With TEST_LONG:
 * 1,000,000 tasks, ten minutes without a worker. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include "cleaner/depth.h"
#include "core/amqp/amqp_topology.h"
#include "core/base/now.h"
#include "worker/decide/round_plan.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    TASKS = 50000,
    TASKS_LONG = 1000000,
    ALONE_MS = 7500,
    ALONE_LONG_MS = 600000,
    PARTS = 3, /* of that time, which are compared */
    WORKERS = 2,
    WORKERS_LONG = 4,
    READ_PER_S = 50,      /* entries of indexes that the cleaner alone may read in a second */
    PASS_MS = 60000,      /* and the table whole once in so long, for tasks to recover */
    TOLD_MS = 2000,       /* sessions tell what they have read within so long */
    FORGOTTEN_MS = 60000, /* until RabbitMQ has published and dropped all of it */
    OTHER_PART = 10,      /* one in so many tasks is of another queue, and younger than the rest */
    URGENT_MS = 2000,
    OLD_MS = 12000, /* one in five seconds goes from the lowest priority up */
    FEED = 20000,   /* so many wait at least, until the old one has started */
    DRAIN_MS = 60000,
    DRAIN_LONG_MS = 900000,
};

static int64_t either(int64_t usual, int64_t in_the_night)
{
    return load_is_long() ? in_the_night : usual;
}

/* Tasks with ids in a row, in the order in which they are due. */
struct range {
    int64_t first, n;
};

/* In a session of its own, whose end tells the server what it has read itself. */
static struct range fill(struct fixture *fx, const char *queue, int64_t n)
{
    struct range r = {.n = n};
    PGconn *conn = sql_connect(fx->database_url);
    for (int64_t done = 0; done < n;) {
        int64_t many = n - done < 10000 ? n - done : 10000;
        done += many;
        r.first = sql_int(conn,
                          "SELECT max(id) - %lld FROM unnest(tenon.enqueue_many('a', "
                          "array_fill('{}'::jsonb, ARRAY[%lld]), queue => '%s')) AS t (id)",
                          (long long)done - 1, (long long)many, queue);
    }
    PQfinish(conn);
    return r;
}

/* Only while no worker takes tasks away. */
static void assert_due_in_order_of_ids(struct fixture *fx, const char *queue, struct range r)
{
    PGconn *conn = sql_connect(fx->database_url);
    assert_int_equal(sql_int(conn,
                             "SELECT count(*) FROM (SELECT run_at >= lag(run_at, 1, run_at)"
                             " OVER (ORDER BY id) AS in_order FROM tenon.task WHERE id >= %lld"
                             " AND queue = '%s') t WHERE in_order",
                             (long long)r.first, queue),
                     r.n);
    PQfinish(conn);
}

/* What scans have returned so far, wanted or not: entries of our indexes, and rows of our tables.
 * Of the catalog's, autovacuum reads a thousand now and then. */
struct reads {
    int64_t entries, rows;
};

static struct reads read_so_far(struct fixture *fx)
{
    return (struct reads){
        .entries = test_sql_int(fx, "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes"),
        .rows = test_sql_int(fx, "SELECT sum(seq_tup_read) FROM pg_stat_user_tables")};
}

/* RabbitMQ refuses what is over the window, whoever publishes how fast. */
static int64_t depth_in_window(struct broker *b, const char *key)
{
    int64_t depth = broker_depth(b, key);
    assert_in_range(depth, 0, TOPOLOGY_WINDOW_IDS);
    return depth;
}

/* The cleaner alone for a while; ret: what was read. */
static struct reads watch(struct fixture *fx, struct broker *b, int64_t ms, int64_t *ret_most)
{
    int64_t start_ms = now_ms();
    struct reads before = read_so_far(fx);
    *ret_most = 0;
    while (now_ms() < start_ms + ms) {
        int64_t depth = depth_in_window(b, "default/a");
        (void)depth_in_window(b, "other/a");
        *ret_most = depth > *ret_most ? depth : *ret_most;
        (void)poll(NULL, 0, 20);
    }
    struct reads now = read_so_far(fx);
    return (struct reads){now.entries - before.entries, now.rows - before.rows};
}

/* Until every wake-up has been published, and is too old to be worth anything. */
static void await_forgotten(struct broker *b)
{
    int64_t deadline_ms = patience_end_ms(FORGOTTEN_MS);
    while (depth_in_window(b, "default/a") + depth_in_window(b, "other/a") > 0) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 5);
    }
    print_message("RabbitMQ held at most its window, and nothing is left of it\n");
}

/* The window empties, and nothing is read but what is said above. */
static void nobody_works(struct fixture *fx, struct broker *b, int64_t tasks)
{
    int64_t ms = either(ALONE_MS, ALONE_LONG_MS) / PARTS, most;
    int64_t scans = ms / PASS_MS + 1 + ms / DEPTH_CHANGED_MS + 1;
    struct reads read[PARTS];
    await_forgotten(b);
    (void)watch(fx, b, TOLD_MS, &most);
    for (int i = 0; i < PARTS; i++) {
        read[i] = watch(fx, b, ms, &most);
        print_message("part %d: at most %lld messages wait, %lld entries and %lld rows read in %lld"
                      " ms\n",
                      i + 1, (long long)most, (long long)read[i].entries, (long long)read[i].rows,
                      (long long)ms);
        assert_in_range(read[i].entries, 0, READ_PER_S * ms / 1000);
        assert_in_range(read[i].rows, 0, scans * tasks * 11 / 10);
    }
    assert_in_range(read[PARTS - 1].entries, 0, read[0].entries + READ_PER_S * ms / 2000);
}

/* The farthest that a task of the range started from its place in the order. */
static int64_t farthest(const struct journal *j, struct range r)
{
    int64_t place = 0, far = 0;
    for (size_t i = 0; i < j->n; i++) {
        int64_t due = j->runs[i].id - r.first;
        if (due >= 0 && due < r.n) {
            int64_t off = llabs(place++ - due);
            far = off > far ? off : far;
        }
    }
    return far;
}

/* How many of `others` had started when the last of the range did. */
static int64_t overtaken(const struct journal *j, struct range r, struct range others)
{
    int64_t n = 0, at_last = 0;
    for (size_t i = 0; i < j->n; i++) {
        int64_t id = j->runs[i].id;
        n += id >= others.first && id < others.first + others.n;
        at_last = id >= r.first && id < r.first + r.n ? n : at_last;
    }
    return at_last;
}

/* As far from the order as what each worker may have claimed ahead; and the younger queue has its
 * turns. */
static void check_order(const struct journal *j, struct range tasks, struct range others)
{
    int64_t far = farthest(j, tasks), other_far = farthest(j, others);
    int64_t before = overtaken(j, others, tasks), slack = either(WORKERS, WORKERS_LONG) * AHEAD_MAX;
    print_message("tasks start at most %lld places from their order, %lld in the other queue, whose"
                  " last started after %lld of the first queue's\n",
                  (long long)far, (long long)other_far, (long long)before);
    assert_in_range(far, 0, slack);
    assert_in_range(other_far, 0, slack);
    assert_in_range(before, 0, tasks.n / 2);
}

/* The backlog lasts as long as the task waits: more come before it is over. ret: how many */
static int64_t feed_until_started(struct fixture *fx, int64_t id)
{
    int64_t fed = 0, deadline_ms = patience_end_ms(either(DRAIN_MS, DRAIN_LONG_MS));
    while (test_sql_bool(fx,
                         "SELECT count(*) = 1 FROM tenon.task WHERE id = %lld"
                         " AND start_time IS NULL",
                         (long long)id)) {
        assert_true(now_ms() < deadline_ms);
        if (test_sql_int(fx, "SELECT count(*) FROM (SELECT FROM tenon.task LIMIT %d) t", FEED) <
            FEED) {
            fed += fill(fx, "default", FEED).n;
        }
        (void)poll(NULL, 0, 50);
    }
    return fed;
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
    char h[256];
    int64_t tasks = either(TASKS, TASKS_LONG), workers = either(WORKERS, WORKERS_LONG);
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default/a");
    broker_declare(b, "other/a");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", DRAIN_MS);
    int64_t old = test_sql_int(fx, "SELECT tenon.enqueue('a', priority => 0)");
    struct range usual = fill(fx, "default", tasks);
    struct range others = fill(fx, "other", tasks / OTHER_PART);
    assert_due_in_order_of_ids(fx, "default", usual);
    assert_due_in_order_of_ids(fx, "other", others);
    tasks += others.n;
    test_sql(fx, "ANALYZE tenon.task");
    nobody_works(fx, b, tasks);

    int64_t start_ns = load_now_ns();
    for (int i = 0; i < workers; i++) {
        p[i] = TENON(fx, "worker", "--slots", "2", "--queues", "default,other", "--handler",
                     handler(h, "a=pool:exec %s 64", "pool"));
    }
    test_await(fx, either(DRAIN_MS, DRAIN_LONG_MS), "SELECT count(*) > %lld FROM tenon.history",
               (long long)tasks / 4);
    int64_t urgent_ns = load_now_ns();
    int64_t urgent = test_sql_int(fx, "SELECT tenon.enqueue('a', priority => 9)");
    tasks += feed_until_started(fx, old);
    test_await(fx, either(DRAIN_MS, DRAIN_LONG_MS),
               "SELECT count(*) = 0, count(*) FROM (SELECT FROM tenon.task LIMIT 1) t");
    int64_t took_ms = (load_now_ns() - start_ns) / 1000000;

    journal_read(fx, &j);
    int64_t old_ms = (started_ns(&j, old, &before) - start_ns) / 1000000;
    assert_in_range(before, 0, tasks - FEED / 2); /* while tasks of higher priority waited */
    int64_t urgent_ms = (started_ns(&j, urgent, &before) - urgent_ns) / 1000000;
    assert_in_range(before, 0, tasks - 1);
    print_message("%lld tasks in %lld ms; the urgent one started after %lld ms, the old one of "
                  "priority 0 after %lld ms\n",
                  (long long)tasks, (long long)took_ms, (long long)urgent_ms, (long long)old_ms);
    assert_in_range(urgent_ms, 0, patience_loaded_ms(URGENT_MS));
    assert_in_range(old_ms, 0, patience_loaded_ms(OLD_MS));
    assert_int_equal(j.n, tasks + 2);
    assert_int_equal(journal_tasks(&j), tasks + 2);
    check_order(&j, usual, others);
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
