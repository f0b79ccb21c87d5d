/* label: e2e */
/* timeout: 300 */
/* What a worker claims, and when: messages, polls, many workers. */
#include "tests/support/working.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void test_a_message_starts_a_task_and_is_acked(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    for (int i = 0; i < 20; i++) {
        int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', announced => true)");
        publish(fx, id);
        test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
                   (long long)id);
    }
    /* far sooner than polls, one a second, could do */
    assert_true(test_sql_bool(
        fx,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY start_time - created_at) < '500 ms' "
        "FROM tenon.history"));
    end_well(p);
    struct broker *b = broker_open(fx->amqp_url);
    assert_int_equal(broker_depth(b, "default/a"), 0);
    broker_close(b);
    assert_each_ran_once(fx, 20);
}

static void test_without_a_broker_all_tasks_run(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 500)");
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--slots", "2", "--handler",
                              handler(h, "a=pool:exec %s 8", "pool"));
    await_done(fx, 500);
    end_well(p);
    assert_each_ran_once(fx, 500);
}

/* Each step's task lies where a poll that leaves something out does not go: that poll says nothing
 * yet, and another one follows at once and not after a second. */
static void test_where_a_poll_did_not_go_tasks_start_at_once(void **state)
{
    enum { TASKS = 15 };
    struct fixture *fx = *state;
    char h[256];
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--slots", "1", "--handler",
                              handler(h, "a=pool:exec %s 1", "pool"));
    for (int i = 1; i <= TASKS; i++) {
        test_sql(fx,
                 "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 100}', priority => %d)",
                 i % 2 ? 4 : 9);
        test_await(fx, LIMIT_MS, "SELECT start_time IS NOT NULL FROM tenon.tasks WHERE id = %d", i);
    }
    await_done(fx, TASKS);
    assert_true(test_sql_bool(
        fx, "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY after) < '500 ms' FROM (SELECT"
            " start_time - lag(finished_at) OVER (ORDER BY id) AS after FROM tenon.history) t"));
    end_well(p);
}

/* The message may come first; the task starts when its transaction commits, whenever that is. */
static void message_before_commit(struct fixture *fx, const char *held_for)
{
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN");
    int64_t id = sql_int(other, "SELECT tenon.enqueue('a', announced => true)");
    publish(fx, id);
    sql_run(other, "SELECT pg_sleep(%s)", held_for); /* the transaction goes on */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks WHERE id = %lld",
                                  (long long)id),
                     0);
    sql_run(other, "COMMIT");
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
               (long long)id);
    PQfinish(other);
}

static void test_a_message_may_overtake_its_commit(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    static const char *const held_for[] = {"0", "0.03", "0.2", "1", "5", "30"};
    for (size_t i = 0; i < sizeof held_for / sizeof *held_for; i++) {
        message_before_commit(fx, held_for[i]);
    }
    end_well(p);
    assert_each_ran_once(fx, sizeof held_for / sizeof *held_for);
}

static void test_what_is_rolled_back_never_runs(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    for (int i = 0; i < 20; i++) {
        PGconn *other = sql_connect(fx->database_url);
        sql_run(other, "BEGIN");
        publish(fx, sql_int(other, "SELECT tenon.enqueue('a', announced => true)"));
        sql_run(other, "ROLLBACK");
        PQfinish(other);
    }
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
               (long long)id);
    end_well(p);
    struct journal j;
    journal_read(fx, &j);
    assert_int_equal(j.n, 1);
    assert_int_equal(j.runs[0].id, id);
    journal_clear(&j);
}

static void test_stale_doubled_and_hostile_messages_change_nothing(void **state)
{
    struct fixture *fx = *state;
    static const char *const bodies[] = {"",
                                         "0",
                                         "-1",
                                         "+5",
                                         " 5",
                                         "5 ",
                                         "abc",
                                         "1e3",
                                         "99999999999999999999",
                                         "' OR 1=1 --",
                                         "9223372036854775807",
                                         "12345678901234567890123"};
    declare(fx);
    struct process *p = pool_worker(fx, "2", "4");
    process_await_line(p, "event=broker_up", LIMIT_MS);
    struct broker *b = broker_open(fx->amqp_url);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        broker_publish(b, "default/a", bodies[i], strlen(bodies[i]));
    }
    broker_publish(b, "default/a", "\0\xff\n5", 4);
    char big[70000];
    memset(big, '7', sizeof big);
    broker_publish(b, "default/a", big, sizeof big);
    /* another queue, an unknown kind, a task that lies ahead: no message may start these */
    int64_t other = test_sql_int(fx, "SELECT tenon.enqueue('a', queue => 'elsewhere')");
    int64_t unknown = test_sql_int(fx, "SELECT tenon.enqueue('nobody')");
    int64_t ahead = test_sql_int(fx, "SELECT tenon.enqueue('a', delay => '1 hour')");
    int64_t good = test_sql_int(fx, "SELECT tenon.enqueue('a', announced => true)");
    const int64_t ids[] = {other, unknown, ahead, good, good, good};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        publish(fx, ids[i]);
    }
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
               (long long)good);
    publish(fx, good); /* stale */
    int64_t last = test_sql_int(fx, "SELECT tenon.enqueue('a', announced => true)");
    publish(fx, last);
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE id = %lld",
               (long long)last);
    end_well(p);
    assert_each_ran_once(fx, 2);
    assert_true(process_lines(p, "event=wakeups_rejected") > 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS NULL"),
                     3);
    assert_int_equal(broker_depth(b, "default/a"), 0);
    broker_close(b);
}

