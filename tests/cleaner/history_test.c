/* label: e2e */
/* timeout: 120 */
/* The history and the cleaner: what it drops, and what stays. */
#include "tests/support/partitions.h"
#include "tests/support/process.h"

#include <signal.h>
#include <stdio.h>

enum { LIMIT_MS = 15000 };

static void stop(struct process *p)
{
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, 5000), 0);
}

static void add_history(struct fixture *fx, int from, int to)
{
    test_sql(fx,
             "INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims,"
             " failures, crashes, priority, outcome, queue, kind, payload) SELECT now(), g, now(),"
             " now(), 1, 0, 0, 4, 'done', 'default', 'mail', '{}' FROM generate_series(%d, %d) g",
             from, to);
    test_flush_statistics(fx);
}

static void assert_history(struct fixture *fx, const char *ids)
{
    char *got = test_sql_text(fx, "SELECT string_agg(id::text, ' ' ORDER BY id)"
                                  " FROM tenon.history");
    assert_string_equal(got, ids);
    free(got);
}

static void test_old_history_goes(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_keep = '72 hours'");
    for (int days_ago = 9; days_ago >= 2; days_ago--) {
        char ago[16];
        (void)snprintf(ago, sizeof ago, "%d days", days_ago);
        add_history(fx, days_ago, days_ago);
        partition_begun(fx, "history", ago);
    }
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_history(fx, "2");
    test_sql(fx, "UPDATE tenon.setting SET history_rows_max = 8");
    add_history(fx, 11, 19);
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_history(fx, "11 12 13 14 15 16 17 18 19");
}

/* Rows come and stay within their number, while the cleaner looks when it likes. */
static void test_history_stays_within_its_rows(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_rows_max = 200");
    struct process *p = TENON(fx, "cleaner");
    for (int i = 1; i <= 12; i++) {
        add_history(fx, i * 20, i * 20 + 19);
        test_await(fx, LIMIT_MS, "SELECT last_value > %d, last_value FROM tenon.history_part", i);
    }
    process_await_line(p, "event=partition_dropped partition=history_1", LIMIT_MS);
    test_await(fx, LIMIT_MS, "SELECT count(*) BETWEEN 200 AND 240, count(*) FROM tenon.history");
    stop(p);
}

static void assert_partitions(struct fixture *fx, const char *want)
{
    char *got = partitions_of(fx, "history");
    assert_string_equal(got, want);
    free(got);
}

static void test_a_reader_only_puts_history_off(void **state)
{
    struct fixture *fx = *state;
    partition_begun(fx, "history", "9 days");
    partition_begun(fx, "history", "8 days");
    PGconn *reader = sql_connect(fx->database_url);
    sql_run(reader, "BEGIN; SELECT count(*) FROM tenon.history");
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_partitions(fx, "2 2");
    test_sql(fx, "SELECT tenon.cancel(%lld)",
             (long long)test_sql_int(fx, "SELECT tenon.enqueue('mail')")); /* finishing goes on */
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_partitions(fx,
                      "3 2"); /* and so does beginning a partition, with a row in one of an age */
    sql_run(reader, "COMMIT");
    PQfinish(reader);
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    assert_partitions(fx, "1 2");
}

static void test_missing_partitions_are_made(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "DO $$ DECLARE p text; BEGIN FOR p IN SELECT inhrelid::regclass FROM pg_inherits"
                 " WHERE inhparent = 'tenon.history'::regclass LOOP EXECUTE 'DROP TABLE ' || p;"
                 " END LOOP; END $$");
    struct process *p = TENON(fx, "cleaner");
    process_await_line(p, "event=partitions_made partitions=2", LIMIT_MS);
    stop(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_old_history_goes),
        WITH_DATABASE(test_history_stays_within_its_rows),
        WITH_DATABASE(test_a_reader_only_puts_history_off),
        WITH_DATABASE(test_missing_partitions_are_made),
    };
    return RUN_GROUP(tests);
}
