/* label: e2e */
/* The pass over the table that recovers what dead workers had started. */
#include "cleaner/decide/pass.h"
#include "tests/support/fixture.h"
#include "tests/support/process.h"
#include "tests/support/working.h"

enum { DEAD_LIMIT_MS = 40000 };

/* Many die at once, beside a table of several pieces: one pass of the leader's takes the tasks
 * of all, wherever they stand. */
static void test_one_pass_for_all_dead_workers(void **state)
{
    enum { WORKERS = 20, WAITING = 30000, OF_EACH = 3 };
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.worker (host, pid, slots, queues, kinds) SELECT 'here', i, 4,"
             " '{default}', '{mail}' FROM generate_series(1, %d) i",
             WORKERS);
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[%d]), 'still')",
             WAITING);
    test_sql(
        fx,
        "WITH w AS (SELECT id, row_number() OVER () AS i FROM tenon.worker) UPDATE tenon.task t"
        " SET start_time = now(), claim_key = t.id, claims = 1, worker_id = w.id FROM w"
        " WHERE t.id %% (%d / %d) = 0 AND t.id / (%d / %d) %% %d + 1 = w.i",
        WAITING, WORKERS * OF_EACH, WAITING, WORKERS * OF_EACH, WORKERS);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS NOT"
                                      " NULL"),
                     WORKERS * OF_EACH);
    assert_true(test_sql_int(fx, "SELECT pg_relation_size('tenon.task') / 8192") >
                PASS_PIECE_BLOCKS);
    struct process *one = TENON(fx, "cleaner");
    process_await_line(one, "event=leader", LIMIT_MS);
    struct process *two = TENON(fx, "cleaner");
    process_await_line(one, "event=tasks_recovered tasks=60 dead=0", DEAD_LIMIT_MS);
    assert_int_equal(process_lines(one, "event=worker_dead"), WORKERS);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS NOT"
                                      " NULL OR claims > 0 AND crashes <> 1"),
                     0);
    end_well(one);
    process_await_line(two, "event=leader", LIMIT_MS);
    end_well(two);
    assert_int_equal(process_lines(two, "event=worker_dead"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_one_pass_for_all_dead_workers),
    };
    return RUN_GROUP(tests);
}
