/* label: e2e */
/* timeout: 180 */
/* only: all */
/* `tenon scaler` with a fleet of processes that it starts and ends. */
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A scaler of 1 to 4 workers of two slots each, which are in the test's directory. */
static struct process *scaler(struct fixture *fx, const char *once, const char *down_after)
{
    char command[900], script[256];
    handler_path("scale.sh", script, sizeof script);
    (void)snprintf(command, sizeof command, "cd '%s' && exec '%s' {n} '%s'", fx->dir, script,
                   tenon_program);
    const char *const args[] = {"scaler",    "--max", "4",      "--slots", "2",
                                "--latency", "1s",    "--exec", command,   "--down-after",
                                down_after,  once,    NULL};
    return tenon_spawn(fx, args, NULL);
}

static void await_workers(struct fixture *fx, int n)
{
    test_await(fx, 60000,
               "SELECT count(*) = %d, count(*) FROM tenon.worker "
               "WHERE ended_at IS NULL AND state = 'alive'",
               n);
}

static void test_a_fleet_grows_and_shrinks(void **state)
{
    struct fixture *fx = *state;
    struct process *p = scaler(fx, NULL, "2s");
    await_workers(fx, 1);
    test_sql(fx, "SELECT count(tenon.enqueue('a')) FROM generate_series(1, 120)");
    await_workers(fx, 4);
    test_await(fx, 60000, "SELECT count(*) = 120 FROM tenon.history");
    await_workers(fx, 1);
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(failures = 0 AND crashes = 0) FROM tenon.history"));
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "event=scaled workers=4 before=1"), 1);
}

/* Worker i of the directory is lost, and its supervisor knows nothing of it any more. */
static void lose(struct fixture *fx, int i)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/worker.%d", fx->dir, i);
    char *pid = file_text(path);
    assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), SIGKILL), 0);
    free(pid);
    assert_int_equal(unlink(path), 0);
}

/* The demand stays as it is, and so does the number: it is told again. */
static void test_lost_workers_come_back(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    test_sql(fx, "SELECT count(tenon.enqueue('nobodys')) FROM generate_series(1, 20)");
    struct process *p = scaler(fx, NULL, "1h");
    await_workers(fx, 4);
    lose(fx, 3);
    lose(fx, 4);
    await_workers(fx, 2);
    process_await_line(p, "event=workers_missing workers=2 told=4", 90000);
    await_workers(fx, 4);
    process_await_line(p, "event=scaled workers=4 before=2", LIMIT_MS);
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    end_well(cleaner);
}

/* From cron: what is there is counted, and it goes down by one at most. */
static void test_once(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT count(tenon.enqueue('b')) FROM generate_series(1, 6)");
    assert_int_equal(process_wait(scaler(fx, "--once", "0ms"), LIMIT_MS), 0);
    await_workers(fx, 3);
    test_sql(fx, "DELETE FROM tenon.task");
    assert_int_equal(process_wait(scaler(fx, "--once", "0ms"), LIMIT_MS), 0);
    await_workers(fx, 2);
}

static void says(struct fixture *fx, int code, const char *part, const char *const *args,
                 const char *url)
{
    const char *const env[] = {url, NULL};
    struct process *p = tenon_spawn(fx, args, env);
    assert_int_equal(process_wait(p, LIMIT_MS), code);
    char *log = file_text(p->log);
    assert_contains(log, part);
    free(log);
}

static void test_what_goes_wrong(void **state)
{
    struct fixture *fx = *state;
    static const char *const failing[] = {"scaler", "--once", "--exec", "exit 3", NULL};
    static const char *const limits[] = {"scaler", "--once", "--min", "5", "--max", "4", NULL};
    says(fx, 1, "event=scale_failed fault=retry error=\"the command exited with 3\"", failing,
         NULL);
    says(fx, 2, "--max 4 is less than --min 5", limits, NULL);
    says(fx, 1, "event=demand_unknown", failing, "DATABASE_URL=postgresql:///?host=/nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_fleet_grows_and_shrinks),
        WITH_DATABASE(test_lost_workers_come_back),
        WITH_DATABASE(test_once),
        WITH_DATABASE(test_what_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
