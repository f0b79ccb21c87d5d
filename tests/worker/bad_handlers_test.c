/* label: e2e */
/* timeout: 240 */
/* long: 300 */
/* only: all */
/* Bad handlers beside a good one in the same worker: they harm their own tasks and nobody else's.
 *
 * Each test sends good tasks one after another, first alone, then until the last of the bad ones
 * has ended, and compares how long they waited. What delays everything at a time, as another
 * program on this machine, shows in the test's own calls too. TEST_LONG=1 floods with 1 GB instead
 * of 50 MB. */
#include "core/base/now.h"
#include "tests/support/load.h"
#include "tests/support/working.h"

#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GOOD_TASKS = 25,             /* in each of the two streams at least */
    DELAY_MAX_MS = 1000,         /* so much longer than the worst alone may a good task wait */
    NOISE_MAX_MS = 700,          /* and so much more at most because the test's own calls took it */
    RESULTS_DELAY_MAX_MS = 5000, /* the same while PostgreSQL takes 60 MB of results */
    GIGABYTE_MS = 120000,        /* until it is flooded */
    ARGS_MAX = 64,
    BAD_MAX = 16,
    POLL_MS = 5,
};

struct bad {
    const char *mode, *what, *n; /* of tests/support/handlers/bad.c */
    const char *timeout;         /* NULL = the usual, an hour */
    const char *state;           /* what becomes of its task, which has one attempt; NULL = any */
    const char *error;           /* LIKE one of these, "A|B", of last_error; NULL = anything */
};

struct run {
    struct fixture *fx;
    struct broker *broker;
    struct process *worker;
    const struct bad *bad;
    size_t n_bad, n_good;
    int64_t noise_ms; /* the longest that enqueueing and publishing took */
    char handlers[BAD_MAX + 1][600];
};

/* --- the worker and its tasks --- */

static void start_worker(struct run *r, const char *slots)
{
    const char *args[ARGS_MAX] = {"worker", "--slots", slots, "--log-level", "debug"};
    size_t n = 5;
    char good[192], bad[192];
    handler_path("pool", good, sizeof good);
    handler_path("bad", bad, sizeof bad);
    (void)snprintf(r->handlers[BAD_MAX], sizeof *r->handlers, "good=pool:exec '%s' 4", good);
    args[n++] = "--handler";
    args[n++] = r->handlers[BAD_MAX];
    for (size_t i = 0; i < r->n_bad; i++) {
        const struct bad *b = &r->bad[i];
        (void)snprintf(r->handlers[i], sizeof *r->handlers, "bad%zu=%sexec '%s' %s %s %s %s", i,
                       strcmp(b->mode, "pool") == 0 ? "pool:" : "", bad, b->mode, b->what, b->n,
                       r->fx->dir); /* by which they are found */
        args[n++] = "--handler";
        args[n++] = r->handlers[i];
    }
    r->worker = tenon_spawn(r->fx, args, NULL);
    process_await_line(r->worker, "event=broker_up", LIMIT_MS);
}

static void enqueue_bad(struct run *r)
{
    for (size_t i = 0; i < r->n_bad; i++) {
        const char *timeout = r->bad[i].timeout;
        test_sql(r->fx, "SELECT tenon.enqueue('bad%zu', max_attempts => 1, timeout => '%s')", i,
                 timeout ? timeout : "1 hour");
    }
}

static int64_t first_start_ns(const struct journal *j, int64_t id)
{
    for (size_t i = 0; i < j->n; i++) {
        if (j->runs[i].id == id) {
            return j->runs[i].start_ns;
        }
    }
    fail_msg("good task %lld never started", (long long)id);
    return 0;
}

/* How long it waited for its start, in milliseconds. */
static int64_t good_task(struct run *r)
{
    char body[24];
    struct journal j;
    int64_t since_ns = load_now_ns();
    int64_t id = test_sql_int(r->fx, "SELECT tenon.enqueue('good')");
    int n = snprintf(body, sizeof body, "%lld", (long long)id);
    broker_publish(r->broker, "default/good", body, (size_t)n);
    int64_t noise_ms = (load_now_ns() - since_ns) / 1000000;
    r->noise_ms = noise_ms > r->noise_ms ? noise_ms : r->noise_ms;
    journal_await_ended(r->fx, ++r->n_good, LIMIT_MS);
    journal_read(r->fx, &j);
    int64_t waited_ms = (first_start_ns(&j, id) - since_ns) / 1000000;
    journal_clear(&j);
    return waited_ms;
}

