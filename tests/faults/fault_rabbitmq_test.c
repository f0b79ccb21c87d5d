/* label: fault */
/* timeout: 400 */
/* long: 500 */
/* measures: yes */
/* only: all */
/* What becomes of tasks when RabbitMQ restarts, crashes, is away, blocks, forgets or loses its
 * patience. A private RabbitMQ; two workers, a cleaner and two producers go on through all of it.
 * It measures how soon tasks start, alone. With TEST_LONG RabbitMQ is away for a minute. */
#include "tests/support/fleet.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>

enum {
    WATCH_MS = 3000,
    PUBLISHED_MS = 30000, /* a publisher tries again after 10 s at most */
    SEEN = 20,            /* so many commits show whether they are published */
    WAKEUPS_MAX = 20000,
    DOUBLED_MAX = 5, /* tasks that were woken up twice, after it is back */
    CONSUMER_TIMEOUT_MS = 2000,
    LONG_TASK_MS = 4000,
    LONG_TASKS = 4,
};

static struct fleet all;

static int start_all(void **state)
{
    void *fixture = NULL;
    server_open("rabbitmq");
    if (fixture_setup(&fixture) != 0) {
        return -1;
    }
    declare(fixture);
    fleet_start(&all, fixture);
    *state = &all;
    return 0;
}

static void await_woken(const char *fault)
{
    fleet_await_woken(&all, fault);
}

static void check(const char *fault)
{
    fleet_check(&all, fault);
}

/* --- it goes and comes --- */

static int64_t last_placed(void)
{
    return test_sql_int(all.fx, "SELECT max(task) FROM public.placed");
}

static int64_t watch_depth(struct broker *b)
{
    int64_t most = 0, until_ms = now_ms() + WATCH_MS;
    while (now_ms() < until_ms) {
        int64_t depth = broker_depth(b, "default/a");
        most = depth > most ? depth : most;
        (void)poll(NULL, 0, 10);
    }
    return most;
}

