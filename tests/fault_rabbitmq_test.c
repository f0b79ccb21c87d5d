/* label: fault */
/* timeout: 200 */
/* long: 300 */
/* What becomes of tasks when RabbitMQ restarts, crashes, is away, blocks or forgets. A private
 * RabbitMQ; two workers, a cleaner and two producers go on through all of it, and no producer ever
 * waits for it. With TEST_LONG set it is away for a minute. */
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include "core/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum {
    WORKERS = 2,
    PER_S = 25,         /* transactions a second of each producer */
    PRODUCER_MS = 1000, /* the longest that a transaction may take, whatever RabbitMQ does */
    UP_MS = 15000,      /* until everything is connected again: pauses go up to 10 s */
    CHECK_LIMIT_MS = 20000,
    WOKEN_MS = 60, /* the median from commit to start when messages wake; else about 500 */
    WATCH_MS = 3000,
};

static struct running {
    struct fixture *fx;
    struct process *workers[WORKERS], *cleaner;
    struct load load;
} all;

static int start_all(void **state)
{
    char h[256];
    void *fixture = NULL;
    server_open("rabbitmq");
    if (fixture_setup(&fixture) != 0) {
        return -1;
    }
    struct fixture *fx = all.fx = fixture;
    declare(fx);
    for (int i = 0; i < WORKERS; i++) {
        all.workers[i] = TENON(fx, "worker", "--slots", "2", "--handler",
                               handler(h, "a=pool:exec %s 1", "pool"));
    }
    all.cleaner = TENON(fx, "cleaner");
    for (int i = 0; i < WORKERS; i++) {
        process_await_line(all.workers[i], "event=broker_up", UP_MS);
    }
    load_start(&all.load, fx, fx->amqp_url, PER_S);
    *state = &all;
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    void *fixture = all.fx;
    (void)fixture_teardown(&fixture);
    server_close();
    return 0;
}

/* Lines of all workers' logs. */
static size_t lines(const char *text)
{
    size_t n = 0;
    for (int i = 0; i < WORKERS; i++) {
        n += process_lines(all.workers[i], text);
    }
    return n;
}

static void check(const char *fault)
{
    struct load_counts counts;
    load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        int64_t slowest_us = atomic_exchange(&all.load.shared->slowest_us[i], 0);
        assert_in_range(slowest_us, 0, PRODUCER_MS * 1000);
    }
    assert_int_equal(all.load.shared->failures, 0);
    assert_int_equal(lines("event=presence_lost"), 0);
    assert_int_equal(process_lines(all.cleaner, "event=worker_dead"), 0);
    for (int i = 0; i < WORKERS; i++) {
        assert_false(process_is_gone(all.workers[i]));
    }
    assert_false(process_is_gone(all.cleaner));
    print_message("%s: %lld placed, lost 0, rolled back 0, doubled 0\n", fault,
                  (long long)counts.placed);
}

/* The median from commit to start of the last 20 tasks placed since, in ms; -1: too few. */
static int64_t median_ms(void)
{
    return test_sql_int(
        all.fx, "SELECT CASE WHEN count(*) = 20 THEN extract(epoch FROM percentile_cont(0.5) "
                "WITHIN GROUP (ORDER BY took)) * 1000 ELSE -1 END::bigint FROM "
                "(SELECT start_time - created_at AS took FROM tenon.finished, public.since "
                "WHERE created_at > at ORDER BY created_at DESC LIMIT 20) t");
}

static void from_now(void)
{
    test_sql(all.fx, "CREATE TABLE IF NOT EXISTS public.since AS SELECT clock_timestamp() AS at;"
                     "UPDATE public.since SET at = clock_timestamp()");
}

/* Wait until tasks start as fast as only messages make them; prints how long that took. */
static void await_woken(const char *fault)
{
    int64_t start_ms = now_ms(), median = -1;
    from_now();
    while ((median = median_ms()) < 0 || median > WOKEN_MS) {
        if (now_ms() > start_ms + UP_MS) {
            fail_msg("half of the tasks start only after %lld ms", (long long)median);
        }
        (void)poll(NULL, 0, 20);
    }
    print_message("%s: messages wake workers again after %lld ms, half within %lld\n", fault,
                  (long long)(now_ms() - start_ms), (long long)median);
}

static void await_lines(const char *text, size_t n)
{
    int64_t deadline_ms = now_ms() + UP_MS;
    while (lines(text) < n) {
        if (now_ms() > deadline_ms) {
            fail_msg("%zu lines %s, not %zu", lines(text), text, n);
        }
        (void)poll(NULL, 0, 5);
    }
}

/* --- it goes and comes --- */

/* While it is away, whatever was placed runs by the ordered claim. */
static void stay_away(int64_t ms)
{
    int64_t until_ms = now_ms() + ms;
    from_now();
    do {
        struct load_counts counts;
        load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    } while (now_ms() < until_ms);
    print_message("meanwhile half of the tasks start within %lld ms\n", (long long)median_ms());
}

