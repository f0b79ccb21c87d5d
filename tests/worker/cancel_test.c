/* label: e2e */
/* A task that is cancelled before it starts, while a worker has claimed it already. */
#include "tests/support/struck.h"
#include "tests/support/working.h"

#include <signal.h>

enum { READY_MS = 15000 };

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
               "SELECT clock_timestamp() > finished_at + interval '100 ms' FROM tenon.history");
    process_signal(worker, SIGCONT);
    process_await_line(worker, "it is not started", READY_MS);
    end_well(worker);
    assert_each_ran_once(fx, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker_that_was_frozen_after_its_claim),
    };
    return RUN_GROUP(tests);
}
