/* label: e2e */
/* The leading cleaner counts all tasks: seldom enough, beside its chores, and no longer than it
 * leads. */
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include "core/base/now.h"

#include <signal.h>
#include <stdlib.h>

static struct process *leader(struct fixture *fx)
{
    struct process *p = TENON(fx, "cleaner", "--http", "127.0.0.1:0", "--amqp-url", "none");
    process_await_line(p, "event=leader", LIMIT_MS);
    return p;
}

/* A count that takes this long, and leaves a row that says when it began and ended. */
static void slow_counts(struct fixture *fx, double seconds)
{
    test_sql(fx,
             "CREATE TABLE public.counts (begun timestamptz, ended timestamptz);"
             "CREATE OR REPLACE FUNCTION tenon.count_depth() RETURNS boolean LANGUAGE plpgsql AS"
             " $$ BEGIN PERFORM pg_sleep(%g);"
             " INSERT INTO public.counts VALUES (statement_timestamp(), clock_timestamp());"
             " RETURN true; END $$",
             seconds);
}

static const char counting[] = "SELECT count(*) = %d FROM pg_stat_activity WHERE datname ="
                               " current_database() AND query ~ '^-- Count all tasks|count_depth'"
                               " AND state = 'active' AND pid <> pg_backend_pid()";

static void test_the_leader_counts(void **state)
{
    struct fixture *fx = *state;
    struct process *first = leader(fx);
    struct process *second = TENON(fx, "cleaner", "--amqp-url", "none");
    process_await_line(second, "event=cleaner_started", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'q') FROM generate_series(1, 5)");
    test_await(fx, LIMIT_MS, "SELECT ready = 5 FROM tenon.depth WHERE queue = 'q'");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM pg_stat_activity WHERE datname ="
                                      " current_database() AND application_name ="
                                      " 'tenon cleaner depth'"),
                     1);
    process_signal(first, SIGKILL);
    process_await_line(second, "event=leader", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'q') FROM generate_series(1, 5)");
    test_await(fx, LIMIT_MS, "SELECT ready = 10 FROM tenon.depth WHERE queue = 'q'");
    end_well(second);
}

/* A twentieth of the time at most is spent on counting. */
static void test_the_pace(void **state)
{
    struct fixture *fx = *state;
    slow_counts(fx, 0.3);
    struct process *p = leader(fx);
    test_await(fx, LIMIT_MS, "SELECT count(*) >= 3 FROM public.counts");
    char *hurried = test_sql_text(
        fx, "SELECT string_agg(x::text, ' ') FROM (SELECT *, lag(ended) OVER w AS last_ended,"
            " lag(ended - begun) OVER w AS last_took FROM public.counts WINDOW w AS"
            " (ORDER BY begun)) x WHERE begun - last_ended < 20 * last_took - interval '100 ms'");
    if (hurried) {
        fail_msg("%s", hurried);
    }
    end_well(p);
}

/* While a count takes long, the chores are done, and the end of the cleaner ends it. */
static void test_a_long_count(void **state)
{
    struct fixture *fx = *state;
    slow_counts(fx, 30);
    struct process *p = leader(fx);
    test_await(fx, LIMIT_MS, counting, 1);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.enqueue('a', limit_keys => '{t}')");
    test_await(fx, LIMIT_MS, "SELECT run_at < 'infinity' FROM tenon.task"); /* it is let go */
    test_await(fx, LIMIT_MS, counting, 1);
    int64_t start_ms = now_ms();
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_took(start_ms, 2000);
    test_await(fx, LIMIT_MS, counting, 0); /* the server looks once a second */
    assert_in_range(now_ms() - start_ms, 0, 25000);
    assert_int_equal(process_lines(p, "event=depth_failed"), 0);
}

/* It is told as chores that fail are. */
static void test_counts_that_fail(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "ALTER FUNCTION tenon.count_depth RENAME TO count_none");
    struct process *p = leader(fx);
    struct web w = scrape_at(p);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.failing WHERE name = 'depth'");
    scrape_await(&w, "tenon_chore_failing{chore=\"depth\"}", 1, LIMIT_MS);
    assert_int_equal(process_lines(p, "event=depth_failed"), 1);
    test_sql(fx, "ALTER FUNCTION tenon.count_none RENAME TO count_depth");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.failing WHERE name = 'depth'");
    scrape_await(&w, "tenon_chore_failing{chore=\"depth\"}", 0, LIMIT_MS);
    process_await_line(p, "event=depth_recovered", LIMIT_MS);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_the_leader_counts),
        WITH_DATABASE(test_the_pace),
        WITH_DATABASE(test_a_long_count),
        WITH_DATABASE(test_counts_that_fail),
    };
    return RUN_GROUP(tests);
}