/* One good task after the other, until `is_over` says so; how long the slowest waited. */
static int64_t good_stream(struct run *r, bool (*is_over)(const struct run *))
{
    int64_t worst_ms = 0, deadline_ms = patience_end_ms(load_is_long() ? GIGABYTE_MS : LIMIT_MS);
    for (int i = 0; i < GOOD_TASKS || !is_over(r); i++) {
        int64_t waited_ms = good_task(r);
        worst_ms = waited_ms > worst_ms ? waited_ms : worst_ms;
        if (now_ms() > deadline_ms) {
            char *left = test_sql_text(r->fx, "SELECT string_agg(concat_ws(' ', kind, state, "
                                              "attempt, last_error), E'\\n') FROM tenon.tasks "
                                              "WHERE kind LIKE 'bad%%'");
            fail_msg("the bad tasks do not come to their ends:\n%s", left ? left : "");
        }
    }
    return worst_ms;
}

static bool at_once(const struct run *r)
{
    (void)r;
    return true;
}

static bool bad_ended(const struct run *r)
{
    return test_sql_bool(r->fx, "SELECT count(*) = 0 FROM tenon.task WHERE kind LIKE 'bad%%'");
}

/* --- the processes of bad handlers --- */

/* Its last argument is the test's directory. */
static bool is_of_run(const struct run *r, const char *path)
{
    char line[4096] = "";
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    }
    const char *before = n > 1 ? memrchr(line, '\0', n - 1) : NULL;
    return before && strcmp(before + 1, r->fx->dir) == 0;
}