static void test_many_workers_run_each_task_once(void **state)
{
    struct fixture *fx = *state;
    struct process *p[4];
    enum { TASKS = 3000 };
    declare(fx);
    for (int i = 0; i < 4; i++) {
        p[i] = pool_worker(fx, "2", "16");
    }
    for (int i = 0; i < 4; i++) {
        process_await_line(p[i], "event=broker_up", LIMIT_MS);
    }
    test_sql(fx, "SELECT tenon.enqueue('a', announced => true) FROM generate_series(1, %d)", TASKS);
    struct broker *b = broker_open(fx->amqp_url);
    for (int i = 0; i < TASKS; i++) { /* each id three times */
        char body[24];
        int n = snprintf(body, sizeof body, "%d", i % 1000 * 3 % TASKS + 1);
        broker_publish(b, "default/a", body, (size_t)n);
    }
    await_done(fx, TASKS);
    for (int i = 0; i < 4; i++) {
        end_well(p[i]);
    }
    broker_close(b);
    assert_each_ran_once(fx, TASKS);
}

static void test_work_is_shared_fairly(void **state)
{
    struct fixture *fx = *state;
    struct process *p[3];
    struct journal j;
    declare(fx);
    for (int i = 0; i < 3; i++) {
        p[i] = pool_worker(fx, "1", "1");
        process_await_line(p[i], "event=broker_up", LIMIT_MS);
    }
    /* each child is up before it counts */
    test_sql(
        fx,
        "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 1500}') FROM generate_series(1, "
        "3)");
    await_done(fx, 3);
    test_sql(fx, "SELECT tenon.pause('default')");
    test_await(fx, LIMIT_MS, "SELECT true");
    test_sql(fx,
             "BEGIN; SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 300}', announced => "
             "true) FROM generate_series(1, 30);"
             "SELECT tenon.resume('default'); COMMIT");
    for (int64_t id = 4; id <= 33; id++) {
        publish(fx, id);
    }
    await_done(fx, 33);
    journal_read(fx, &j);
    int counts[3] = {0}, pids[3] = {0};
    for (size_t i = 0; i < j.n; i++) {
        for (int k = 0; k < 3; k++) {
            if (pids[k] == 0 || pids[k] == j.runs[i].pid) {
                pids[k] = j.runs[i].pid;
                counts[k] += j.runs[i].id > 3;
                break;
            }
        }
    }
    for (int k = 0; k < 3; k++) {
        assert_in_range(counts[k], 9, 11);
    }
    assert_int_equal(journal_overlaps(&j), 0);
    journal_clear(&j);
    for (int i = 0; i < 3; i++) {
        end_well(p[i]);
    }
}

static void test_priority_goes_first(void **state)
{
    struct fixture *fx = *state;
    struct journal j;
    for (int priority = 0; priority <= 9; priority++) {
        test_sql(fx, "SELECT tenon.enqueue('a', priority => %d) FROM generate_series(1, 3)",
                 priority);
    }
    char h[256];
    free(TENON_RUN(fx, 0, "worker", "--slots", "1", "--handler",
                   handler(h, "a=exec %s", "journal.sh"), "--until-empty"));
    journal_read(fx, &j);
    assert_int_equal(j.n, 30);
    int inversions = 0;
    for (size_t i = 1; i < j.n; i++) {
        inversions += (j.runs[i].id - 1) / 3 > (j.runs[i - 1].id - 1) / 3;
    }
    /* once in five seconds the lowest goes first, so that nothing starves */
    assert_in_range(inversions, 0, 3);
    journal_clear(&j);
}

/* Also of those that one poll claims together, wherever their rows lie. */
static void test_what_was_ready_first_goes_first(void **state)
{
    struct fixture *fx = *state;
    struct journal j;
    test_sql(fx, "SELECT tenon.enqueue('a', priority => n %% 2) FROM generate_series(1, 20) n");
    test_sql(fx, "UPDATE tenon.task SET run_at = run_at - id * interval '1 second'");
    char h[256];
    free(TENON_RUN(fx, 0, "worker", "--slots", "1", "--handler",
                   handler(h, "a=exec %s", "journal.sh"), "--until-empty"));
    journal_read(fx, &j);
    assert_int_equal(j.n, 20);
    for (size_t i = 0; i < j.n; i++) {
        assert_int_equal(j.runs[i].id, i < 10 ? 19 - 2 * (int)i : 40 - 2 * (int)i);
    }
    journal_clear(&j);
}

