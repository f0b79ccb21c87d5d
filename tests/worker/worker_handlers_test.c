/* label: e2e */
/* timeout: 300 */
/* How handlers end, and what a bad one costs. */
#include "core/base/now.h"
#include "tests/support/struck.h"
#include "tests/support/working.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    assert_true(test_sql_bool(fx, "SELECT result = '\"hello\"' FROM tenon.history WHERE id = 6"));
    assert_each_ran_once(fx, 6);
}

static void test_pool_outcomes(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{}')"); /* 1 */
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"fail\"}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"dead\"}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"snooze\", \"delay_ms\": 3600000}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"result\", \"x\": \"\\u00e4 "
                 "\\\\\\\"\\n\"}')"); /* 5 */
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
    assert_true(test_sql_bool(fx, "SELECT result = payload FROM tenon.history WHERE id = 5"));
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
    bad_answer(fx, "garbage", "not a JSON object");
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
    struct process *p = TENON(fx, "worker", "--handler", "a=pool:exec '/nonexistent/program'",
                              "--handler", handler(h, "b=exec %s", "journal.sh"));
    process_await_line(p, "event=handler_backs_off", LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT state = 'done' FROM tenon.tasks WHERE kind = 'b'");
    end_well(p);
    assert_true(test_sql_bool(
        fx, "SELECT failures = 0 AND crashes = 0 AND start_time IS NULL FROM tenon.task WHERE kind "
            "= 'a'"));
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
    assert_true(test_sql_bool(fx, "SELECT bool_and(result = '\"inside\"') FROM tenon.history"));
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
    assert_int_equal(poll(&pfd, 1, LIMIT_MS * PATIENCE), 1);
    (void)close(fd);
}

/* A handler that starts a process of its own, whose number it writes to `path`, and waits. */
static const char *parent_handler(const struct fixture *fx, char h[1024], char path[256])
{
    (void)snprintf(path, 256, "%s/pid", fx->dir);
    (void)snprintf(h, 512,
                   "a=trap '' TERM; sleep 300 & echo $! >%s; echo \"$TENON_TASK_ID 1 $$ start 1\" "
                   ">>$TEST_JOURNAL; wait; sleep 300",
                   path);
    return h;
}

static int pid_in(const char *path)
{
    char *text = file_text(path);
    int pid = (int)strtol(text, NULL, 10);
    free(text);
    assert_true(pid > 1);
    return pid;
}

static void test_timeout_ends_the_whole_process_group(void **state)
{
    struct fixture *fx = *state;
    char h[1024], path[256];
    test_sql(fx, "SELECT tenon.enqueue('a', timeout => '1 s')");
    /* TERM is ignored by both, so that only KILL to the group ends the one in the background */
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler",
                              parent_handler(fx, h, path));
    test_await(fx, LIMIT_MS, "SELECT state = 'retrying', state FROM tenon.tasks");
    assert_true(test_sql_bool(
        fx, "SELECT last_error LIKE 'timed out after 1000 ms%%' AND failures = 1 FROM tenon.task"));
    await_pid_end(pid_in(path));
    end_well(p);
}

/* The handler itself obeys TERM at once, what it started does not. */
static void test_what_outlives_a_stopped_handler_is_killed(void **state)
{
    struct fixture *fx = *state;
    char h[1024], path[256];
    (void)snprintf(path, sizeof path, "%s/pid", fx->dir);
    (void)snprintf(h, sizeof h,
                   "a=(trap '' TERM; sleep 300; sleep 300) >/dev/null 2>&1 & echo $! >%s; wait",
                   path);
    test_sql(fx, "SELECT tenon.enqueue('a', timeout => '1 s')");
    struct process *p = TENON(fx, "worker", "--slots", "1", "--handler", h);
    test_await(fx, LIMIT_MS, "SELECT state = 'retrying', state FROM tenon.tasks");
    await_pid_end(pid_in(path));
    end_well(p);
}

