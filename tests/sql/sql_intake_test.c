/* label: sql */
/* tenon.intake_note: what the rows of tenon.intake say, and which of them go. */
#include "tests/support/fixture.h"

#include <stdio.h>

/* A process that has been running for `up_s` reports of one queue. */
static void report(struct fixture *fx, const char *queue, int pid, int up_s, int rejected,
                   const char *error)
{
    test_sql(fx,
             "SELECT tenon.intake_note('h', %d, '1', %d, jsonb_build_array(jsonb_build_object("
             "'queue', '%s', 'is_stream', false, 'taken', 9, 'repeated', 2, 'rejected', %d, 'kept',"
             " 1, 'unkeyed', 0, 'error', %s)))",
             pid, up_s * 1000, queue, rejected, error);
}

static void age(struct fixture *fx, const char *by)
{
    test_sql(fx,
             "UPDATE tenon.intake SET seen_at = seen_at - interval '%1$s', error_since ="
             " error_since - interval '%1$s', rejected_at = rejected_at - interval '%1$s'",
             by);
}

static void test_a_row_is_as_the_process_says(void **state)
{
    struct fixture *fx = *state;
    report(fx, "q", 1, 100, 0, "NULL");
    assert_true(test_sql_bool(
        fx, "SELECT (queue, host, pid, version, is_stream, taken, repeated, rejected, kept,"
            " unkeyed) = ('q', 'h', 1, '1', false, 9, 2, 0, 1, 0) AND error IS NULL AND"
            " error_since IS NULL AND rejected_at IS NULL AND unkeyed_at IS NULL AND"
            " clock_timestamp() - started_at BETWEEN '100 s' AND '160 s' FROM tenon.intake"));
    report(fx, "q", 1, 110, 3, "'no queue'");
    age(fx, "40 s");
    report(fx, "q", 1, 120, 3, "repeat('x', 5000)");
    assert_true(test_sql_bool(fx, "SELECT length(error) = 1000 AND error_since < clock_timestamp()"
                                  " - interval '40 s' AND rejected_at = error_since AND seen_at >"
                                  " error_since + interval '40 s' FROM tenon.intake"));
    report(fx, "q", 1, 130, 4, "NULL");
    assert_true(test_sql_bool(fx, "SELECT error IS NULL AND error_since IS NULL AND rejected_at ="
                                  " seen_at FROM tenon.intake"));
    test_sql(fx, "SELECT tenon.intake_note('h', 1, '1', 1, '[]')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.intake"), 0);
}

/* A container that was killed and starts again may have the same host and pid. */
static void test_a_container_starts_again(void **state)
{
    struct fixture *fx = *state;
    report(fx, "q", 1, 100, 5, "NULL");
    report(fx, "other", 1, 100, 5, "NULL");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.intake"), 1);
    age(fx, "20 s");
    report(fx, "other", 1, 0, 2, "NULL");
    assert_true(test_sql_bool(fx, "SELECT queue = 'other' AND rejected = 2 AND rejected_at ="
                                  " seen_at FROM tenon.intake"));
}

static void assert_pids(struct fixture *fx, const char *want)
{
    char *got = test_sql_text(fx, "SELECT string_agg(queue || pid, ' ' ORDER BY queue, pid) FROM"
                                  " tenon.intake");
    assert_string_equal(got, want);
    free(got);
}

/* The rows of one that was killed go when a younger one has taken its place. */
static void test_a_killed_process(void **state)
{
    struct fixture *fx = *state;
    report(fx, "q", 1, 1000, 0, "NULL");
    report(fx, "r", 2, 1000, 0, "NULL");
    report(fx, "q", 3, 1000, 0, "NULL"); /* as old: it ran beside the first */
    age(fx, "61 s");
    report(fx, "q", 3, 1061, 0, "NULL");
    assert_pids(fx, "q1 q3 r2");
    report(fx, "q", 4, 5, 0, "NULL");
    assert_pids(fx, "q3 q4 r2");
    test_sql(fx, "UPDATE tenon.intake SET seen_at = seen_at - interval '25 h' WHERE pid = 2");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(100)"), 1);
    assert_pids(fx, "q3 q4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_row_is_as_the_process_says),
        WITH_DATABASE(test_a_container_starts_again),
        WITH_DATABASE(test_a_killed_process),
    };
    return RUN_GROUP(tests);
}