/* Back again: wake-ups are those of what is placed, not of what has run meanwhile. */
static void assert_no_storm(struct broker *b)
{
    int64_t most = 0, until_ms = now_ms() + WATCH_MS, commits = all.load.shared->commits;
    int64_t before = broker_depth(b, "spy");
    while (now_ms() < until_ms) {
        int64_t depth = broker_depth(b, "default");
        most = depth > most ? depth : most;
        (void)poll(NULL, 0, 10);
    }
    int64_t wakeups = broker_depth(b, "spy") - before;
    commits = all.load.shared->commits - commits;
    print_message("%lld wake-ups for %lld tasks, at most %lld waited\n", (long long)wakeups,
                  (long long)commits, (long long)most);
    assert_in_range(wakeups, commits / 2, commits + commits / 5 + PER_S);
    assert_in_range(most, 0, 4 * PER_S);
}

static void away(const char *fault, const char *verb, int64_t ms)
{
    struct broker *b = broker_open(all.fx->amqp_url);
    broker_spy(b, "spy", "default");
    broker_close(b);
    size_t ups = lines("event=broker_up");
    load_await_running(all.fx, 2);
    server_do(verb);
    stay_away(ms);
    check("RabbitMQ is away");
    server_do("start");
    await_lines("event=broker_up", ups + WORKERS);
    await_woken(fault);
    b = broker_open(all.fx->amqp_url);
    assert_no_storm(b);
    broker_delete_queue(b, "spy");
    broker_close(b);
    check(fault);
}

static void test_restart(void **state)
{
    (void)state;
    away("restart", "stop", 0);
}

static void test_killed_and_away(void **state)
{
    (void)state;
    away("kill -9, then away", "kill", load_is_long() ? 60000 : 10000);
}

static void test_connections_closed(void **state)
{
    (void)state;
    size_t ups = lines("event=broker_up");
    load_await_running(all.fx, 2);
    broker_ctl("close_all_connections --vhost %s bye", all.fx->vhost);
    await_lines("event=broker_up", ups + WORKERS);
    await_woken("close_all_connections");
    check("close_all_connections");
}

/* --- it forgets --- */

static void signal_workers(int signal)
{
    for (int i = 0; i < WORKERS; i++) {
        process_signal(all.workers[i], signal);
    }
}

/* With workers that are frozen for a moment, so that wake-ups wait in the queue. */
static void test_queue_purged(void **state)
{
    (void)state;
    struct broker *b = broker_open(all.fx->amqp_url);
    load_await_running(all.fx, 2);
    signal_workers(SIGSTOP);
    int64_t deadline_ms = now_ms() + UP_MS;
    while (broker_depth(b, "default") < PER_S) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 5);
    }
    broker_purge(b, "default");
    signal_workers(SIGCONT);
    broker_close(b);
    check("queue purged");
}

static void test_queue_deleted(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    struct broker *b = broker_open(all.fx->amqp_url);
    broker_delete_queue(b, "default");
    await_woken("queue deleted");
    assert_true(broker_depth(b, "default") >= 0);
    broker_close(b);
    check("queue deleted");
}

static void test_permission_revoked(void **state)
{
    (void)state;
    size_t ups = lines("event=broker_up"), downs = lines("event=broker_down");
    load_await_running(all.fx, 2);
    broker_ctl("eval 'rabbit_auth_backend_internal:clear_permissions(<<\"tenon\">>, <<\"%s\">>, "
               "<<\"test\">>), [rabbit_networking:close_connection(P, \"test\") || P <- "
               "rabbit_networking:connections()].'",
               all.fx->vhost);
    await_lines("event=broker_down", downs + WORKERS);
    stay_away(1000);
    broker_ctl("set_permissions -p %s tenon '.*' '.*' '.*'", all.fx->vhost);
    await_lines("event=broker_up", ups + WORKERS);
    await_woken("permission revoked and given back");
    check("permission revoked and given back");
}

/* --- it blocks --- */

static void alarmed(const char *fault, const char *set, const char *clear)
{
    load_await_running(all.fx, 2);
    broker_ctl("%s", set);
    stay_away(2000);
    check("alarm");
    broker_ctl("%s", clear);
    await_woken(fault);
    check(fault);
}

static void test_memory_alarm(void **state)
{
    (void)state;
    alarmed("memory alarm", "set_vm_memory_high_watermark 0.000001",
            "set_vm_memory_high_watermark 0.4");
}

static void test_disk_alarm(void **state)
{
    (void)state;
    alarmed("disk alarm", "set_disk_free_limit 100000GB", "set_disk_free_limit 50MB");
}

static void test_all_ends_well(void **state)
{
    (void)state;
    load_stop(&all.load);
    check("in the end");
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.task"), 0);
    for (int i = 0; i < WORKERS; i++) {
        end_well(all.workers[i]);
    }
    end_well(all.cleaner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_closed),
        cmocka_unit_test(test_queue_purged),
        cmocka_unit_test(test_queue_deleted),
        cmocka_unit_test(test_permission_revoked),
        cmocka_unit_test(test_memory_alarm),
        cmocka_unit_test(test_disk_alarm),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_killed_and_away),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, end_all);
}