static void test_many_large_payloads_in_flight(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_agg(jsonb_build_object('do', 'x', 'text', "
                 "repeat('x', 1000000)))) FROM generate_series(1, 80)");
    struct process *p = pool_worker(fx, "1", "100");
    await_done(fx, 80);
    end_well(p);
    assert_each_ran_once(fx, 80);
}

/* Killed while they run, or before it knows that it has started one. */
static void test_handlers_and_what_they_started_die_with_the_worker(void **state)
{
    static const char *const points[] = {NULL, "TENON_POINT=child_spawned:1:freeze"};
    struct fixture *fx = *state;
    char h[1024], path[256];
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 2)");
    for (size_t i = 0; i < 2; i++) {
        struct journal j;
        struct process *p = tenon_spawn(fx,
                                        (const char *const[]){"worker", "--slots", "1", "--handler",
                                                              parent_handler(fx, h, path), NULL},
                                        (const char *const[]){points[i], NULL});
        journal_await_started(fx, i + 1, LIMIT_MS);
        journal_read(fx, &j);
        process_kill(p);
        await_pid_end(j.runs[i].pid);
        await_pid_end(pid_in(path));
        journal_clear(&j);
    }
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
    file_write(path, text);
    test_sql(fx, "SELECT tenon.enqueue(k) FROM unnest('{a,b,c}'::text[]) k, generate_series(1, 5)");
    free(TENON_RUN(fx, 0, "worker", "--handlers", path, "--slots", "2", "--until-empty"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 15);
    assert_each_ran_once(fx, 15);
    static const struct {
        const char *text, *says;
    } bad[] = {{"handler a {", "handlers.conf:"},
               {"handler a { mode = pool }", "command"},
               {"handler a { command = {\"sh\"} mode = \"both\" }", "exec or pool"},
               {"handler a { command = {\"sh\"} in_flight = 5000 }", "0 to 1024"},
               {"handler a { command = {\"sh\"} } handler a { command = {\"sh\"} }",
                "handlers.conf"},
               {"handler \"a,b\" { command = {\"sh\"} } handler b { command = {\"sh\"} }",
                "two handlers"},
               {"colour = red", "colour"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_write(path, bad[i].text);
        struct process *p = TENON(fx, "worker", "--handlers", path);
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log, bad[i].says);
        free(log);
    }
}

static void test_a_closed_stdin_takes_nothing_from_handlers(void **state)
{
    struct fixture *fx = *state;
    char path[256], command[600];
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    file_write(path, "{\"n\": 1}");
    (void)snprintf(command, sizeof command,
                   "exec '%s' worker --handler a=cat --run-one a %s <&- 2>&-", tenon_program, path);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *out = file_text(p->out);
    assert_contains(out, "\"n\": 1");
    free(out);
}

static void test_run_one(void **state)
{
    struct fixture *fx = *state;
    char path[256], h[256];
    const char *const env[] = {"DATABASE_URL=postgresql://127.0.0.1:1/none", "AMQP_URL=none", NULL};
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    file_write(path, "{\n \"n\": 1\n}\n");
    const char *const cat[] = {"worker", "--handler", "a=cat", "--run-one", "a", path, NULL};
    struct process *p = tenon_spawn(fx, cat, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *out = file_text(p->out);
    assert_contains(out, "\"n\": 1");
    free(out);
    const char *const later[] = {"worker", "--handler", "a=exit 75", "--run-one", "a", path, NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, later, env), LIMIT_MS), 75);
    const char *const loud[] = {"worker", "--handler", "a=seq 1 5000 >&2; exit 3", "--run-one", "a",
                                path,     NULL};
    p = tenon_spawn(fx, loud, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    char *log = file_text(p->log);
    assert_contains(log, "1\n2\n3\n");
    assert_contains(log, "\n4999\n5000\nfailed: exit status 3\n");
    free(log);
    file_write(path, "{\"do\": \"dead\"}");
    const char *const dead[] = {"worker",    "--handler", handler(h, "a=pool:exec %s 1", "pool"),
                                "--run-one", "a",         path,
                                NULL};
    assert_int_equal(process_wait(tenon_spawn(fx, dead, env), LIMIT_MS), 65);
}

static void assert_prints(struct fixture *fx, const char *const *args, const char *const *env,
                          const char *want)
{
    struct process *p = tenon_spawn(fx, args, env);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *out = file_text(p->out);
    assert_string_equal(out, want);
    free(out);
}

/* What the worker connects with is its own, by the same rule as when it runs. */
static void test_a_handler_gets_no_password(void **state)
{
    static const char print[] = "a=echo ${DATABASE_URL-no} ${AMQP_URL-no} ${PGPASSWORD-no}";
    struct fixture *fx = *state;
    char path[256], file[256], text[600];
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    file_write(path, "1");
    const char *const args[] = {"worker", "--handler", print, "--run-one", "a", path, NULL};
    const char *const plain[] = {"TENON_PASS_ENV", "PGPASSWORD=word", NULL};
    assert_prints(fx, args, plain, "\"no no no\"\n");
    const char *const own[] = {"TENON_PASS_ENV", "TENON_DATABASE_URL=postgresql:///worker",
                               "DATABASE_URL=handler", NULL};
    assert_prints(fx, args, own, "\"handler no no\"\n");
    const char *const passed[] = {"TENON_PASS_ENV=PGPASSWORD,AMQP_URL", "PGPASSWORD=word",
                                  "AMQP_URL=none", NULL};
    assert_prints(fx, args, passed, "\"no none word\"\n");
    (void)snprintf(file, sizeof file, "%s/handlers.conf", fx->dir);
    (void)snprintf(text, sizeof text,
                   "handler a { command = {\"sh\", \"-c\", '%s'} pass_env = {PGPASSWORD} }",
                   "echo ${DATABASE_URL-no} ${PGPASSWORD-no}");
    file_write(file, text);
    const char *const by_file[] = {"worker", "--handlers", file, "--run-one", "a", path, NULL};
    assert_prints(fx, by_file, plain, "\"no word\"\n");
}

/* What the handler does in its transaction is done; only there is no task to finish. */
static void test_run_one_of_a_handler_that_finishes_its_task(void **state)
{
    struct fixture *fx = *state;
    char path[256], h[256];
    test_sql(fx, "CREATE TABLE public.effect (id bigint)");
    (void)snprintf(path, sizeof path, "%s/payload", fx->dir);
    file_write(path, "{\"do\": \"finish\"}");
    struct process *p = TENON(fx, "worker", "--handler", handler(h, "a=pool:exec %s 1", "pool"),
                              "--run-one", "a", path);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    char *log = file_text(p->log);
    assert_contains(log, "nothing is written");
    free(log);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.effect"), 1);
}

static void test_an_ignored_sigchld_hides_no_end(void **state)
{
    struct fixture *fx = *state;
    char command[600];
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 5)");
    (void)snprintf(command, sizeof command,
                   "trap '' CHLD; exec '%s' worker --handler 'a=sleep 0.05' --until-empty",
                   tenon_program);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    assert_int_equal(process_wait(process_spawn(fx, argv, NULL), LIMIT_MS), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE outcome = 'done' "
                                      "AND failures = 0 AND crashes = 0"),
                     5);
}

