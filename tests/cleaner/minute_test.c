/* label: e2e */
/* tenon.minute has what workers counted; a cleaner adds it up, counts what dead workers left, and
 * forgets it after a day. */
#include "tests/support/journal.h"
#include "tests/support/working.h"

#include <signal.h>

#define NOBODY "'00000000-0000-0000-0000-000000000000'"

static struct process *worker(struct fixture *fx)
{
    struct process *p = TENON(fx, "worker", "--slots", "2", "--handler", "good=exec true",
                              "--handler", "bad=exec false");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    return p;
}

static int64_t total(struct fixture *fx, const char *column, const char *kind)
{
    return test_sql_int(fx, "SELECT coalesce(sum(%s), 0) FROM tenon.minute WHERE kind = '%s'",
                        column, kind);
}

/* 20 good tasks that have waited for 11 s, 3 that fail, 2 that die of it: all is written while the
 * worker runs, and nothing twice when it stops. */
static void test_a_worker_writes_what_it_counted(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('good') FROM generate_series(1, 20);"
                 "UPDATE tenon.task SET created_at = now() - interval '11 s',"
                 " run_at = now() - interval '11 s';"
                 "SELECT tenon.enqueue('bad') FROM generate_series(1, 3);"
                 "SELECT tenon.enqueue('bad', max_attempts => 1) FROM generate_series(1, 2)");
    struct process *p = worker(fx);
    test_await(fx, LIMIT_MS, "SELECT sum(done) = 20 AND sum(failed) = 5 FROM tenon.minute");
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(total(fx, "started", "good"), 20);
    assert_int_equal(total(fx, "ended", "good"), 20);
    assert_int_equal(total(fx, "done", "good"), 20);
    assert_int_equal(total(fx, "failed", "good"), 0);
    assert_true(total(fx, "wait_us", "good") >= 20 * 11000000LL);
    assert_true(total(fx, "run_us", "good") > 0);
    /* between 10 and 30 s */
    assert_int_equal(test_sql_int(fx, "SELECT sum(waits[12]) FROM tenon.minute WHERE kind = 'good'"
                                      " AND cardinality(waits) = 12"),
                     20);
    assert_int_equal(test_sql_int(fx, "SELECT sum(n) FROM tenon.minute CROSS JOIN unnest(runs) n"
                                      " WHERE kind = 'good'"),
                     20);
    assert_int_equal(total(fx, "started", "bad"), 5);
    assert_int_equal(total(fx, "failed", "bad"), 5);
    assert_int_equal(total(fx, "dead", "bad"), 2);
    assert_int_equal(total(fx, "done", "bad"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.minute m WHERE NOT EXISTS"
                                      " (SELECT FROM tenon.worker WHERE id = m.worker_id)"),
                     0);
}

/* What it counted between its last ping and SIGTERM. */
static void test_it_writes_the_rest_when_it_stops(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('good') FROM generate_series(1, 50)");
    free(TENON_RUN(fx, 0, "worker", "--until-empty", "--handler", "good=exec true"));
    assert_int_equal(total(fx, "done", "good"), 50);
}

