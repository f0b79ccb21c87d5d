/* label: e2e */
/* timeout: 300 */
/* The worker against real servers: what it claims, how handlers end, how it ends itself. The verdicts
 * come from the handlers' journal. */
#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/journal.h"
#include "tests/support/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LIMIT_MS = 30000 };

/* "a=COMMAND" with the path of a handler of tests/support/handlers. */
static const char *handler(char text[256], const char *format, const char *name)
{
    char path[192];
    handler_path(name, path, sizeof path);
    (void)snprintf(text, 256, format, path);
    return text;
}

static struct process *pool_worker(struct fixture *fx, const char *slots, const char *in_flight)
{
    char h[256], format[64];
    (void)snprintf(format, sizeof format, "a=pool:exec %%s %s", in_flight);
    return TENON(fx, "worker", "--slots", slots, "--handler", handler(h, format, "pool"),
                 "--log-level", "debug");
}

static void publish(struct fixture *fx, int64_t id)
{
    char body[24];
    struct broker *b = broker_open(fx->amqp_url);
    int n = snprintf(body, sizeof body, "%lld", (long long)id);
    broker_publish(b, "default", body, (size_t)n);
    broker_close(b);
}

static void declare(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default");
    broker_close(b);
}

static void await_done(struct fixture *fx, int64_t n)
{
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = %lld, count(*) FROM tenon.tasks WHERE state = 'done'",
               (long long)n);
}

static void end_well(struct process *p)
{
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

static void assert_each_ran_once(struct fixture *fx, size_t tasks)
{
    struct journal j;
    journal_read(fx, &j);
    assert_int_equal(journal_tasks(&j), tasks);
    assert_int_equal(j.n, tasks);
    journal_clear(&j);
}

/* --- handlers --- */

static void test_exec_outcomes(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    const char *command = handler(h, "a=exec %s $(tr -d '\"')", "journal.sh");
    test_sql(fx, "SELECT tenon.enqueue('a', '\"exit 0\"')"); /* 1 */
    test_sql(fx, "SELECT tenon.enqueue('a', '\"exit 3\"')");
    test_sql(fx, "SELECT tenon.enqueue('a', '\"exit 65\"')");
    test_sql(fx, "SELECT tenon.enqueue('a', '\"exit 75\"')");
    test_sql(fx, "SELECT tenon.enqueue('a', '\"die KILL\"')"); /* 5 */
    test_sql(fx, "SELECT tenon.enqueue('a', '\"say hello\"')");
    free(TENON_RUN(fx, 0, "worker", "--handler", command, "--slots", "3", "--until-empty"));
    static const char *const states[] = {"done",      "retrying", "dead",
                                         "scheduled", "retrying", "done"};
    for (int i = 0; i < 6; i++) {
        char *now = test_sql_text(fx, "SELECT state FROM tenon.tasks WHERE id = %d", i + 1);
        assert_string_equal(now, states[i]);
        free(now);
    }
    assert_true(test_sql_bool(
        fx,
        "SELECT last_error LIKE 'exit status 3%%' AND failures = 1 FROM tenon.task WHERE id = 2"));
    assert_true(test_sql_bool(fx, "SELECT reason = 'handler' FROM tenon.dead WHERE id = 3"));
    assert_true(test_sql_bool(
        fx,
        "SELECT failures = 0 AND run_at > now() + interval '30 s' FROM tenon.task WHERE id = 4"));
    assert_true(test_sql_bool(
        fx, "SELECT last_error LIKE 'killed by signal 9%%' FROM tenon.task WHERE id = 5"));
    assert_true(test_sql_bool(fx, "SELECT result = '\"hello\"' FROM tenon.finished WHERE id = 6"));
    assert_each_ran_once(fx, 6);
}

static void test_pool_outcomes(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{}')"); /* 1 */
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"fail\"}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"dead\"}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"later\", \"delay_ms\": 3600000}')");
    test_sql(
        fx,
        "SELECT tenon.enqueue('a', '{\"do\": \"result\", \"x\": \"\\u00e4 \\\\\\\"\\n\"}')"); /* 5 */
    test_sql(fx, "SELECT tenon.enqueue('a', '{}', max_attempts => 1)");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"fail\"}', max_attempts => 1)");
    struct process *p = pool_worker(fx, "2", "4");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 0 FROM tenon.tasks WHERE state IN ('ready', 'running')");
    static const char *const states[] = {"done", "retrying", "dead", "scheduled",
                                         "done", "done",     "dead"};
    for (int i = 0; i < 7; i++) {
        char *now = test_sql_text(fx, "SELECT state FROM tenon.tasks WHERE id = %d", i + 1);
        assert_string_equal(now, states[i]);
        free(now);
    }
    assert_true(test_sql_bool(fx, "SELECT last_error = 'asked to' FROM tenon.dead WHERE id = 7"));
    assert_true(test_sql_bool(fx, "SELECT result = payload FROM tenon.finished WHERE id = 5"));
    end_well(p);
    assert_each_ran_once(fx, 7);
}

