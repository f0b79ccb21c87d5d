#include "tests/support/fleet.h"

#include "core/base/now.h"
#include "tests/support/servers.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum { CHECK_LIMIT_MS = 20000 };

void fleet_start(struct fleet *all, struct fixture *fx)
{
    char h[256];
    all->fx = fx;
    for (int i = 0; i < FLEET_WORKERS; i++) {
        all->workers[i] = TENON(fx, "worker", "--slots", "2", "--handler",
                                handler(h, "a=pool:exec %s 1", "pool"));
    }
    all->cleaner = TENON(fx, "cleaner");
    fleet_await_lines(all, "event=broker_up", FLEET_WORKERS);
    load_start(&all->load, fx, fx->amqp_url, FLEET_PER_S);
}

void fleet_end(struct fleet *all)
{
    assert_int_equal(test_sql_int(all->fx, "SELECT count(*) FROM tenon.task"), 0);
    for (int i = 0; i < FLEET_WORKERS; i++) {
        end_well(all->workers[i]);
    }
    end_well(all->cleaner);
}

int fleet_close(void **state)
{
    struct fleet *all = *state;
    if (all) {
        void *fixture = all->fx;
        (void)fixture_teardown(&fixture);
    }
    server_close();
    return 0;
}

size_t fleet_lines(const struct fleet *all, const char *text)
{
    size_t n = 0;
    for (int i = 0; i < FLEET_WORKERS; i++) {
        n += process_lines(all->workers[i], text);
    }
    return n;
}

void fleet_await_lines(const struct fleet *all, const char *text, size_t n)
{
    int64_t deadline_ms = patience_end_ms(FLEET_UP_MS);
    while (fleet_lines(all, text) < n) {
        if (now_ms() > deadline_ms) {
            fail_msg("%zu lines %s, not %zu", fleet_lines(all, text), text, n);
        }
        (void)poll(NULL, 0, 5);
    }
}

void fleet_signal_workers(const struct fleet *all, int signal)
{
    for (int i = 0; i < FLEET_WORKERS; i++) {
        process_signal(all->workers[i], signal);
    }
}

void fleet_signal_all(const struct fleet *all, int signal)
{
    fleet_signal_workers(all, signal);
    process_signal(all->cleaner, signal);
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        (void)kill(all->load.pids[i], signal);
    }
}

void fleet_check(struct fleet *all, const char *fault)
{
    struct load_counts counts;
    load_check(all->fx, CHECK_LIMIT_MS, 0, &counts);
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        int64_t slowest_us = atomic_exchange(&all->load.shared->slowest_us[i], 0);
        assert_in_range(slowest_us, 0, patience_loaded_ms(FLEET_PRODUCER_MS) * 1000);
    }
    assert_int_equal(all->load.shared->failures, 0);
    assert_int_equal(fleet_lines(all, "event=presence_lost"), 0);
    assert_int_equal(process_lines(all->cleaner, "event=worker_dead"), 0);
    for (int i = 0; i < FLEET_WORKERS; i++) {
        assert_false(process_is_gone(all->workers[i]));
    }
    assert_false(process_is_gone(all->cleaner));
    print_message("%s: %lld placed, lost 0, rolled back 0, doubled 0\n", fault,
                  (long long)counts.placed);
}

void fleet_await_judge(const struct fleet *all)
{
    test_await(all->fx, FLEET_JUDGE_MS + FLEET_UP_MS,
               "SELECT count(*) > 0, count(*) FROM pg_stat_activity WHERE application_name = "
               "'tenon cleaner' AND clock_timestamp() > backend_start + %d * interval '1 ms'",
               FLEET_JUDGE_MS);
}

/* The median from commit to start of the last 20 tasks placed since, in ms; -1: too few. */
static int64_t median_ms(struct fleet *all)
{
    return test_sql_int(
        all->fx, "SELECT CASE WHEN count(*) = 20 THEN extract(epoch FROM percentile_cont(0.5) "
                 "WITHIN GROUP (ORDER BY took)) * 1000 ELSE -1 END::bigint FROM "
                 "(SELECT start_time - created_at AS took FROM tenon.history, public.since "
                 "WHERE created_at > at ORDER BY created_at DESC LIMIT 20) t");
}

static void from_now(struct fleet *all)
{
    test_sql(all->fx, "CREATE TABLE IF NOT EXISTS public.since AS SELECT clock_timestamp() AS at;"
                      "UPDATE public.since SET at = clock_timestamp()");
}

void fleet_do_without(struct fleet *all, int64_t ms)
{
    int64_t until_ms = now_ms() + ms, late_ms = patience_end_ms(ms + CHECK_LIMIT_MS), median = -1;
    from_now(all);
    do {
        struct load_counts counts;
        load_check(all->fx, CHECK_LIMIT_MS, 0, &counts);
        median = median_ms(all);
    } while (now_ms() < until_ms || (median < 0 && now_ms() < late_ms));
    print_message("meanwhile half of the tasks start within %lld ms\n", (long long)median);
    assert_in_range(median, 0, patience_loaded_ms(FLEET_WITHOUT_MS));
}

void fleet_await_woken(struct fleet *all, const char *fault)
{
    int64_t start_ms = now_ms(), late_ms = patience_end_ms(FLEET_UP_MS), median = -1;
    from_now(all);
    while ((median = median_ms(all)) < 0 || median > patience_loaded_ms(FLEET_WOKEN_MS)) {
        if (now_ms() > late_ms) {
            fail_msg("half of the tasks start only after %lld ms", (long long)median);
        }
        (void)poll(NULL, 0, 20);
    }
    print_message("%s: messages wake workers again after %lld ms, half within %lld\n", fault,
                  (long long)(now_ms() - start_ms), (long long)median);
}