static size_t count_processes(const struct run *r)
{
    glob_t found;
    size_t n = 0;
    assert_int_equal(glob("/proc/[0-9]*/cmdline", GLOB_NOSORT, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        n += is_of_run(r, found.gl_pathv[i]);
    }
    globfree(&found);
    return n;
}

/* Nobody but them may be left: they have left their session, and nobody may find them. */
static void await_only_daemons(const struct run *r)
{
    size_t daemons = 0;
    int64_t deadline_ms = patience_end_ms(LIMIT_MS);
    for (size_t i = 0; i < r->n_bad; i++) {
        daemons += strstr(r->bad[i].what, "daemon") != NULL;
    }
    while (count_processes(r) != daemons) {
        if (now_ms() > deadline_ms) {
            fail_msg("%zu processes of bad handlers are left, not %zu", count_processes(r),
                     daemons);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

/* --- a run --- */

static void start_run(struct run *r, struct fixture *fx, const struct bad *bad, size_t n,
                      const char *slots)
{
    *r = (struct run){.fx = fx, .bad = bad, .n_bad = n};
    assert_true(n <= BAD_MAX);
    declare(fx);
    r->broker = broker_open(fx->amqp_url);
    start_worker(r, slots);
}

static void check_outcome(struct run *r, size_t i)
{
    const struct bad *b = &r->bad[i];
    test_await(r->fx, LIMIT_MS,
               "SELECT state = '%s' AND attempt = 1 AND coalesce(last_error, '') LIKE ANY "
               "(string_to_array('%s', '|')), '%s', state, attempt, last_error "
               "FROM tenon.tasks WHERE kind = 'bad%zu'",
               b->state, b->error ? b->error : "%", b->what, i);
}

static void end_run(struct run *r)
{
    end_well(r->worker);
    broker_close(r->broker);
    assert_each_ran_once(r->fx, r->n_good);
    test_await(r->fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.task WHERE kind = 'good'");
    assert_int_equal(process_lines(r->worker, "event=round_failed"), 0);
    await_only_daemons(r);
}

static void assert_unharmed(const struct run *r, int64_t alone_ms, int64_t beside_ms)
{
    int64_t noise_ms = r->noise_ms < NOISE_MAX_MS ? r->noise_ms : NOISE_MAX_MS;
    print_message("%zu good tasks, the slowest alone %lld ms, beside bad ones %lld ms; noise %lld "
                  "ms\n",
                  r->n_good, (long long)alone_ms, (long long)beside_ms, (long long)r->noise_ms);
    if (beside_ms > alone_ms + patience_loaded_ms(DELAY_MAX_MS + noise_ms)) {
        fail_msg(
            "good tasks waited up to %lld ms beside bad ones, alone up to %lld ms; noise %lld ms",
            (long long)beside_ms, (long long)alone_ms, (long long)r->noise_ms);
    }
}

/* The whole of it: alone, beside the bad ones, what became of those. */
static void beside(struct fixture *fx, const struct bad *bad, size_t n, const char *slots)
{
    struct run r;
    start_run(&r, fx, bad, n, slots);
    int64_t alone_ms = good_stream(&r, at_once);
    enqueue_bad(&r);
    int64_t beside_ms = good_stream(&r, bad_ended);
    assert_unharmed(&r, alone_ms, beside_ms);
    for (size_t i = 0; i < n; i++) {
        check_outcome(&r, i);
    }
    if (strcmp(bad->mode, "exec") == 0) {
        await_only_daemons(&r); /* not only because the worker ends */
    }
    end_run(&r);
}
#define BESIDE(fx, bad, slots) beside(fx, bad, sizeof(bad) / sizeof *(bad), slots)

/* --- one process per task --- */

static void test_exec_floods(void **state)
{
    struct fixture *fx = *state;
    const char *bytes = load_is_long() ? "1000000000" : "50000000";
    const struct bad bad[] = {
        {"exec", "flood", bytes, NULL, "done", NULL},
        {"exec", "flood_stderr", bytes, NULL, "dead", "exit status 1: ... eeee%"},
    };
    BESIDE(fx, bad, "4");
    assert_true(test_sql_bool(fx, "SELECT result #>> '{}' LIKE 'xxx%%256 KiB]' AND "
                                  "length(result #>> '{}') BETWEEN 262144 AND 262200 "
                                  "FROM tenon.history WHERE kind = 'bad0'"));
    assert_true(
        test_sql_bool(fx, "SELECT length(last_error) < 4200 FROM tenon.dead WHERE kind = 'bad1'"));
}

static void test_exec_that_writes_for_ever(void **state)
{
    static const struct bad bad[] = {
        {"exec", "flood_for_ever", "0", "1 s", "dead", "timed out after 1000 ms%"},
        {"exec", "writing_daemon", "0", NULL, "done", NULL},
    };
    BESIDE(*state, bad, "4");
}

/* Two of them obey no TERM, and are killed 5 s after it. On a slow machine it takes a while until
 * they do not. */
static void test_exec_that_does_not_end(void **state)
{
    struct fixture *fx = *state;
    static const struct bad bad[] = {
        {"exec", "say_nothing", "0", "3 s", "dead", "timed out%"},
        {"exec", "close", "0", "3 s", "dead", "timed out%"},
        {"exec", "ignore_term", "0", "3 s", "dead", "timed out%"},
        {"exec", "leave_group", "0", "3 s", "dead", "timed out%"},
        {"exec", "stop", "0", "3 s", "dead", "timed out%"},
        {"exec", "crowd", "50", "3 s", "dead", "timed out%"},
        {"exec", "daemon", "0", NULL, "done", NULL},
        {"exec", "kill_group", "0", NULL, "dead", "killed by signal 9%"},
    };
    BESIDE(fx, bad, "10");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead WHERE last_error LIKE "
                                      "'timed out%%' AND dead_at - start_time >= '7.9 s' "
                                      "AND kind IN ('bad2', 'bad4')"),
                     2);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.dead WHERE last_error LIKE "
                                  "'timed out%%' AND dead_at - start_time BETWEEN '2.9 s' "
                                  "AND interval '1 ms' * %lld AND kind NOT IN ('bad2', 'bad4')",
                                  (long long)patience_loaded_ms(7800)),
                     4);
}

static void test_exec_output_at_the_limits(void **state)
{
    struct fixture *fx = *state;
    static const struct bad bad[] = {
        {"exec", "flood", "262143", NULL, "done", NULL},
        {"exec", "flood", "262144", NULL, "done", NULL},
        {"exec", "flood", "262145", NULL, "done", NULL},
        {"exec", "garbage", "100000", NULL, "done", NULL},
    };
    BESIDE(fx, bad, "6");
    assert_true(test_sql_bool(fx, "SELECT array_agg(length(result #>> '{}') ORDER BY kind) = "
                                  "'{262143,262144,262185}' FROM tenon.history "
                                  "WHERE kind IN ('bad0', 'bad1', 'bad2')"));
    assert_true(
        test_sql_bool(fx,
                      "SELECT jsonb_typeof(result) = 'string' AND length(result #>> '{}') > 50000 "
                      "FROM tenon.history WHERE kind = 'bad3'"));
}

/* --- children that stay --- */

static void test_pool_lines(void **state)
{
    static const struct bad bad[] = {
        {"pool", "no_newline", "4", NULL, "dead", "%protocol error: a line is longer than 2 MiB%"},
        {"pool", "newlines", "4", NULL, "dead", "%protocol error: a line is not a JSON object%"},
        {"pool", "garbage", "4", NULL, "dead", "%protocol error: a line is not a JSON object%"},
        {"pool", "line_fits", "4", NULL, "done", NULL},
        {"pool", "line_too_long", "4", NULL, "done", NULL},
        {"pool", "nested", "4", NULL, "done", NULL},
        {"pool", "deep", "4", NULL, "done", NULL},
        {"pool", "tiny_number", "4", NULL, "done", NULL},
    };
    BESIDE(*state, bad, "10");
}

static void test_pool_replies(void **state)
{
    static const struct bad bad[] = {
        {"pool", "wrong_id", "4", NULL, "dead", "%protocol error: a reply to a task it does not%"},
        {"pool", "huge_id", "4", NULL, "dead", "%protocol error: a reply%"},
        {"pool", "huge_delay", "4", NULL, "dead", "%protocol error: \"delay_ms\"%"},
        {"pool", "twice", "4", NULL, "done", NULL},
        {"pool", "exit", "4", NULL, "dead", "the handler ended without an answer: exit status 0%"},
        {"pool", "close_err", "4", NULL, "done", NULL},
        {"pool", "flood_stderr", "4", NULL, "done", NULL},
        {"pool", "daemon", "4", NULL, "dead", "the handler ended without an answer%"},
    };
    BESIDE(*state, bad, "10");
}

static void test_pool_that_does_not_end(void **state)
{
    static const struct bad bad[] = {
        {"pool", "late", "4", "500 ms", "dead", "timed out%"},
        {"pool", "ignore_term", "4", "500 ms", "dead", "timed out%"},
        {"pool", "leave_group", "4", "500 ms", "dead", "timed out%"},
        {"pool", "stop", "4", "500 ms", "dead", "timed out%"},
        {"pool", "close_in", "4", "500 ms", "dead", "timed out%"},
        {"pool", "close_out", "4", NULL, "dead", "the handler closed its stdin or stdout%"},
    };
    BESIDE(*state, bad, "8");
}

/* Byte by byte is the slowest way to a line that is too long. */
static void test_pool_that_drips(void **state)
{
    struct fixture *fx = *state;
    static const struct bad bad[] = {
        {"pool", "drip", "4", "2 s", "dead", "timed out after 2000 ms%|%a line is longer than%"},
    };
    BESIDE(fx, bad, "3");
}

/* --- many and large --- */

/* Start a worker with one bad kind that may have 1,024 tasks at once, and enqueue some. */
static int64_t start_large(struct run *r, struct fixture *fx, const struct bad *bad,
                           const char *payload, int n)
{
    start_run(r, fx, bad, 1, "3");
    int64_t alone_ms = good_stream(r, at_once);
    test_sql(fx, "SELECT tenon.enqueue_many('bad0', array_fill(%s::jsonb, ARRAY[%d]))", payload, n);
    return alone_ms;
}

/* Without the limit in bytes it would claim all 120 MB, and give them to nobody who reads. */
static void test_a_child_that_never_reads_large_payloads(void **state)
{
    static const struct bad bad = {"pool", "never_read", "1024", NULL, NULL, NULL};
    struct fixture *fx = *state;
    struct run r;
    int64_t alone_ms = start_large(&r, fx, &bad, "to_jsonb(repeat('x', 1000000))", 120);
    static const char held[] = "SELECT count(start_time) BETWEEN %d AND %d, count(start_time) "
                               "FROM tenon.task WHERE kind = 'bad0'";
    test_await(fx, LIMIT_MS, held, 32, 70);
    int64_t beside_ms = good_stream(&r, at_once); /* it would not read for ever */
    assert_unharmed(&r, alone_ms, beside_ms);
    assert_true(test_sql_bool(fx, held, 32, 70));
    process_signal(r.worker, SIGTERM);
    process_await_line(r.worker, "event=draining", LIMIT_MS);
    process_signal(r.worker, SIGTERM); /* do not wait for it */
    assert_int_equal(process_wait(r.worker, LIMIT_MS), 0);
    broker_close(r.broker);
    assert_each_ran_once(fx, r.n_good);
}

static void test_1024_in_flight_with_large_results(void **state)
{
    static const struct bad bad = {"pool", "long_lines", "1024", NULL, NULL, NULL};
    struct run r;
    int64_t alone_ms = start_large(&r, *state, &bad, "'1'", 60);
    int64_t beside_ms = good_stream(&r, bad_ended);
    print_message("good tasks waited up to %lld ms beside 60 MB of results\n",
                  (long long)beside_ms);
    assert_in_range(beside_ms, 0, alone_ms + patience_loaded_ms(RESULTS_DELAY_MAX_MS));
    assert_true(test_sql_bool((struct fixture *)*state,
                              "SELECT count(*) = 60 AND sum(length(result #>> '{}')) > 59000000 "
                              "FROM tenon.history WHERE kind = 'bad0'"));
    end_run(&r);
}

/* --- crash loops: the kind backs off, and no task is charged --- */

static void start_crash_loop(struct run *r, struct fixture *fx, const struct bad *bad,
                             bool (*is_over)(const struct run *))
{
    start_run(r, fx, bad, 1, "3");
    int64_t alone_ms = good_stream(r, at_once);
    test_sql(fx, "SELECT tenon.enqueue('bad0', max_attempts => 1) FROM generate_series(1, 20)");
    int64_t beside_ms = good_stream(r, is_over);
    assert_unharmed(r, alone_ms, beside_ms);
}

static bool backs_off(const struct run *r)
{
    return process_lines(r->worker, "bad0 backs off for 400 ms") > 0;
}

static void test_crash_loop_before_hello(void **state)
{
    struct fixture *fx = *state;
    struct run r;
    const struct bad bad = {"pool", "no_hello", "4", NULL, NULL, NULL};
    start_crash_loop(&r, fx, &bad, backs_off);
    test_await(fx, LIMIT_MS, "SELECT backing_off LIKE 'bad0: exit status 3%%' FROM tenon.worker");
    char *status = TENON_RUN(fx, 0, "status");
    assert_contains(status, "a handler does not start: bad0: exit status 3");
    free(status);
    int64_t id = test_sql_int(fx, "SELECT min(id) FROM tenon.task WHERE kind = 'bad0'");
    test_await(fx, LIMIT_MS, /* for a moment it is claimed, when the next child is tried */
               "SELECT w LIKE 'The handler of the kind bad0 does not start and backs off on worker "
               "%%): exit status 3%%', w FROM tenon.why(%lld) w",
               (long long)id);
    assert_in_range(process_lines(r.worker, "event=handler_backs_off"), 3, 12);
    end_run(&r);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 20 AND bool_and(failures = 0 AND crashes = 0 "
                                  "AND start_time IS NULL) FROM tenon.task WHERE kind = 'bad0'"));
}

