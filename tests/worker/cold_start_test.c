/* label: e2e */
/* timeout: 600 */
/* measures: yes */
/* Handlers that take long to start: a second of processor time, or for ever. */
#include "core/base/now.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 3,
    SEEN = 200, /* of a thousand children; a build with sanitizers takes 0.1 s for each */
    BOOT_LIMIT_MS = 120000, /* of a measured run; a quiet machine needs 5 s */
};

/* Does the log say that something was to be started again or given back? */
static void assert_quiet(const struct process *p)
{
    static const char *const words[] = {"event=handler_backs_off", "event=worker_stuck",
                                        "event=task_released"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(process_lines(p, words[i]), 0);
    }
}

/* From the start of a worker until all tasks are done, each with 100 ms of processor time. */
static int64_t run_cold(struct fixture *fx, const char *slots)
{
    char h[256];
    test_sql(fx,
             "SELECT count(tenon.enqueue('a', '{\"cpu_ms\": 100}')) FROM generate_series(1, 30)");
    int64_t begun = now_ms();
    struct process *p = TENON(fx, "worker", "--slots", slots, "--handler",
                              handler(h, "a=pool:exec %s 1000", "boot"));
    test_await(fx, BOOT_LIMIT_MS, "SELECT count(*) = 0 FROM tenon.task");
    int64_t took = now_ms() - begun;
    assert_quiet(p);
    assert_true(test_sql_bool(fx, "SELECT max(claims) = 1 FROM tenon.history"));
    end_well(p);
    return took;
}

/* What other programs do to this machine meanwhile, they do to both: the better of some tries. */
static void test_ten_slots_start_no_slower_than_one(void **state)
{
    struct fixture *fx = *state;
    bool held = false;
    for (int i = 0; i < TRIES && !held; i++) {
        int64_t one = run_cold(fx, "1"), ten = run_cold(fx, "10");
        print_message("30 tasks and a start of 1 s: one slot %lld ms, ten slots %lld ms\n",
                      (long long)one, (long long)ten);
        held = ten <= 2 * one;
    }
    assert_true(held);
}

static int64_t handlers_of(const struct process *p)
{
    pid_t pids[1100];
    int n = process_children(p, pids, 1100), handlers = 0;
    for (int i = 0; i < n; i++) {
        handlers += process_is_handler(pids[i]);
    }
    return handlers;
}

/* They start one after another, and nothing stands still meanwhile. */
static void test_a_thousand_slots(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    struct process *p = TENON(fx, "worker", "--slots", "1000", "--handler",
                              handler(h, "a=pool:exec %s 0", "boot"));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT count(tenon.enqueue('a')) FROM generate_series(1, 30)");
    await_done(fx, 30); /* long before the last one has started */
    int64_t limit = patience_end_ms(BOOT_LIMIT_MS);
    while (handlers_of(p) < SEEN && now_ms() < limit) {
        test_sql(fx, "SELECT tenon.enqueue('a')");
        test_await(fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.task");
    }
    assert_true(handlers_of(p) >= SEEN);
    assert_quiet(p);
    end_well(p);
}

/* It starts for ever. Why, status and the log say that; other kinds run; the limit ends it; and its
 * tasks were not claimed again and again. */
static void test_a_start_without_end(void **state)
{
    struct fixture *fx = *state;
    char slow[300], fast[256], path[192];
    handler_path("boot", path, sizeof path);
    (void)snprintf(slow, sizeof slow, "slow=pool:exec %s -1 'importing shop.tasks'", path);
    struct process *p = TENON(fx, "worker", "--slots", "4", "--start-limit", "13s", "--handler",
                              slow, "--handler", handler(fast, "fast=pool:exec %s 0", "boot"));
    test_sql(fx, "SELECT tenon.enqueue('slow') FROM generate_series(1, 20)"); /* 1 to 20 */
    test_sql(fx, "SELECT tenon.enqueue('fast') FROM generate_series(1, 20)");
    await_done(fx, 20);
    test_await(fx, LIMIT_MS,
               "SELECT starting LIKE 'slow: %% importing shop.tasks' FROM tenon.worker");
    char *text = TENON_RUN(fx, 0, "why", "1");
    assert_contains(text, "It waits for a child of its handler, which has been starting for ");
    assert_contains(text, " s: importing shop.tasks, on worker ");
    free(text);
    text = TENON_RUN(fx, 0, "status");
    assert_contains(text, "has handlers whose first process is still starting:\nslow: for ");
    free(text);
    process_await_line(p, "event=handler_starting", LIMIT_MS);
    assert_int_equal(process_lines(p, "text=\"slow: starting for 10 s; the start limit is 13 s\""),
                     1);
    assert_int_equal(process_lines(p, "doing=\"importing shop.tasks\""), 1);
    assert_true(test_sql_bool(fx, "SELECT max(claims) = 0 FROM tenon.task WHERE kind = 'slow'"));
    process_await_line(p,
                       "slow backs off for 100 ms: no hello within 13 s (start_limit): killed by "
                       "signal 9 (Killed), starting: importing shop.tasks: it waits for a licence",
                       LIMIT_MS);
    test_await(fx, LIMIT_MS,
               "SELECT backing_off LIKE 'slow: no hello within 13 s%%' FROM tenon.worker");
    /* what asked for the second child, before it was known that it must be waited for */
    assert_true(test_sql_bool(fx, "SELECT sum(claims) <= 4 FROM tenon.task WHERE kind = 'slow'"));
    end_well(p);
}

static void test_start_limit_of_the_handlers_file(void **state)
{
    struct fixture *fx = *state;
    char file[512], text[512], path[192];
    handler_path("boot", path, sizeof path);
    (void)snprintf(file, sizeof file, "%s/handlers.conf", fx->dir);
    (void)snprintf(text, sizeof text,
                   "handler \"a\" {\n command = {\"%s\", \"-1\"}\n mode = \"pool\"\n start_limit = "
                   "\"1500ms\"\n}\n",
                   path);
    file_write(file, text);
    struct process *p = TENON(fx, "worker", "--handlers", file, "--start-limit", "1h");
    process_await_line(
        p,
        "no hello within 1.5 s (start_limit): killed by signal 9 (Killed): it waits for "
        "a licence",
        LIMIT_MS);
    end_well(p);
}

/* What `npm start` prints is no hello, and the message says where it came from. */
static void test_words_before_the_hello(void **state)
{
    struct fixture *fx = *state;
    struct process *p =
        TENON(fx, "worker", "--slots", "1", "--handler",
              "a=pool:echo; echo '> shop@1.0.0 start'; echo '{\"hello\":\"tenon\"}'; cat");
    process_await_line(p,
                       "protocol error: expected a hello on stdout, got: an empty line (stdout is "
                       "for the protocol only",
                       LIMIT_MS);
    end_well(p);
}

static void test_a_byte_order_mark_before_the_hello(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct process *p =
        TENON(fx, "worker", "--slots", "1", "--handler",
              "a=pool:printf '\\357\\273\\277{\"hello\":\"tenon\"}\\n'; read -r line; "
              "echo '{\"id\":1,\"outcome\":\"done\"}'; cat");
    await_done(fx, 1);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_ten_slots_start_no_slower_than_one),
        WITH_SERVERS(test_a_thousand_slots),
        WITH_SERVERS(test_a_start_without_end),
        WITH_SERVERS(test_start_limit_of_the_handlers_file),
        WITH_SERVERS(test_words_before_the_hello),
        WITH_SERVERS(test_a_byte_order_mark_before_the_hello),
    };
    return RUN_GROUP(tests);
}