static bool is_among(const int64_t *ids, size_t n, int64_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* What the spy's queue has: of tasks up to `back`, and of later ones. */
struct spied {
    int64_t ids[WAKEUPS_MAX]; /* of later ones, each once */
    size_t n;
    int64_t stale, doubled;
};

static void take_spied(struct broker *b, int64_t gone, int64_t back, struct spied *ret)
{
    ret->n = 0;
    ret->stale = ret->doubled = 0;
    for (int64_t id; (id = broker_take(b, "spy")) >= 0;) {
        bool again = is_among(ret->ids, ret->n, id);
        ret->stale += id > gone && id <= back;
        ret->doubled += id > back && again;
        if (id > back && !again) {
            assert_true(ret->n < WAKEUPS_MAX);
            ret->ids[ret->n++] = id;
        }
    }
}

/* All wake-ups since before it was stopped are in the spy's queue: of what was placed and has run
 * while it was away, the tasks gone+1..back, there is none, and one of each task after that. */
static void assert_no_storm(struct broker *b, int64_t gone, int64_t back)
{
    static struct spied spied;
    int64_t commits = all.load.shared->commits, most = watch_depth(b);
    commits = all.load.shared->commits - commits;
    take_spied(b, gone, back, &spied);
    print_message("tasks %lld to %lld ran without it: %lld wake-ups; later %zu, and %lld second"
                  " ones; at most %lld waited\n",
                  (long long)gone + 1, (long long)back, (long long)spied.stale, spied.n,
                  (long long)spied.doubled, (long long)most);
    assert_in_range(back - gone, FLEET_PER_S / 2, INT64_MAX);
    assert_int_equal(spied.stale, 0);
    assert_in_range(spied.doubled, 0, DOUBLED_MAX);
    assert_in_range(spied.n, commits / 2, WAKEUPS_MAX);
    assert_in_range(most, 0, 4 * FLEET_PER_S);
}

/* Of what was placed since, and of nothing else, there is one wake-up at most. */
static void assert_few_twice(struct broker *b, int64_t since)
{
    static struct spied spied;
    take_spied(b, 0, since, &spied);
    int64_t placed = last_placed() - since;
    print_message("%lld tasks: %zu wake-ups, %lld second ones, %lld of earlier ones\n",
                  (long long)placed, spied.n, (long long)spied.doubled, (long long)spied.stale);
    assert_in_range(spied.n, FLEET_PER_S, placed + DOUBLED_MAX);
    assert_in_range(spied.doubled, 0, DOUBLED_MAX);
    assert_in_range(spied.stale, 0, FLEET_PER_S); /* on their way: more on a busy machine */
}

/* Until commits are published again. That tasks start soon does not show it: while RabbitMQ is away
 * the cleaner tells workers by NOTIFY, as fast. */
static void await_published(struct broker *b)
{
    int64_t late_ms = patience_end_ms(PUBLISHED_MS), commits, depth;
    do {
        commits = all.load.shared->commits;
        depth = broker_depth(b, "spy");
        while (all.load.shared->commits < commits + SEEN) {
            assert_true(now_ms() < late_ms);
            (void)poll(NULL, 0, 10);
        }
    } while (broker_depth(b, "spy") < depth + SEEN * 3 / 4);
}

static void away(const char *fault, const char *verb, int64_t ms)
{
    struct broker *b = broker_open(all.fx->amqp_url);
    broker_spy(b, "spy", "default/a");
    broker_close(b);
    broker_ctl("eval 'mnesia:sync_log().'"); /* or a kill -9 takes the spy's binding with it */
    size_t ups = fleet_lines(&all, "event=broker_up");
    load_await_running(all.fx, 2);
    server_do(verb);
    int64_t gone = last_placed();
    fleet_do_without(&all, ms);
    int64_t back = last_placed();
    check("RabbitMQ is away"); /* all up to `back` have run, and more */
    server_do("start");
    fleet_await_lines(&all, "event=broker_up", ups + FLEET_WORKERS);
    await_woken(fault);
    b = broker_open(all.fx->amqp_url);
    await_published(b);
    assert_no_storm(b, gone, back);
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
    size_t ups = fleet_lines(&all, "event=broker_up");
    load_await_running(all.fx, 2);
    broker_ctl("close_all_connections --vhost %s bye", all.fx->vhost);
    fleet_await_lines(&all, "event=broker_up", ups + FLEET_WORKERS);
    await_woken("close_all_connections");
    check("close_all_connections");
}

/* --- it forgets --- */

/* With workers that are frozen for a moment, so that wake-ups wait in the queue. */
static void test_queue_purged(void **state)
{
    (void)state;
    struct broker *b = broker_open(all.fx->amqp_url);
    load_await_running(all.fx, 2);
    fleet_signal_workers(&all, SIGSTOP);
    int64_t deadline_ms = patience_end_ms(FLEET_UP_MS);
    while (broker_depth(b, "default/a") < FLEET_PER_S) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 5);
    }
    broker_purge(b, "default/a");
    fleet_signal_workers(&all, SIGCONT);
    broker_close(b);
    check("queue purged");
}

static void test_queue_deleted(void **state)
{
    (void)state;
    load_await_running(all.fx, 2);
    struct broker *b = broker_open(all.fx->amqp_url);
    broker_delete_queue(b, "default/a");
    await_woken("queue deleted");
    assert_true(broker_depth(b, "default/a") >= 0);
    broker_close(b);
    check("queue deleted");
}

static void test_permission_revoked(void **state)
{
    (void)state;
    size_t ups = fleet_lines(&all, "event=broker_up"),
           downs = fleet_lines(&all, "event=broker_down");
    load_await_running(all.fx, 2);
    broker_ctl("eval 'rabbit_auth_backend_internal:clear_permissions(<<\"tenon\">>, <<\"%s\">>, "
               "<<\"test\">>), [rabbit_networking:close_connection(P, \"test\") || P <- "
               "rabbit_networking:connections()].'",
               all.fx->vhost);
    fleet_await_lines(&all, "event=broker_down", downs + FLEET_WORKERS);
    fleet_do_without(&all, 1000);
    broker_ctl("set_permissions -p %s tenon '.*' '.*' '.*'", all.fx->vhost);
    fleet_await_lines(&all, "event=broker_up", ups + FLEET_WORKERS);
    await_woken("permission revoked and given back");
    check("permission revoked and given back");
}

