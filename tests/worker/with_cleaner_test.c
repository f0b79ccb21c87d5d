/* label: e2e */
/* `tenon worker --with-cleaner`: both work, both end, and neither goes on without the other. */
#include "tests/support/working.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct pair {
    struct process *p;
    pid_t worker, cleaner;
};

static struct pair start(struct fixture *fx)
{
    char h[256];
    pid_t pids[2];
    struct pair pair = {.p = TENON(fx, "worker", "--with-cleaner", "--slots", "1", "--handler",
                                   handler(h, "a=pool:exec %s 1", "pool"))};
    process_await_line(pair.p, "event=worker_ready", LIMIT_MS);
    process_await_line(pair.p, "event=cleaner_started", LIMIT_MS);
    assert_int_equal(process_children(pair.p, pids, 2), 2);
    pair.worker = (pid_t)test_sql_int(fx, "SELECT pid FROM tenon.worker");
    pair.cleaner = pids[pids[0] == pair.worker];
    return pair;
}

static void await_end(struct fixture *fx, pid_t pid)
{
    for (int i = 0; kill(pid, 0) == 0 || errno != ESRCH; i++) {
        (void)waitpid(pid, NULL, WNOHANG); /* if its parent was killed, it is ours */
        if (i > LIMIT_MS * PATIENCE / 10) {
            fail_msg("process %d runs on", (int)pid);
        }
        test_sql(fx, "SELECT pg_sleep(0.01)");
    }
}

/* A child task waits for its parent, and only a cleaner lets it go. */
static void run_flow(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.flow('{\"tasks\": [{\"name\": \"p\", \"kind\": \"a\"},"
                 " {\"kind\": \"a\", \"depends_on\": [\"p\"]}]}')");
    await_done(fx, 2);
}

static void enqueue_sleep(struct fixture *fx, int ms)
{
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": %d}')", ms);
    journal_await_started(fx, 1, LIMIT_MS);
}

static void test_both_work_and_end(void **state)
{
    struct fixture *fx = *state;
    struct pair pair = start(fx);
    run_flow(fx);
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 700}')");
    journal_await_started(fx, 3, LIMIT_MS);
    end_well(pair.p);
    await_end(fx, pair.cleaner);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 3);
    assert_int_equal(process_lines(pair.p, "event=cleaner_stopped"), 1);
    assert_int_equal(process_lines(pair.p, "event=cleaner_ended"), 0);
}

static void test_a_killed_cleaner_ends_the_worker(void **state)
{
    struct fixture *fx = *state;
    struct pair pair = start(fx);
    enqueue_sleep(fx, 700);
    assert_int_equal(kill(pair.cleaner, SIGKILL), 0);
    assert_int_equal(process_wait(pair.p, LIMIT_MS), 128 + SIGKILL);
    assert_int_equal(process_lines(pair.p, "event=cleaner_ended"), 1);
    assert_true(test_sql_bool(fx, "SELECT state = 'left' FROM tenon.worker"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 1); /* it drained */
}

static void test_a_killed_worker_ends_the_cleaner(void **state)
{
    struct fixture *fx = *state;
    struct pair pair = start(fx);
    assert_int_equal(kill(pair.worker, SIGKILL), 0);
    assert_int_equal(process_wait(pair.p, LIMIT_MS), 128 + SIGKILL);
    await_end(fx, pair.cleaner);
}

/* What is started next recovers what ran. */
static void test_what_is_killed_is_recovered(void **state)
{
    struct fixture *fx = *state;
    struct pair pair = start(fx);
    enqueue_sleep(fx, 60000);
    assert_int_equal(kill(pair.worker, SIGSTOP), 0); /* so that it cannot drain */
    process_kill(pair.p);
    await_end(fx, pair.cleaner);
    assert_int_equal(kill(pair.worker, SIGKILL), 0);
    await_end(fx, pair.worker);
    test_sql(fx, "UPDATE tenon.task SET payload = '{}'");
    (void)TENON(fx, "worker", "--with-cleaner", "--slots", "1", "--handler", "a=cat");
    test_await(fx, 2 * LIMIT_MS,
               "SELECT count(*) = 1, count(*) FROM tenon.history WHERE crashes = 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_both_work_and_end),
        WITH_SERVERS(test_a_killed_cleaner_ends_the_worker),
        WITH_SERVERS(test_a_killed_worker_ends_the_cleaner),
        WITH_SERVERS(test_what_is_killed_is_recovered),
    };
    return RUN_GROUP(tests);
}
