/* label: e2e */
/* timeout: 120 */
/* long: 600 */
/* only: all */
/* setup, cleaner, worker and intake without memory: the Nth allocation of ours fails, for every N
 * of a short run with TEST_LONG, else for some. What ends says why, nothing crashes or is lost,
 * and the same command again brings all to its end. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include "core/base/now.h"
#include "core/db/schema.h"
#include "tests/support/patience.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { UNSTRUCK_RUNS = 3, RUNS_MAX = 5000, TASKS = 6, MESSAGES = 6 };

/* what a process that gives up still has is the kernel's to free */
static const char no_leaks[] = "LSAN_OPTIONS=detect_leaks=0";
static const char *const setup[] = {"setup", NULL};
static const char *const once[] = {"cleaner", "--once", NULL};

/* `struck` will be there when the nth allocation has failed. */
static struct process *start_short_of_memory(struct fixture *fx, const char *const *args, long n,
                                             char struck[300])
{
    char variable[320], nth[64];
    const char *argv[32] = {TENON_MALLOC};
    for (size_t i = 0; args[i]; i++) {
        argv[i + 1] = args[i];
    }
    (void)snprintf(struck, 300, "%s/struck", fx->dir);
    (void)snprintf(variable, sizeof variable, "TEST_STRUCK=%s", struck);
    (void)snprintf(nth, sizeof nth, "TEST_MALLOC=%ld", n);
    (void)unlink(struck);
    return process_spawn(fx, argv, (const char *const[]){variable, nth, no_leaks, NULL});
}

/* Await its end. ret: how it ended, and it said why */
static int end_short_of_memory(struct process *p, const char *name, long n)
{
    int status = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error") || status > 1 ||
        (status == 1 && !strstr(log, "memory"))) {
        fail_msg("%s, allocation %ld: status %d, %s", name, n, status, log);
    }
    free(log);
    return status;
}

/* Run tenon; does its nth allocation fail? */
static bool run_short_of_memory(struct fixture *fx, const char *const *args, long n,
                                int *ret_status)
{
    char struck[300];
    struct process *p = start_short_of_memory(fx, args, n, struck);
    *ret_status = end_short_of_memory(p, args[0], n);
    return access(struck, F_OK) == 0;
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

/* --- intake ---------------------------------------------------------------------------------- */

static void send_numbers(struct broker *b)
{
    for (int i = 1; i <= MESSAGES; i++) {
        char body[16];
        int bytes = snprintf(body, sizeof body, "%d", i);
        amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                     .message_id = {.len = (size_t)bytes, .bytes = body}};
        broker_send(b, "in", body, (size_t)bytes, &p);
    }
    broker_send_end(b);
}

#define TAKEN_ALL "SELECT count(*) = 6 FROM tenon.task"

/* It goes on after a failure, or ends; then the next one takes the rest. */
static bool run_intake(struct fixture *fx, long n, int *ret_status)
{
    static const char *const args[] = {"intake", "--from", "in", "--kind", "k", NULL};
    char struck[300];
    struct broker *b = broker_open(fx->amqp_url);
    test_sql(fx, "TRUNCATE tenon.task, tenon.seen, tenon.intake");
    broker_remove_queue(b, "in");
    broker_make_typed(b, "in", "classic", NULL);
    send_numbers(b);
    struct process *p = start_short_of_memory(fx, args, n, struck);
    int64_t end_ms = patience_end_ms(LIMIT_MS);
    while (!process_is_gone(p) && !test_sql_bool(fx, TAKEN_ALL) && now_ms() < end_ms) {
    }
    process_signal(p, SIGTERM);
    *ret_status = end_short_of_memory(p, args[0], n);
    if (*ret_status == 0) {
        assert_true(test_sql_bool(fx, "SELECT count(*) = 0 FROM tenon.intake"));
    } else {
        p = tenon_spawn(fx, args, NULL);
        test_await(fx, LIMIT_MS, TAKEN_ALL);
        end_well(p);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT payload) FROM tenon.task"), MESSAGES);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), MESSAGES);
    broker_remove_queue(b, "in");
    broker_close(b);
    return access(struck, F_OK) == 0;
}

static void test_intake(void **state)
{
    each(*state, "intake", 7, run_intake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_setup),
        WITH_SERVERS(test_cleaner),
        WITH_SERVERS(test_worker),
        WITH_SERVERS(test_intake),
    };
    return RUN_GROUP(tests);
}