/* The worker is stopped when the child has just started: nothing of the payload may be missing, or
 * a child whose worker dies then would take the part for the whole. */
static void test_a_payload_is_there_before_its_child_starts(void **state)
{
    struct fixture *fx = *state;
    char h[256], file[300];
    (void)snprintf(file, sizeof file, "%s.bytes", fx->journal);
    test_sql(fx, "SELECT tenon.enqueue('a', to_jsonb(repeat('x', 500000)))");
    struct process *p = tenon_spawn(
        fx, (const char *const[]){"worker", "--handler", handler(h, "a=exec %s", "count.sh"), NULL},
        (const char *const[]){"TENON_POINT=child_spawned:1:freeze", NULL});
    for (int64_t end_ms = patience_end_ms(LIMIT_MS); access(file, F_OK) != 0;) {
        assert_true(now_ms() < end_ms);
        (void)poll(NULL, 0, 5);
    }
    char *bytes = file_text(file);
    assert_int_equal(strtol(bytes, NULL, 10), 500002);
    free(bytes);
    struck_await_stopped(p->pid, LIMIT_MS); /* the child may be the faster of the two */
    process_signal(p, SIGCONT);
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
        WITH_SERVERS(test_what_outlives_a_stopped_handler_is_killed),
        WITH_SERVERS(test_many_large_payloads_in_flight),
        WITH_SERVERS(test_handlers_and_what_they_started_die_with_the_worker),
        WITH_SERVERS(test_handlers_file),
        WITH_SERVERS(test_run_one),
        WITH_SERVERS(test_a_handler_gets_no_password),
        WITH_SERVERS(test_run_one_of_a_handler_that_finishes_its_task),
        WITH_SERVERS(test_an_ignored_sigchld_hides_no_end),
        WITH_SERVERS(test_a_closed_stdin_takes_nothing_from_handlers),
        WITH_SERVERS(test_a_payload_is_there_before_its_child_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
