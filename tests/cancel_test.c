/* label: e2e */
/* A task that is cancelled before it starts, while a worker has claimed it already. */
#include "tests/support/struck.h"
#include "tests/support/working.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { READY_MS = 15000 };

/* Claimed for a child that says hello only when it may. */
static void test_a_cancelled_claim_never_starts(void **state)
{
    struct fixture *fx = *state;
    char gate[300], command[900], pool[256];
    (void)snprintf(gate, sizeof gate, "%s/gate", fx->dir);
    (void)snprintf(command, sizeof command, "a=pool:until [ -e %s ]; do sleep 0.02; done; %s", gate,
                   handler(pool, "exec %s 1", "pool"));
    struct process *worker = TENON(fx, "worker", "--slots", "1", "--handler", command);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, READY_MS, "SELECT start_time IS NOT NULL FROM tenon.task");
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)id));
    test_await(fx, READY_MS,
               "SELECT clock_timestamp() > finished_at + interval '100 ms'"
               " FROM tenon.finished");
    int fd = open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, READY_MS, "SELECT count(*) = 1 FROM tenon.finished WHERE outcome = 'done'");
    assert_int_equal(process_lines(worker, "it is not started"), 1);
    end_well(worker);
    assert_each_ran_once(fx, 1);
}

/* How old a claim is counts from when its round began, and not from when a worker that was frozen
 * meanwhile reads the answer. */
static void test_a_worker_that_was_frozen_after_its_claim(void **state)
{
    struct fixture *fx = *state;
    char h[256];
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    struct process *worker =
        tenon_spawn(fx,
                    (const char *const[]){"worker", "--slots", "1", "--handler",
                                          handler(h, "a=exec %s exit 0", "journal.sh"), NULL},
                    (const char *const[]){"TENON_POINT=claims_committed:1:freeze", NULL});
    struck_await_stopped(worker->pid, READY_MS);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)id));
    test_await(fx, READY_MS,
               "SELECT clock_timestamp() > finished_at + interval '100 ms' FROM tenon.finished");
    process_signal(worker, SIGCONT);
    process_await_line(worker, "it is not started", READY_MS);
    end_well(worker);
    assert_each_ran_once(fx, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_cancelled_claim_never_starts),
        WITH_SERVERS(test_a_worker_that_was_frozen_after_its_claim),
    };
    return RUN_GROUP(tests);
}