/* It is told once, and nothing is lost. */
static void test_what_cannot_be_written_comes_later(void **state)
{
    struct fixture *fx = *state;
    struct process *p = worker(fx);
    test_sql(fx, "ALTER TABLE tenon.minute RENAME TO away; SELECT tenon.enqueue('good')");
    process_await_line(p, "event=minute_failed", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('good')");
    test_await(fx, LIMIT_MS, "SELECT NOT EXISTS (SELECT FROM tenon.task)");
    test_sql(fx, "ALTER TABLE tenon.away RENAME TO minute");
    test_await(fx, LIMIT_MS, "SELECT sum(done) = 2 FROM tenon.minute");
    assert_int_equal(process_lines(p, "event=minute_failed"), 1);
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(total(fx, "done", "good"), 2);
}

static void test_a_cleaner_counts_what_a_dead_worker_left(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *p = TENON(fx, "worker", "--slots", "2", "--handler", "slow=exec sleep 600");
    test_sql(fx, "SELECT tenon.enqueue('slow'), tenon.enqueue('slow', queue => 'default',"
                 " max_attempts => 1, timeout => '1 h')");
    test_await(fx, LIMIT_MS, "SELECT count(start_time) = 2 FROM tenon.task");
    process_kill(p);
    test_await(fx, LIMIT_MS, "SELECT sum(failed) = 2 FROM tenon.minute WHERE worker_id = " NOBODY);
    assert_int_equal(total(fx, "failed", "slow"), 2);
}

/* Those of two workers become one, beside what is there already; what is younger stays; what is
 * older becomes 5 or 20 minutes or an hour, and what is over three days old goes. */
static void test_they_are_added_up(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.minute SELECT date_trunc('minute', now() - ago), queue, 'a', id,"
             " n, n, n, n, n, n * 1000, n * 1000, CASE WHEN n %% 2 = 0 THEN ARRAY[0, n] ELSE"
             " ARRAY[n, 0, 1] END, ARRAY[n] FROM (VALUES"
             " (interval '5 min', 'q', gen_random_uuid(), 1), ('5 min', 'q', gen_random_uuid(), 2),"
             " ('5 min', 'q', " NOBODY ", 4), ('5 min', 'r', gen_random_uuid(), 8),"
             " ('1 min', 'q', gen_random_uuid(), 16), ('75 hours', 'q', " NOBODY ", 32))"
             " v (ago, queue, id, n)");
    test_sql(
        fx,
        "INSERT INTO tenon.minute SELECT date_trunc('hour', now() - interval '30 h', 'UTC') + at,"
        " 'h', 'b', id, n, n, n, n, n, n, n FROM (VALUES (interval '0', " NOBODY ", 1),"
        " ('0', gen_random_uuid(), 2), ('59 min', " NOBODY ", 4)) v (at, id, n)");
    test_sql(fx, "INSERT INTO tenon.minute SELECT date_bin(step, now() - ago, '2000-01-01Z') + at,"
                 " 'd', 'b', " NOBODY ", n, n, n, n, n, n, n FROM (VALUES (interval '5 min',"
                 " interval '2 h', interval '0', 1), ('5 min', '2 h', '4 min', 2),"
                 " ('20 min', '8 h', '0', 4), ('20 min', '8 h', '19 min', 8))"
                 " v (step, ago, at, n)");
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.minute"), 6);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.minute WHERE queue = 'd'"
                                      " AND (done = 3 AND minute = date_bin('5 min', minute,"
                                      " '2000-01-01Z') OR done = 12 AND minute = date_bin("
                                      "'20 min', minute, '2000-01-01Z'))"),
                     2);
    assert_int_equal(test_sql_int(fx, "SELECT done FROM tenon.minute WHERE queue = 'h' AND minute ="
                                      " date_trunc('hour', minute, 'UTC')"),
                     7);
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_int_equal(test_sql_int(fx, "SELECT done FROM tenon.minute WHERE queue = 'h'"), 7);
    assert_int_equal(test_sql_int(fx, "SELECT done + run_us FROM tenon.minute"
                                      " WHERE queue = 'q' AND worker_id = " NOBODY),
                     7007);
    assert_true(test_sql_bool(fx, "SELECT waits = '{1,6,1}' AND runs = '{7,0,0}' FROM tenon.minute"
                                  " WHERE queue = 'q' AND worker_id = " NOBODY));
    assert_int_equal(test_sql_int(fx, "SELECT started FROM tenon.minute WHERE queue = 'r'"), 8);
    assert_int_equal(total(fx, "failed", "a"), 31);
}

/* Three days of minutes, of which no step of the page's graphs loses any. */
static void test_three_days_are_few_rows(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "INSERT INTO tenon.minute SELECT date_trunc('minute', now()) - i * interval"
                 " '1 min', 'q', 'a', gen_random_uuid(), 1, 1, 1, 0, 0, 1, 1, '{1}', '{0,1}'"
                 " FROM generate_series(0, 71 * 60) i");
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_int_equal(test_sql_int(fx, "SELECT sum(waits[1]) FROM tenon.minute"), 71 * 60 + 1);
    assert_int_equal(test_sql_int(fx, "SELECT sum(runs[2]) FROM tenon.minute"), 71 * 60 + 1);
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.minute") < 250);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.minute WHERE minute >"
                                      " now() - interval '1 h' AND done > 1"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker_writes_what_it_counted),
        WITH_SERVERS(test_it_writes_the_rest_when_it_stops),
        WITH_SERVERS(test_what_cannot_be_written_comes_later),
        WITH_SERVERS(test_a_cleaner_counts_what_a_dead_worker_left),
        WITH_SERVERS(test_they_are_added_up),
        WITH_SERVERS(test_three_days_are_few_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
