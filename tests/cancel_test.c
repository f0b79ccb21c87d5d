/* label: e2e */
/* A task that is cancelled before it starts, while a worker has claimed it already. */
#include "tests/support/working.h"

#include <fcntl.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_cancelled_claim_never_starts),
    };
    return RUN_GROUP(tests);
}