/* A bad answer costs the child and charges the task, and nothing else. */
static void bad_answer(struct fixture *fx, const char *what, const char *error)
{
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '{\"do\": \"%s\"}')", what);
    test_await(fx, LIMIT_MS,
               "SELECT state = 'retrying', state, last_error FROM tenon.tasks WHERE id = %lld",
               (long long)id);
    char *last = test_sql_text(fx, "SELECT last_error FROM tenon.task WHERE id = %lld",
                               (long long)id);
    assert_contains(last, error);
    free(last);
    int64_t good = test_sql_int(fx, "SELECT tenon.enqueue('a', '{}')");
    test_await(fx, LIMIT_MS, "SELECT state = 'done', state FROM tenon.tasks WHERE id = %lld",
               (long long)good);
}

static void test_pool_children_that_break_the_protocol(void **state)
{
    struct fixture *fx = *state;
    struct process *p = pool_worker(fx, "1", "1");
    bad_answer(fx, "crash", "about to crash");
    bad_answer(fx, "exit", "exit status 0");
    bad_answer(fx, "garbage", "no JSON object");
    bad_answer(fx, "wrong", "a task it does not have");
    int64_t twice = test_sql_int(fx, "SELECT tenon.enqueue('a', '{\"do\": \"twice\"}')");
    test_await(fx, LIMIT_MS, "SELECT state = 'done', state FROM tenon.tasks WHERE id = %lld",
               (long long)twice);
    int64_t good = test_sql_int(fx, "SELECT tenon.enqueue('a', '{}')");
    test_await(fx, LIMIT_MS, "SELECT state = 'done', state FROM tenon.tasks WHERE id = %lld",
               (long long)good);
    end_well(p);
}

static void test_a_handler_that_cannot_start_burns_no_task(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    test_sql(fx, "SELECT tenon.enqueue('a'), tenon.enqueue('b')");
    struct process *p = TENON(fx, "worker", "--handler", "a=pool:exec /nonexistent/program",
                              "--handler", handler(h, "b=exec %s", "journal.sh"));
    process_await_line(p, "event=handler_rests", LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE kind = 'b'");
    end_well(p);
    assert_true(test_sql_bool(
        fx,
        "SELECT failures = 0 AND crashes = 0 AND start_time IS NULL FROM tenon.task WHERE kind = 'a'"));
}

static void test_an_effect_and_its_task_end_in_one_transaction(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE TABLE public.effect (id bigint)");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"finish\"}') FROM generate_series(1, 20)");
    struct process *p = pool_worker(fx, "2", "1");
    await_done(fx, 20);
    end_well(p);
    assert_int_equal(process_lines(p, "event=claim_lost"), 0);
    assert_true(
        test_sql_bool(fx, "SELECT count(*) = 20 AND count(DISTINCT id) = 20 FROM public.effect"));
    assert_true(test_sql_bool(fx, "SELECT bool_and(result = '\"inside\"') FROM tenon.finished"));
    assert_each_ran_once(fx, 20);
}