static bool backs_off_or_is_through(const struct run *r)
{
    return backs_off(r) || bad_ended(r);
}

/* If it has a task already when it ends, that one is charged; else its kind backs off. */
static void test_crash_loop_after_hello(void **state)
{
    struct fixture *fx = *state;
    struct run r;
    const struct bad bad = {"pool", "hello_and_exit", "1", NULL, NULL, NULL};
    start_crash_loop(&r, fx, &bad, backs_off_or_is_through);
    end_run(&r);
    assert_true(test_sql_bool(
        fx,
        "SELECT count(*) = 20 AND bool_and(CASE state WHEN 'dead' THEN attempt > 0 AND failures "
        "= 1 AND last_error LIKE '%%the handler ended without an answer: exit status 0%%' ELSE "
        "state = 'ready' AND failures = 0 END AND crashes = 0) FROM tenon.tasks WHERE kind = "
        "'bad0'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_exec_floods),
        WITH_SERVERS(test_exec_that_writes_for_ever),
        WITH_SERVERS(test_exec_that_does_not_end),
        WITH_SERVERS(test_exec_output_at_the_limits),
        WITH_SERVERS(test_pool_lines),
        WITH_SERVERS(test_pool_replies),
        WITH_SERVERS(test_pool_that_does_not_end),
        WITH_SERVERS(test_pool_that_drips),
        WITH_SERVERS(test_a_child_that_never_reads_large_payloads),
        WITH_SERVERS(test_1024_in_flight_with_large_results),
        WITH_SERVERS(test_crash_loop_before_hello),
        WITH_SERVERS(test_crash_loop_after_hello),
    };
    return RUN_GROUP(tests);
}
