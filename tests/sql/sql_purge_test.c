/* label: sql */
/* What the purge costs beside what stays. */
#include "tests/support/fixture.h"

/* Flows that stay, because a task of each is dead: a turn looks at some of them, and the next one
 * goes on from there. */
static void test_a_purge_goes_past_what_stays(void **state)
{
    enum { STAY = 5000, PIECE = 1000, ROWS_MAX = 5 * PIECE };
    struct fixture *fx = *state;
    test_sql(
        fx,
        "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
        " crashes, max_attempts, priority, reason, queue, kind, payload) SELECT now(), i, now(),"
        " now(), 1000, 1, 1, 0, 1, 4, 'failures', 'default', 'a', '1' FROM"
        " generate_series(1, %d) i;"
        "INSERT INTO tenon.flow (made_at, ended_at) SELECT now() - interval '3 days', now() -"
        " interval '2 days' FROM generate_series(1, %d + 1);"
        "INSERT INTO tenon.flow_task (id, flow, state) SELECT id, id, 'dead' FROM tenon.flow;"
        "ANALYZE",
        STAY, STAY);
    test_sql(fx, "CREATE FUNCTION rows_read() RETURNS bigint LANGUAGE sql AS $$ SELECT"
                 " sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM"
                 " pg_stat_xact_user_tables WHERE schemaname = 'tenon' $$");
    int turns = 0;
    while (test_sql_int(fx, "SELECT count(*) FROM tenon.flow") > STAY) {
        test_sql(fx, "BEGIN");
        int64_t before = test_sql_int(fx, "SELECT rows_read()");
        bool more = test_sql_bool(fx, "SELECT tenon.purge(100) >= 100");
        assert_in_range(test_sql_int(fx, "SELECT rows_read()") - before, 1, ROWS_MAX);
        test_sql(fx, "COMMIT");
        assert_true(more || turns == STAY / PIECE);
        turns++;
    }
    assert_int_equal(turns, STAY / PIECE + 1);
    assert_true(
        test_sql_bool(fx, "SELECT count(*) = %d AND max(id) = %d FROM tenon.flow", STAY, STAY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_purge_goes_past_what_stays),
    };
    return RUN_GROUP(tests);
}
