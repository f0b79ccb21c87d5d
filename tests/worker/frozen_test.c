/* label: fault */
/* timeout: 300 */
/* A worker that is frozen while its handlers live: its guard ends them. */
#include "tests/support/working.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum { POLL_MS = 5, FROZEN_LIMIT_MS = 120000 };

/* A zombie, which its worker has not reaped yet, does not run. */
static bool runs(pid_t pid)
{
    char path[64], state = 'Z';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
        (void)fclose(file);
    }
    return state != 'Z' && state != 'X';
}

/* Its handler is not frozen with it, and would run on: beside the next one, once PostgreSQL has
 * ended the session of the worker. The guard ends it before. */
static void test_a_frozen_worker_exceeds_no_limit(void **state)
{
    struct fixture *fx = *state;
    struct journal j;
    char h[2][256];
    test_sql(fx, "SELECT tenon.set_limit('kind/a', max_running => 1);"
                 "SELECT tenon.enqueue('a') FROM generate_series(1, 2)");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *frozen = TENON(fx, "worker", "--slots", "1", "--handler",
                                   handler(h[0], "a=exec %s sleep 600", "journal.sh"));
    journal_await_started(fx, 1, LIMIT_MS);
    process_signal(frozen, SIGSTOP);
    journal_read(fx, &j);
    pid_t first = j.runs[0].pid;
    journal_clear(&j);
    assert_true(runs(first));
    struct process *other = TENON(fx, "worker", "--slots", "1", "--handler",
                                  handler(h[1], "a=exec %s exit 0", "journal.sh"));
    journal_await_started(fx, 2, FROZEN_LIMIT_MS);
    assert_false(runs(first));
    await_done(fx, 2);
    process_signal(frozen, SIGCONT);
    end_well(frozen);
    end_well(other);
    end_well(cleaner);
}

/* It moves again before anybody has taken it for dead: what its guard has ended is given back, and
 * no attempt of it counts. */
static void test_a_worker_that_was_frozen_for_a_while(void **state)
{
    struct fixture *fx = *state;
    struct journal j;
    char h[256];
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct process *frozen = TENON(fx, "worker", "--slots", "1", "--handler",
                                   handler(h, "a=exec %s sleep 600", "journal.sh"));
    journal_await_started(fx, 1, LIMIT_MS);
    journal_read(fx, &j);
    process_signal(frozen, SIGSTOP);
    for (int64_t end_ms = patience_end_ms(FROZEN_LIMIT_MS); runs(j.runs[0].pid);) {
        assert_true(now_ms() < end_ms);
        (void)poll(NULL, 0, POLL_MS);
    }
    journal_clear(&j);
    process_signal(frozen, SIGCONT);
    process_await_line(frozen, "this process was frozen", LIMIT_MS);
    journal_await_started(fx, 2, LIMIT_MS);
    assert_true(test_sql_bool(fx, "SELECT failures = 0 AND crashes = 0 FROM tenon.task"));
    process_kill(frozen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_frozen_worker_exceeds_no_limit),
        WITH_SERVERS(test_a_worker_that_was_frozen_for_a_while),
    };
    return RUN_GROUP(tests);
}