/* Wait until a process that is not our child has ended. */
static void await_pid_end(int pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        assert_int_equal(errno, ESRCH);
        return;
    }
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, LIMIT_MS), 1);
    (void)close(fd);
}

/* A handler that starts a process of its own, whose number it writes to `path`, and waits. */
static const char *parent_handler(const struct fixture *fx, char h[1024], char path[256])
{
    (void)snprintf(path, 256, "%s/pid", fx->dir);
    (void)snprintf(
        h, 512,
        "a=trap '' TERM; sleep 300 & echo $! >%s; echo \"$TENON_TASK_ID 1 $$ start 1\" >>$TEST_JOURNAL; wait; sleep 300",
        path);
    return h;
}

static int pid_in(const char *path)
{
    char *text = file_text(path);
    int pid = atoi(text);
    free(text);
    assert_true(pid > 1);
    return pid;
}

static void test_timeout_ends_the_whole_process_group(void **state)
{
    struct fixture *fx = *state;
    char h[1024], path[256];
    test_sql(fx, "SELECT tenon.enqueue('a', timeout => '300 ms')");
    /* TERM is ignored by both, so that only KILL to the group ends the one in the background */
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler",
                              parent_handler(fx, h, path));
    test_await(fx, LIMIT_MS, "SELECT state = 'retrying', state FROM tenon.tasks");
    assert_true(test_sql_bool(
        fx, "SELECT last_error LIKE 'timed out after 300 ms%%' AND failures = 1 FROM tenon.task"));
    await_pid_end(pid_in(path));
    end_well(p);
}

static void test_handlers_and_what_they_started_die_with_the_worker(void **state)
{
    struct fixture *fx = *state;
    char h[1024], path[256];
    struct journal j;
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler",
                              parent_handler(fx, h, path));
    journal_await_started(fx, 1, LIMIT_MS);
    journal_read(fx, &j);
    process_kill(p);
    await_pid_end(j.runs[0].pid);
    await_pid_end(pid_in(path));
    journal_clear(&j);
}

/* --- waking up --- */

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
    /* far sooner than the ordered claim, which looks once a second, could do */
    assert_true(test_sql_bool(
        fx,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY start_time - created_at) < '500 ms' FROM tenon.finished"));
    end_well(p);
    struct broker *b = broker_open(fx->amqp_url);
    assert_int_equal(broker_depth(b, "default"), 0);
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
        broker_publish(b, "default", bodies[i], strlen(bodies[i]));
    }
    broker_publish(b, "default", "\0\xff\n5", 4);
    char big[70000];
    memset(big, '7', sizeof big);
    broker_publish(b, "default", big, sizeof big);
    /* a task of another queue, of an unknown kind, and one that lies ahead must not start by a message */
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
    assert_int_equal(broker_depth(b, "default"), 0);
    broker_close(b);
}

/* --- many workers --- */

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
        broker_publish(b, "default", body, (size_t)n);
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
        "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 1500}') FROM generate_series(1, 3)");
    await_done(fx, 3);
    test_sql(fx, "INSERT INTO tenon.queue (name, paused) VALUES ('default', true)");
    test_await(fx, LIMIT_MS, "SELECT true");
    test_sql(
        fx,
        "BEGIN; SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 100}', announced => true) FROM generate_series(1, 30);"
        "UPDATE tenon.queue SET paused = false; COMMIT");
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
    /* every eighth look goes by age, so that low priorities do not starve */
    assert_in_range(inversions, 1, 8);
    journal_clear(&j);
}

/* --- ending --- */

