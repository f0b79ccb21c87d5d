/* label: e2e */
/* timeout: 240 */
/* only: all */
/* What a worker inherits, or what holds it up, and must not harm it: signals that are ignored,
 * limits, a stderr that nobody reads, a main loop that hangs. */
#include "core/base/now.h"
#include "tests/support/patience.h"
#include "tests/support/proxy.h"
#include "tests/support/working.h"

#include "worker/presence.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { READY_MS = 20000, STUCK_MS = 50000 };

/* `before` runs in a shell that then becomes a worker. */
static struct process *worker_after(struct fixture *fx, const char *before, const char *const *env)
{
    char script[1200];
    (void)snprintf(script, sizeof script,
                   "%s; exec \"$0\" worker --slots 2 --handler 'a=cat' --handler 'b=exit 3'",
                   before);
    const char *const argv[] = {"bash", "-c", script, tenon_program, NULL};
    return process_spawn(fx, argv, env);
}

static void runs_tasks(struct fixture *fx)
{
    int64_t done = test_sql_int(fx, "SELECT count(*) FROM tenon.history");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_done(fx, done + 1);
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(failures = 0 AND crashes = 0) FROM tenon.history"));
}

static void test_ignored_signals(void **state)
{
    struct fixture *fx = *state;
    struct process *p = worker_after(fx, "trap '' CHLD PIPE XFSZ HUP", NULL);
    process_await_line(p, "event=worker_ready", READY_MS);
    runs_tasks(fx);
    end_well(p);
}

/* No payload can be written: that is no fault of the task, which is not charged. */
static void test_no_file_may_be_written(void **state)
{
    struct fixture *fx = *state;
    char before[300];
    (void)snprintf(before, sizeof before, "exec 2> >(cat >'%s/said'); ulimit -f 0", fx->dir);
    struct process *p = worker_after(fx, before, NULL);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, READY_MS, "SELECT claims > 0 AND start_time IS NULL FROM tenon.task");
    assert_true(test_sql_bool(fx, "SELECT failures = 0 AND crashes = 0 FROM tenon.task"));
    assert_false(process_is_gone(p));
    end_well(p);
}

/* Each failed task is a line of the log; then SIGTERM. */
static void test_a_stderr_that_nobody_reads(void **state)
{
    struct fixture *fx = *state;
    char before[600];
    (void)snprintf(before, sizeof before, "mkfifo '%s/log'; exec 7<>'%s/log' 2>&7", fx->dir,
                   fx->dir);
    struct process *p = worker_after(fx, before, NULL);
    test_sql(fx, "SELECT tenon.enqueue('b', max_attempts => 1) FROM generate_series(1, 1000)");
    test_await(fx, 3 * READY_MS, "SELECT count(*) = 1000 FROM tenon.dead");
    runs_tasks(fx);
    end_well(p);
}

/* Wait until its main loop is at the point: what it has claimed is its own knowledge then, too. */
static void await_hangs(const char *log)
{
    for (int64_t end_ms = patience_end_ms(READY_MS); access(log, F_OK) != 0;) {
        if (now_ms() > end_ms) {
            fail_msg("no worker has made %s", log);
        }
        (void)poll(NULL, 0, 10);
    }
}

/* Two hang: one of them while its PostgreSQL is away. Others take over within 35 s, as far as their
 * own clocks are meant: a machine that stands still counts for nothing. */
static void test_a_main_loop_that_hangs(void **state)
{
    struct fixture *fx = *state;
    static const char *const env[] = {"TENON_POINT=task_claimed:1:sleep=120000", NULL};
    char cut[1000], whole[300], logs[2][240];
    struct proxy proxy;
    _Static_assert(PRESENCE_STUCK_MS + PRESENCE_WATCH_MS < 35000, "within 35 s");
    proxy_open(&proxy, fx->database_url);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(logs[i], sizeof logs[i], "%s/hangs-%d", fx->dir, i);
    }
    (void)snprintf(whole, sizeof whole, "export TENON_POINT_LOG='%s'", logs[0]);
    (void)snprintf(cut, sizeof cut, "export TENON_POINT_LOG='%s' TENON_DATABASE_URL='%s'", logs[1],
                   proxy.url);
    struct process *p = worker_after(fx, whole, env), *cut_off = worker_after(fx, cut, env);
    process_await_line(p, "event=worker_ready", READY_MS);
    process_await_line(cut_off, "event=worker_ready", READY_MS);
    for (int i = 1; i <= 2; i++) { /* each of them takes one */
        test_sql(fx, "SELECT tenon.enqueue('a')");
        test_await(fx, READY_MS, "SELECT count(DISTINCT worker_id) = %d FROM tenon.task", i);
    }
    await_hangs(logs[0]);
    await_hangs(logs[1]);
    struct process *cleaner = TENON(fx, "cleaner");
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    assert_int_equal(process_wait(p, STUCK_MS), 1);
    assert_int_equal(process_lines(p, "event=worker_stuck"), 1);
    assert_int_equal(process_wait(cut_off, STUCK_MS), 1);
    assert_int_equal(process_lines(cut_off, "event=worker_stuck"), 1);
    proxy_close(&proxy);
    struct process *other = worker_after(fx, "true", NULL);
    await_done(fx, 2);
    end_well(other);
    end_well(cleaner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_ignored_signals),
        WITH_SERVERS(test_no_file_may_be_written),
        WITH_SERVERS(test_a_stderr_that_nobody_reads),
        WITH_SERVERS(test_a_main_loop_that_hangs),
    };
    return RUN_GROUP(tests);
}
