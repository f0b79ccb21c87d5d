/* label: e2e */
/* timeout: 120 */
/* long: 240 */
/* only: all */
/* `--http` of a cleaner that leads: what it counts is what it did, and what it gathers is so. */
#include "tests/support/proxy.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include "core/base/point.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define FREE_PORT "--http", "127.0.0.1:0"

static struct process *leader(struct fixture *fx, const char *amqp_url)
{
    struct process *p = TENON(fx, "cleaner", FREE_PORT, "--amqp-url", amqp_url);
    process_await_line(p, "event=leader", LIMIT_MS);
    return p;
}

static struct process *stuck_worker(struct fixture *fx)
{
    return TENON(fx, "worker", "--slots", "1", "--handler", "stuck=exec sleep 600");
}

/* Two workers die with a task each, of which one has killed two before. */
static void test_recoveries(void **state)
{
    struct fixture *fx = *state;
    struct process *p = leader(fx, fx->amqp_url);
    struct web w = scrape_at(p);
    test_sql(fx, "SELECT tenon.enqueue('stuck') FROM generate_series(1, 2);"
                 "UPDATE tenon.task SET crashes = 2 WHERE id = 2");
    struct process *both[] = {stuck_worker(fx), stuck_worker(fx)};
    test_await(fx, LIMIT_MS, "SELECT count(worker_id) = 2, count(worker_id) FROM tenon.task");
    test_sql(fx,
             "INSERT INTO tenon.suspect SELECT id, 2, tenon.progress_mark(t), true, now(), claims"
             " FROM tenon.task t WHERE id = 2"); /* it runs alone */
    struct process *third =
        TENON(fx, "worker", "--slots", "3", "--drain-limit", "10min", "--handler",
              "other=echo \"$TENON_TASK_ID 1 $$ start 1\" >>\"$TEST_JOURNAL\"; exec sleep 600");
    scrape_await(&w, "tenon_workers{state=\"alive\"}", 3, LIMIT_MS);
    scrape_await(&w, "tenon_slots", 5, LIMIT_MS);
    for (int i = 0; i < 2; i++) {
        process_signal(both[i], SIGKILL);
    }
    scrape_await(&w, "tenon_recoveries_total", 2, LIMIT_MS);
    scrape_await(&w, "tenon_recoveries_dead_total", 1, LIMIT_MS);
    scrape_await(&w, "tenon_workers_dead_total", 2, LIMIT_MS);
    scrape_await(&w, "tenon_workers{state=\"alive\"}", 1, LIMIT_MS);
    scrape_await(&w, "tenon_slots", 3, LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('other')");
    journal_await_started(fx, 1, LIMIT_MS); /* what has only been claimed would be given back */
    process_signal(third, SIGTERM);         /* it waits for its task */
    scrape_await(&w, "tenon_workers{state=\"draining\"}", 1, LIMIT_MS);
    process_signal(third, SIGKILL);
    end_well(p);
}

/* One that ticks, and one that another transaction holds. */
static void test_schedules(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_schedule('ticks', every => '1 h', kind => 'nobodys');"
                 "SELECT tenon.set_schedule('held', every => '1 h', kind => 'nobodys');"
                 "UPDATE tenon.schedule SET due_at = now() - interval '2 h' WHERE name = 'held';"
                 "UPDATE tenon.schedule SET due_at = now(), next_at = now() WHERE name = 'ticks'");
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT * FROM tenon.schedule WHERE name = 'held' FOR UPDATE");
    struct process *p = leader(fx, "none");
    struct web w = scrape_at(p);
    scrape_await(&w, "tenon_schedule_ticks_total", 1, LIMIT_MS);
    scrape_await(&w, "tenon_schedules_late", 1, LIMIT_MS);
    char *page = scrape(&w);
    assert_true(scrape_value(page, "tenon_schedule_late_seconds") >= 7000);
    free(page);
    sql_run(other, "ROLLBACK");
    PQfinish(other);
    scrape_await(&w, "tenon_schedules_late", 0, LIMIT_MS);
    scrape_await(&w, "tenon_schedule_late_seconds", 0, LIMIT_MS);
    end_well(p);
}

static void enqueue_five(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 5)");
}

/* Nobody announced them, so the leader does: through RabbitMQ, and by NOTIFY while that is away, or
 * without it. */
static void test_wakeups(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    proxy_open(&proxy, fx->amqp_url);
    struct process *p = leader(fx, proxy.url);
    struct web w = scrape_at(p);
    declare(fx);
    enqueue_five(fx);
    scrape_await(&w, "tenon_wakeups_published_total", 5, LIMIT_MS);
    scrape_await(&w, "tenon_wakeups_total{reason=\"fresh\"}", 5, LIMIT_MS);
    scrape_await(&w, "tenon_tasks_enqueued_total", 5, LIMIT_MS);
    char *page = scrape(&w);
    assert_true(scrape_value(page, "tenon_wakeups_held_back_total") == 0);
    assert_true(scrape_value(page, "tenon_wakeups_dropped_total") == 0);
    assert_true(scrape_value(page, "tenon_notifies_total") == 0);
    assert_true(scrape_value(page, "tenon_heap_bytes") > 1000);
    assert_true(scrape_value(page, "tenon_build_info{part=\"cleaner\",version=\"" TENON_VERSION
                                   "\"}") == 1);
    free(page);
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    scrape_await(&w, "tenon_broker_up", 0, LIMIT_MS);
    enqueue_five(fx);
    scrape_await(&w, "tenon_wakeups_total{reason=\"fresh\"}", 10, LIMIT_MS);
    page = scrape(&w);
    assert_true(scrape_value(page, "tenon_notifies_total") >= 1);
    free(page);
    end_well(p);
    proxy_close(&proxy);
    p = leader(fx, "none");
    w = scrape_at(p);
    enqueue_five(fx);
    scrape_await(&w, "tenon_wakeups_total{reason=\"fresh\"}", 5, LIMIT_MS);
    page = scrape(&w);
    assert_true(scrape_value(page, "tenon_notifies_total") >= 1);
    assert_true(scrape_value(page, "tenon_wakeups_published_total") == -1);
    free(page);
    end_well(p);
}

/* A leader that stands still, and goes on: with TEST_LONG=1, as it may stand for a minute. */
static void test_live_while_it_stands_still(void **state)
{
#ifdef TENON_POINTS
    if (!getenv("TEST_LONG")) {
        print_message("skipped: runs with TEST_LONG=1, as in script/nightly\n");
        skip();
    }
    struct fixture *fx = *state;
    const char *const args[] = {"cleaner", FREE_PORT, NULL};
    struct process *p = tenon_spawn(fx, args,
                                    (const char *const[]){"TENON_POINT=fresh_published:1:sleep="
                                                          "75000",
                                                          NULL});
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "it leads", LIMIT_MS);
    scrape_await_probe(&w, "/live", 200, "moves", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    scrape_await_probe(&w, "/live", 503, "the main loop has not moved for", 90000);
    scrape_await_probe(&w, "/ready", 503, "the main loop has not moved for", LIMIT_MS);
    scrape_await_probe(&w, "/live", 200, "moves", LIMIT_MS);
    scrape_await(&w, "tenon_wakeups_total{reason=\"fresh\"}", 1, LIMIT_MS);
    end_well(p);
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_recoveries),
        WITH_DATABASE(test_schedules),
        WITH_SERVERS(test_wakeups),
        WITH_SERVERS(test_live_while_it_stands_still),
    };
    return RUN_GROUP(tests);
}