static void test_sigterm_drains(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 700}') FROM generate_series(1, 10)");
    struct process *p = pool_worker(fx, "2", "1");
    journal_await_started(fx, 2, LIMIT_MS);
    end_well(p);
    struct journal j;
    journal_read(fx, &j);
    for (size_t i = 0; i < j.n; i++) {
        assert_true(j.runs[i].end_ns > 0); /* what ran, ended */
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.finished"), (int64_t)j.n);
    journal_clear(&j);
    assert_true(test_sql_bool(
        fx,
        "SELECT bool_and(start_time IS NULL AND failures = 0 AND crashes = 0) FROM tenon.task"));
    assert_true(test_sql_bool(
        fx, "SELECT bool_and(state = 'left' AND ended_at IS NOT NULL) FROM tenon.worker"));
}

static void test_what_outlasts_the_drain_is_given_back(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')");
    struct process *p = TENON(fx, "worker", "--slots", "1", "--drain-limit", "200ms", "--handler",
                              handler(h, "a=pool:exec %s 1", "pool"));
    journal_await_started(fx, 1, LIMIT_MS);
    end_well(p);
    assert_true(test_sql_bool(
        fx,
        "SELECT start_time IS NULL AND failures = 0 AND crashes = 0 AND run_at <= now() FROM tenon.task"));
}

static void test_a_second_sigterm_stops_at_once(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 60000}')");
    struct process *p = pool_worker(fx, "1", "1");
    journal_await_started(fx, 1, LIMIT_MS);
    process_signal(p, SIGTERM);
    process_await_line(p, "event=draining", LIMIT_MS);
    end_well(p);
    assert_true(test_sql_bool(fx, "SELECT start_time IS NULL AND failures = 0 FROM tenon.task"));
}

/* --- memory --- */

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
    test_await(fx, 120000, "SELECT count(*) = %d, count(*) FROM tenon.finished", to);
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

/* --- what it refuses --- */

static void test_bad_input_is_refused(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *args[8];
        const char *says;
    } cases[] = {
        {{"worker"}, "no handler is given"},
        {{"worker", "--handler", "a"}, "KIND=COMMAND"},
        {{"worker", "--handler", "a b=true"}, "is not allowed"},
        {{"worker", "--handler", "a=true", "--handler", "a=true"}, "two handlers"},
        {{"worker", "--handler", "a=true", "--slots", "0"}, "slots"},
        {{"worker", "--handler", "a=true", "--slots", "1001"}, "slots"},
        {{"worker", "--handler", "a=true", "--amqp-url", "http://x"}, "amqp"},
        {{"worker", "--handlers", "/nonexistent"}, "/nonexistent"},
        {{"worker", "--handler", "a=true", "--database-url", "postgresql://%zz"}, "URL"},
        {{"worker", "--handler", "a=true", "--run-one", "b", "/dev/null"}, "kind"},
        {{"worker", "--handler", "a=true", "--run-one", "a", "/dev/null"}, "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = tenon_spawn(fx, cases[i].args, NULL);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log, cases[i].says);
        free(log);
    }
}

