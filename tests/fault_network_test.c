/* label: fault */
/* timeout: 200 */
/* long: 900 */
/* What becomes of tasks when the network in front of either server cuts, resets, refuses, or is
 * slow. With TEST_LONG, every 25th of the first 3,000 bytes is a place to cut at. */
#include "tests/support/subject.h"

#include "core/now.h"

#include <poll.h>
#include <signal.h>

enum { CUT_BYTES_MAX = 3000 };

/* --- cut at byte N --- */

static void cut_at(struct fixture *fx, enum proxy_way way, int64_t bytes)
{
    struct subject worker, cleaner;
    struct proxy producer;
    subject_open(fx, &worker);
    subject_open(fx, &cleaner);
    proxy_open(&producer, fx->amqp_url);
    proxy_cut_next(&worker.database, way, bytes, 2); /* presence and exchange */
    proxy_cut_next(&worker.broker, way, bytes, 1);
    proxy_cut_next(&cleaner.database, way, bytes, 2);
    proxy_cut_next(&cleaner.broker, way, bytes, 1);
    proxy_cut_next(&producer, way, bytes, 1);
    subject_work(fx, &worker);
    subject_clean(fx, &cleaner);
    produce(fx, producer.url, worker.queue);
    for (int i = 0; i < 3; i++) {
        (void)subject_give(fx, &worker, "{}");
    }
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    process_await_line(cleaner.process, "event=leader", START_MS);
    test_await(fx, START_MS,
               "SELECT count(*) = 1, count(*) FROM pg_stat_activity WHERE datname = "
               "current_database() AND application_name = 'tenon worker presence'");
    end_well(worker.process);
    end_well(cleaner.process);
    subject_close(&worker);
    subject_close(&cleaner);
    proxy_close(&producer);
}

static void test_connections_cut_at_any_byte(void **state)
{
    struct fixture *fx = *state;
    static const int64_t bytes[] = {0,   1,   8,    30,   100,  250,  300,  350, 400,
                                    500, 700, 1000, 1300, 1600, 2000, 2400, 2900};
    enum { N = sizeof bytes / sizeof *bytes };
    for (int i = 0; i < N && !load_is_long(); i++) {
        cut_at(fx, i % 2 ? PROXY_TO_CLIENT : PROXY_TO_SERVER, bytes[i]);
    }
    for (int64_t n = 0; n <= CUT_BYTES_MAX && load_is_long(); n += 25) {
        cut_at(fx, PROXY_TO_CLIENT, n);
        cut_at(fx, PROXY_TO_SERVER, n);
    }
    assert_all_ran_once(fx);
}

/* --- one exchange is held --- */

static void test_children_are_minded_while_an_exchange_is_held(void **state)
{
    struct fixture *fx = *state;
    struct subject s;
    struct journal j;
    subjects_up(fx, &s, 1);
    int64_t id = test_sql_int(fx,
                              "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}', "
                              "queue => '%s', timeout => '1 second')",
                              s.queue);
    load_await_running(fx, 1);
    journal_read(fx, &j);
    pid_t child = j.runs[j.n - 1].pid;
    journal_clear(&j);
    proxy_stall(&s.database, PROXY_TO_CLIENT, true);
    int64_t start_ms = now_ms();
    process_await_line(s.process, "event=task_timed_out", 2000);
    while (kill(child, 0) == 0) {
        assert_in_range(now_ms() - start_ms, 0, 3000);
        (void)poll(NULL, 0, 5);
    }
    proxy_stall(&s.database, PROXY_TO_CLIENT, false);
    test_await(fx, LOOK_MS,
               "SELECT failures = 1, failures, last_error FROM tenon.task WHERE id = %lld",
               (long long)id);
    assert_int_equal(process_lines(s.process, "event=exchange_failed"), 0);
    subjects_down(&s, 1);
}

/* --- connecting again --- */

/* How often somebody knocked in the first and in the last third of the time. */
struct knocks {
    int first, last;
};

static void count_knocks(struct proxy *const *p, struct knocks *k, int n, int64_t ms)
{
    int at_first[16], at_second[16], at_start[16];
    for (int i = 0; i < n; i++) {
        at_start[i] = proxy_accepted(p[i]);
        proxy_door(p[i], PROXY_RESETS);
        proxy_break(p[i], PROXY_RESET);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        at_first[i] = proxy_accepted(p[i]);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        at_second[i] = proxy_accepted(p[i]);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        k[i].first = at_first[i] - at_start[i];
        k[i].last = proxy_accepted(p[i]) - at_second[i];
        proxy_door(p[i], PROXY_SERVES);
    }
}

static void test_reconnects_back_off_and_never_give_up(void **state)
{
    struct fixture *fx = *state;
    struct subject worker, cleaner;
    struct knocks k[4];
    subjects_up(fx, &worker, 1);
    subject_open(fx, &cleaner);
    subject_clean(fx, &cleaner);
    process_await_line(cleaner.process, "event=leader", START_MS);
    struct proxy *doors[] = {&worker.database, &worker.broker, &cleaner.database, &cleaner.broker};
    count_knocks(doors, k, 4, load_is_long() ? 60000 : 9000);
    for (int i = 0; i < 4; i++) {
        print_message("door %d: %d tries in the first third, %d in the last\n", i, k[i].first,
                      k[i].last);
        assert_in_range(k[i].first, 2, 16);
        assert_in_range(k[i].last, 0, k[i].first - 1);
    }
    process_await_line(cleaner.process, "event=database_up", BACK_MS);
    subject_run(fx, &worker, BACK_MS);
    subject_await_lines(&worker, "event=broker_up", 2, BACK_MS);
    /* once for each new reason, not once per try */
    assert_in_range(process_lines(worker.process, "event=broker_down"), 1, 12);
    assert_in_range(process_lines(worker.process, "event=exchange_failed"), 1, 2);
    assert_in_range(process_lines(cleaner.process, "event=database_down"), 1, 2);
    assert_all_ran_once(fx);
    subjects_down(&worker, 1);
    end_well(cleaner.process);
    subject_close(&cleaner);
}

/* A slow line: everything works, only later. */
static void test_throttled(void **state)
{
    struct fixture *fx = *state;
    struct subject s;
    subjects_up(fx, &s, 1);
    for (int way = 0; way < 2; way++) {
        proxy_throttle(&s.database, (enum proxy_way)way, 4000);
        proxy_throttle(&s.broker, (enum proxy_way)way, 500);
    }
    for (int i = 0; i < 10; i++) {
        (void)subject_give(fx, &s, "{}");
    }
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    assert_int_equal(process_lines(s.process, "event=exchange_failed"), 0);
    assert_all_ran_once(fx);
    subjects_down(&s, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_connections_cut_at_any_byte),
        WITH_SERVERS(test_children_are_minded_while_an_exchange_is_held),
        WITH_SERVERS(test_reconnects_back_off_and_never_give_up),
        WITH_SERVERS(test_throttled),
    };
    return RUN_GROUP(tests);
}
