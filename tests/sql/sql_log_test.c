/* label: sql */
/* tenon.log_message: what a handler logs by SQL, under the fence of its claim, and bounded. */
#include "tests/support/held.h"

#include <stdio.h>
#include <stdlib.h>

/* All lines, one after the other. */
static void lines_are(struct fixture *fx, const char *want)
{
    char *got = test_sql_text(fx, "SELECT coalesce(string_agg(concat_ws(' ', task_id, attempt, "
                                  "level, message, fields), '|' ORDER BY id), '')"
                                  " FROM tenon.log_line");
    assert_string_equal(got, want);
    free(got);
}

static void test_lines(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'one')", claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'two', 'warning', '{\"n\": 1}')", claim);
    test_sql(fx, "SELECT tenon.log_message('%s', NULL, 'FATAL', '[1]')", claim);
    lines_are(fx, "1 1 info one|1 1 warning two {\"n\": 1}|1 1 info ");
    free(held_requeue(fx, &c, "failed", NULL, "0"));
    assert_true(held_take(fx, c.worker, c.id, &c));
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'three', level => NULL)", claim);
    lines_are(fx, "1 1 info one|1 1 warning two {\"n\": 1}|1 1 info |1 2 info three");
}

static void test_the_fence(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.cancel(1)");
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.log_message('%s', 'late')",
                   claim);
    test_sql_fails(fx, "22023", "claim 'x'", "SELECT tenon.log_message('x', 'bad')");
    test_sql(fx, "SELECT tenon.log_message('7/1/0000000000000000', 'by hand')");
    lines_are(fx, "");
}

/* A line of a transaction that is rolled back is not stored. */
static void test_a_rollback(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "BEGIN");
    test_sql(fx, "SELECT tenon.log_message('%s', 'gone')", claim);
    test_sql(fx, "ROLLBACK");
    test_sql(fx, "SELECT tenon.log_message('%s', 'stays')", claim);
    lines_are(fx, "1 1 info stays");
}

static void test_long_texts(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.log_message('%s', repeat('x', 4096))", claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'a' || repeat('\u00e9', 1000000) || 'z')", claim);
    test_sql(
        fx,
        "SELECT tenon.log_message('%1$s', 'f',"
        " fields => jsonb_build_object('k', repeat('x', 2037))),"
        " tenon.log_message('%1$s', 'g', fields => jsonb_build_object('k', repeat('x', 2050)))",
        claim);
    assert_true(test_sql_bool(fx, "SELECT max(octet_length(message)) = 4096 AND"
                                  " count(*) FILTER (WHERE message ~ '^a.* \\.\\.\\. .*z$') = 1 AND"
                                  " count(fields) = 1 FROM tenon.log_line"));
}

static void test_an_attempt_is_bounded(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'line ' || n) FROM generate_series(1, 1200) n",
             claim);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.log_line"), 1001);
    assert_true(test_sql_bool(fx, "SELECT message ~ 'is left out' AND level = 'warning'"
                                  " FROM tenon.log_line ORDER BY id DESC LIMIT 1"));
    free(held_requeue(fx, &c, "failed", NULL, "0"));
    assert_true(held_take(fx, c.worker, c.id, &c));
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.log_message('%s', repeat('x', 4000)) FROM generate_series(1, 100) n",
             claim);
    test_sql(fx, "SELECT tenon.log_message('%s', 'short')", claim);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 66 AND bool_or(message ~ 'is left out') AND"
                                  " sum(octet_length(message)) < 262144 + 100"
                                  " FROM tenon.log_line WHERE attempt = 2"));
}

static void test_nothing_is_kept(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.set_settings('{\"log_keep\": \"0\"}')");
    test_sql(fx, "SELECT tenon.log_message('%s', 'unseen')", claim);
    lines_are(fx, "");
    test_sql_fails(fx, "22023", "log_keep", "SELECT tenon.set_settings('{\"log_keep\": \"1 s\"}')");
}

/* Also in a transaction that has logged before the next partition was begun. */
static void test_the_next_partition(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "BEGIN");
    test_sql(fx, "SELECT tenon.log_message('%s', 'one')", claim);
    sql_run(other, "SELECT tenon.begin_partition('log_line', 2)");
    test_sql(fx, "SELECT tenon.log_message('%s', 'two')", claim);
    test_sql(fx, "COMMIT");
    PQfinish(other);
    assert_true(test_sql_bool(fx, "SELECT array_agg(part ORDER BY id) = '{1,2}'"
                                  " FROM tenon.log_line"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_lines),
        WITH_DATABASE(test_the_fence),
        WITH_DATABASE(test_a_rollback),
        WITH_DATABASE(test_long_texts),
        WITH_DATABASE(test_an_attempt_is_bounded),
        WITH_DATABASE(test_nothing_is_kept),
        WITH_DATABASE(test_the_next_partition),
    };
    return RUN_GROUP(tests);
}