static void test_no_schema_says_run_tenon_setup(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
    struct process *p = TENON(fx, "worker", "--handler", "a=true");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, "run tenon setup");
    free(log);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_handlers_file(void **state)
{
    struct fixture *fx = *state;
    char path[256], text[1024], pool[192], log_path[192];
    handler_path("pool", pool, sizeof pool);
    handler_path("journal.sh", log_path, sizeof log_path);
    (void)snprintf(path, sizeof path, "%s/handlers.conf", fx->dir);
    (void)snprintf(
        text, sizeof text,
        "handler \"a,b\" {\n  mode = pool\n  command = {\"%s\", \"64\"}\n  in_flight = 2\n}\n"
        "handler c {\n  command = {\"%s\", \"say\", \"from c\"}\n  directory = \"/\"\n}\n",
        pool, log_path);
    write_text(path, text);
    test_sql(fx, "SELECT tenon.enqueue(k) FROM unnest('{a,b,c}'::text[]) k, generate_series(1, 5)");
    free(TENON_RUN(fx, 0, "worker", "--handlers", path, "--slots", "2", "--until-empty"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.finished"), 15);
    assert_each_ran_once(fx, 15);
    static const struct {
        const char *text, *says;
    } bad[] = {{"handler a {", "handlers.conf:"},
               {"handler a { mode = pool }", "command"},
               {"handler a { command = {\"x\"} mode = \"both\" }", "exec or pool"},
               {"handler a { command = {\"x\"} in_flight = 5000 }", "0 to 1024"},
               {"handler a { command = {\"x\"} } handler a { command = {\"y\"} }", "handlers.conf"},
               {"handler \"a,b\" { command = {\"x\"} } handler b { command = {\"y\"} }",
                "two handlers"},
               {"colour = red", "colour"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(path, bad[i].text);
        struct process *p = TENON(fx, "worker", "--handlers", path);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log, bad[i].says);
        free(log);
    }
}

static void test_run_one(void **state)
{
    struct fixture *fx = *state;
    char path[256], h[256];
    const char *const env[] = {"DATABASE_URL=postgresql://127.0.0.1:1/none", "AMQP_URL=none", NULL};
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    write_text(path, "{\n \"n\": 1\n}\n");
    const char *const cat[] = {"worker", "--handler", "a=cat", "--run-one", "a", path, NULL};
    struct process *p = tenon_spawn(fx, cat, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *out = file_text(p->out);
    assert_contains(out, "\"n\": 1");
    free(out);
    const char *const later[] = {"worker", "--handler", "a=exit 75", "--run-one", "a", path, NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, later, env), LIMIT_MS), 75);
    write_text(path, "{\"do\": \"dead\"}");
    const char *const dead[] = {"worker",    "--handler", handler(h, "a=pool:exec %s 1", "pool"),
                                "--run-one", "a",         path,
                                NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, dead, env), LIMIT_MS), 65);
}

static void test_a_paused_queue_rests(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "INSERT INTO tenon.queue (name, paused) VALUES ('default', true)");
    struct process *p = pool_worker(fx, "1", "1");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS,
               "SELECT clock_timestamp() > created_at + interval '2.5 s' FROM tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE attempt = 0"), 1);
    test_sql(fx, "UPDATE tenon.queue SET paused = false");
    await_done(fx, 1);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_exec_outcomes),
        WITH_SERVERS(test_pool_outcomes),
        WITH_SERVERS(test_pool_children_that_break_the_protocol),
        WITH_SERVERS(test_a_handler_that_cannot_start_burns_no_task),
        WITH_SERVERS(test_an_effect_and_its_task_end_in_one_transaction),
        WITH_SERVERS(test_timeout_ends_the_whole_process_group),
        WITH_SERVERS(test_handlers_and_what_they_started_die_with_the_worker),
        WITH_SERVERS(test_a_message_starts_a_task_and_is_acked),
        WITH_SERVERS(test_without_a_broker_all_tasks_run),
        WITH_SERVERS(test_a_message_may_overtake_its_commit),
        WITH_SERVERS(test_what_is_rolled_back_never_runs),
        WITH_SERVERS(test_stale_doubled_and_hostile_messages_change_nothing),
        WITH_SERVERS(test_many_workers_run_each_task_once),
        WITH_SERVERS(test_work_is_shared_fairly),
        WITH_SERVERS(test_priority_goes_first),
        WITH_SERVERS(test_sigterm_drains),
        WITH_SERVERS(test_what_outlasts_the_drain_is_given_back),
        WITH_SERVERS(test_a_second_sigterm_stops_at_once),
        WITH_SERVERS(test_memory_does_not_grow_with_tasks),
        WITH_SERVERS(test_bad_input_is_refused),
        WITH_DATABASE(test_no_schema_says_run_tenon_setup),
        WITH_SERVERS(test_handlers_file),
        WITH_SERVERS(test_run_one),
        WITH_SERVERS(test_a_paused_queue_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