static int64_t heap_now(struct process *p, size_t statistics)
{
    process_signal(p, SIGUSR1);
    char text[64];
    for (size_t n = 0; n <= statistics; n = process_lines(p, "event=statistics")) {
        process_await_line(p, "event=statistics", LIMIT_MS);
    }
    char *log = file_text(p->log), *last = NULL;
    for (char *at = log; (at = strstr(at, "heap_bytes=")); at++) {
        last = at;
    }
    assert_non_null(last);
    (void)snprintf(text, sizeof text, "%.20s", last + strlen("heap_bytes="));
    free(log);
    return strtoll(text, NULL, 10);
}

static void run_tasks(struct fixture *fx, int from, int to)
{
    test_sql(
        fx,
        "SELECT tenon.enqueue_many('a', array_fill('{\"pad\": \"0123456789\"}'::jsonb, ARRAY[%d]))",
        to - from);
    test_await(fx, 120000, "SELECT count(*) = %d, count(*) FROM tenon.history", to);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.task");
}

static void test_memory_does_not_grow_with_tasks(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    struct process *p = TENON(fx, "worker", "--slots", "2", "--handler",
                              handler(h, "a=pool:exec %s 64", "pool"));
    run_tasks(fx, 0, 10000);
    int64_t early = heap_now(p, 0);
    run_tasks(fx, 10000, 50000);
    int64_t late = heap_now(p, 1);
    end_well(p); /* and LeakSanitizer has nothing to say */
    if (late > early + early / 10) {
        fail_msg("%lld bytes were allocated after 10,000 tasks, %lld after 50,000",
                 (long long)early, (long long)late);
    }
    assert_each_ran_once(fx, 50000);
}

static void test_a_paused_queue_stands_still(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.pause('default')");
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS,
               "SELECT clock_timestamp() > created_at + interval '2.5 s' FROM tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE claims = 0"), 1);
    test_sql(fx, "SELECT tenon.resume('default')");
    await_done(fx, 1);
    end_well(p);
}

static void test_without_a_history_done_tasks_leave_no_trace(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_keep = '0'");
    struct process *p = pool_worker(fx, "2", "16");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"fail\"}')");
    test_await(fx, LIMIT_MS, "SELECT failures = 1 FROM tenon.task WHERE kind = 'a'");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 200)");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.task WHERE kind = 'a'");
    end_well(p);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 0);
    assert_int_equal(process_lines(p, "event=claim_lost"), 0);
    assert_each_ran_once(fx, 201);
}

/* Whoever knows one claim whole, and of its neighbours all but the keys, cannot act for them: ten
 * thousand keys around its own open none, and each bit of a key is as often 0 as 1. */
static void test_a_claim_cannot_be_guessed(void **state)
{
    enum { TASKS = 300 };
    struct fixture *fx = *state;
    char h[256];
    test_sql(fx,
             "SELECT tenon.enqueue('a', '{\"ms\": -1}') FROM"
             " generate_series(1, %d)",
             TASKS);
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--slots", "1", "--handler",
                              handler(h, "a=pool:exec %s 300", "concurrent"));
    test_await(fx, LIMIT_MS, "SELECT count(claim_key) = %d FROM tenon.task", TASKS);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT claim_key) FROM tenon.task"), TASKS);
    /* 150 of 300, and seven deviations: one run in 10 ^ 10 would fail by chance */
    char *lopsided =
        test_sql_text(fx,
                      "SELECT coalesce(string_agg(bit || ': ' || n, ', '), '') FROM (SELECT bit,"
                      " sum(claim_key >> bit & 1) AS n FROM tenon.task, generate_series(0, 63) bit"
                      " GROUP BY bit) b WHERE n NOT BETWEEN 89 AND 211");
    assert_string_equal(lopsided, "");
    free(lopsided);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM tenon.task own, LATERAL (SELECT array_agg("
                         "format('%%s/1/%%s', 2 + n %% 299, lpad(to_hex(claim_key + n - 5000), 16,"
                         " '0'))) AS guesses FROM generate_series(1, 10000) n) g, LATERAL"
                         " unnest(tenon.finish_many(guesses, skip_lost => true)) f"
                         " WHERE own.id = 1 AND f"),
        0);
    process_kill(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_message_starts_a_task_and_is_acked),
        WITH_SERVERS(test_without_a_broker_all_tasks_run),
        WITH_SERVERS(test_where_a_poll_did_not_go_tasks_start_at_once),
        WITH_SERVERS(test_a_message_may_overtake_its_commit),
        WITH_SERVERS(test_what_is_rolled_back_never_runs),
        WITH_SERVERS(test_stale_doubled_and_hostile_messages_change_nothing),
        WITH_SERVERS(test_many_workers_run_each_task_once),
        WITH_SERVERS(test_work_is_shared_fairly),
        WITH_SERVERS(test_priority_goes_first),
        WITH_SERVERS(test_what_was_ready_first_goes_first),
        WITH_SERVERS(test_memory_does_not_grow_with_tasks),
        WITH_SERVERS(test_a_paused_queue_stands_still),
        WITH_SERVERS(test_without_a_history_done_tasks_leave_no_trace),
        WITH_SERVERS(test_a_claim_cannot_be_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