/* --- it blocks --- */

/* While it is on, nobody's message comes in. */
static void alarmed(const char *fault, const char *resource, const char *set, const char *clear)
{
    struct broker *b = broker_open(all.fx->amqp_url);
    broker_spy(b, "spy", "default/a");
    int64_t since = last_placed();
    load_await_running(all.fx, 2);
    broker_ctl("%s", set);
    broker_ctl("eval 'true = lists:keymember({resource_limit, %s, node()}, 1, "
               "rabbit_alarm:get_alarms()).'",
               resource);
    int64_t before = broker_depth(b, "spy");
    fleet_do_without(&all, 2000);
    check("alarm");
    assert_int_equal(broker_depth(b, "spy"), before);
    broker_ctl("%s", clear);
    await_woken(fault);
    assert_true(broker_depth(b, "spy") > before);
    (void)watch_depth(b);
    assert_few_twice(b, since);
    broker_delete_queue(b, "spy");
    broker_close(b);
    check(fault);
}

static void test_memory_alarm(void **state)
{
    (void)state;
    alarmed("memory alarm", "memory", "set_vm_memory_high_watermark 0.000001",
            "set_vm_memory_high_watermark 0.4");
}

static void test_disk_alarm(void **state)
{
    (void)state;
    alarmed("disk alarm", "disk", "set_disk_free_limit 100000GB", "set_disk_free_limit 50MB");
}

/* --- it loses its patience --- */

/* RabbitMQ closes a channel whose messages are not acked in time. For all channels from now on. */
static void set_patience(int64_t timeout_ms, int64_t check_ms)
{
    size_t ups = fleet_lines(&all, "event=broker_up");
    broker_ctl("eval 'application:set_env(rabbit, consumer_timeout, %lld), "
               "application:set_env(rabbit, channel_tick_interval, %lld).'",
               (long long)timeout_ms, (long long)check_ms);
    broker_ctl("close_all_connections --vhost %s bye", all.fx->vhost);
    fleet_await_lines(&all, "event=broker_up", ups + FLEET_WORKERS);
    await_woken("other settings");
}

/* As many tasks as slots, each longer than RabbitMQ waits: wake-ups are acked when they are
 * claimed, and given back when no slot is free, so none gets too old. */
static void run_long_tasks(void)
{
    test_sql(
        all.fx,
        "INSERT INTO public.placed SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": %d}',"
        " priority => 9) FROM generate_series(1, %d)",
        LONG_TASK_MS, LONG_TASKS);
    check("tasks longer than consumer_timeout");
}

static void await_no_consumer(void)
{
    struct broker *b = broker_open(all.fx->amqp_url);
    int64_t deadline_ms = patience_end_ms(FLEET_UP_MS);
    while (broker_consumers(b, "default/a") > 0) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 20);
    }
    broker_close(b);
}

static void test_consumer_timeout(void **state)
{
    (void)state;
    const char *closed = "delivery acknowledgement on channel";
    set_patience(CONSUMER_TIMEOUT_MS, CONSUMER_TIMEOUT_MS / 8);
    run_long_tasks();
    assert_int_equal(fleet_lines(&all, closed), 0);
    /* only who is frozen with wake-ups in its hands meets it */
    fleet_signal_workers(&all, SIGSTOP);
    await_no_consumer();
    fleet_signal_workers(&all, SIGCONT);
    fleet_await_lines(&all, closed, FLEET_WORKERS);
    await_woken("consumer_timeout");
    check("consumer_timeout");
    set_patience(1800000, 60000);
}

static void test_all_ends_well(void **state)
{
    (void)state;
    load_stop(&all.load);
    fleet_check(&all, "in the end");
    fleet_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_closed), cmocka_unit_test(test_queue_purged),
        cmocka_unit_test(test_queue_deleted),      cmocka_unit_test(test_permission_revoked),
        cmocka_unit_test(test_memory_alarm),       cmocka_unit_test(test_disk_alarm),
        cmocka_unit_test(test_consumer_timeout),   cmocka_unit_test(test_restart),
        cmocka_unit_test(test_killed_and_away),    cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, fleet_close);
}
