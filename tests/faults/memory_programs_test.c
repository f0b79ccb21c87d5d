/* label: e2e */
/* timeout: 120 */
/* long: 600 */
/* only: all */
/* setup, cleaner and worker without memory: the Nth allocation of ours fails, for every N of a
 * short run with TEST_LONG, else for some. What ends says why, nothing crashes or is lost, and the
 * same command again brings all to its end. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include "core/db/schema.h"

#include <stdio.h>
#include <unistd.h>

enum { UNSTRUCK_RUNS = 3, RUNS_MAX = 5000, TASKS = 6 };

/* what a process that gives up still has is the kernel's to free */
static const char no_leaks[] = "LSAN_OPTIONS=detect_leaks=0";
static const char *const setup[] = {"setup", NULL};
static const char *const once[] = {"cleaner", "--once", NULL};

/* Run tenon; does its nth allocation fail? ret_status: how it ended, and it said why. */
static bool run_short_of_memory(struct fixture *fx, const char *const *args, long n,
                                int *ret_status)
{
    char struck[320], path[300], nth[64];
    const char *argv[32] = {TENON_MALLOC};
    for (size_t i = 0; args[i]; i++) {
        argv[i + 1] = args[i];
    }
    (void)snprintf(path, sizeof path, "%s/struck", fx->dir);
    (void)snprintf(struck, sizeof struck, "TEST_STRUCK=%s", path);
    (void)snprintf(nth, sizeof nth, "TEST_MALLOC=%ld", n);
    (void)unlink(path);
    struct process *p = process_spawn(fx, argv, (const char *const[]){struck, nth, no_leaks, NULL});
    *ret_status = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error") || *ret_status > 1 ||
        (*ret_status == 1 && !strstr(log, "memory"))) {
        fail_msg("%s, allocation %ld: status %d, %s", args[0], n, *ret_status, log);
    }
    free(log);
    return access(path, F_OK) == 0;
}

/* Every Nth, or every one at night, until several runs in a row have needed no more. */
static void each(struct fixture *fx, const char *what, long step,
                 bool (*run)(struct fixture *fx, long n, int *ret_status))
{
    long struck = 0, failed = 0;
    step = load_is_long() ? 1 : step;
    for (long n = 1, unstruck = 0; unstruck < UNSTRUCK_RUNS; n += step) {
        int status;
        bool any = run(fx, n, &status);
        struck += any;
        failed += status != 0;
        unstruck = any ? 0 : unstruck + 1;
        assert_true(any || status == 0);
        assert_true(n < RUNS_MAX);
    }
    print_message("%s: an allocation failed in %ld runs, %ld of them ended with an error\n", what,
                  struck, failed);
    assert_true(struck > 3);
}

/* --- setup ----------------------------------------------------------------------------------- */

static bool run_setup(struct fixture *fx, long n, int *ret_status)
{
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS tenon CASCADE");
    bool struck = run_short_of_memory(fx, setup, n, ret_status);
    free(TENON_RUN(fx, 0, "setup"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.migration"), schema_migrations_n);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    return struck;
}

static void test_setup(void **state)
{
    each(*state, "setup", 2, run_setup);
}

/* --- cleaner --------------------------------------------------------------------------------- */

static bool run_cleaner(struct fixture *fx, long n, int *ret_status)
{
    test_sql(fx, "TRUNCATE tenon.task, tenon.worker, tenon.dead;"
                 "INSERT INTO tenon.worker (id, host, pid, slots, queues, kinds, state, ended_at)"
                 " VALUES ('11111111-1111-1111-1111-111111111111', 'h', 1, 1, '{default}', '{a}',"
                 " 'dead', now());"
                 "SELECT tenon.enqueue(k) FROM unnest('{orphan,orphan,ready}'::text[]) k;"
                 "SELECT tenon.enqueue('due', delay => '1 ms');"
                 "UPDATE tenon.task SET start_time = now(), claims = 1,"
                 " claim_key = id,"
                 " worker_id = '11111111-1111-1111-1111-111111111111' WHERE kind = 'orphan'");
    bool struck = run_short_of_memory(fx, once, n, ret_status);
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    char *got = test_sql_text(
        fx, "SELECT string_agg(format('%%s %%s %%s %%s', kind, state, claims, crashes), ', '"
            " ORDER BY id) FROM tenon.tasks WHERE state <> 'done'");
    assert_string_equal(got, "orphan ready 1 1, orphan ready 1 1, ready ready 0 0, due ready 0 0");
    free(got);
    return struck;
}

static void test_cleaner(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    each(fx, "cleaner --once", 7, run_cleaner);
}

/* --- worker ---------------------------------------------------------------------------------- */

static int64_t count(struct fixture *fx, const char *state)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.tasks WHERE state = '%s'", state);
}

/* What a worker that gave up had claimed is recovered. */
static void work_again(struct fixture *fx, const char *const *args)
{
    test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now() WHERE state <> 'dead'");
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    free(tenon_run(fx, 0, args));
}

static bool run_worker(struct fixture *fx, long n, int *ret_status)
{
    char h[256];
    const char *const args[] = {"worker",
                                "--until-empty",
                                "--slots",
                                "2",
                                "--drain-limit",
                                "2s",
                                "--handler",
                                handler(h, "a=pool:exec %s 2", "pool"),
                                NULL};
    (void)unlink(fx->journal);
    test_sql(fx, "TRUNCATE tenon.task, tenon.history, tenon.dead");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, %d)", TASKS);
    publish(fx, test_sql_int(fx, "SELECT min(id) FROM tenon.task"));
    bool struck = run_short_of_memory(fx, args, n, ret_status);
    if (*ret_status != 0) {
        work_again(fx, args);
    }
    /* one that could not be handed to its child is tried again later */
    int64_t waits = count(fx, "retrying"), done = count(fx, "done");
    assert_in_range(waits, 0, struck ? 1 : 0);
    assert_int_equal(done + waits, TASKS);
    return struck;
}

static void test_worker(void **state)
{
    struct fixture *fx = *state;
    declare(fx);
    each(fx, "worker", 29, run_worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_setup),
        WITH_SERVERS(test_cleaner),
        WITH_SERVERS(test_worker),
    };
    return RUN_GROUP(tests);
}
