/* label: e2e */
/* Retry from a step: in SQL, by the command and by the JSON API. */
#include "tests/support/held.h"
#include "tests/support/process.h"
#include "tests/support/rows.h"
#include "tests/support/web.h"
#include "tests/support/working.h"

#include <stdio.h>

/* --- in SQL --------------------------------------------------------------------------------- */

/* A task that has recorded three steps, not in the order of their names, and then died. */
static int64_t dead_after_three(struct fixture *fx)
{
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.step('%s', 'reserve', '1')", claim);
    test_sql(fx, "SELECT tenon.step('%s', 'charge', '2')", claim);
    test_sql(fx, "SELECT tenon.step('%s', 'a letter', '3')", claim);
    test_sql(fx, "SELECT tenon.progress('%s', '99')", claim);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    return c.id;
}

static void recorded_are(struct fixture *fx, int64_t id, const char *want)
{
    char *got = test_sql_text(fx,
                              "SELECT concat(step_names, ' ', steps, ' ', progress)"
                              " FROM tenon.tasks WHERE id = %lld",
                              (long long)id);
    assert_string_equal(got, want);
    free(got);
}

/* The step and what was recorded after it is forgotten, however the task ended; a step that is
 * recorded again comes last, and the numbers have no gap. */
static void test_retry_from_a_step(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    int64_t id = dead_after_three(fx);
    recorded_are(
        fx, id,
        "{reserve,charge,\"a letter\"} {\"charge\": 2, \"reserve\": 1, \"a letter\": 3} 99");
    assert_true(
        test_sql_bool(fx, "SELECT tenon.retry(%lld, 'charged twice', 'charge')", (long long)id));
    recorded_are(fx, id, "{reserve} {\"reserve\": 1} ");
    assert_true(test_sql_bool(fx, "SELECT what->'changes' = '{\"from_step\": \"charge\"}' AND n = 1"
                                  " FROM tenon.audit WHERE act = 'retry'"));
    char *worker = test_sql_text(fx, "SELECT id FROM tenon.worker LIMIT 1");
    assert_true(held_take(fx, worker, id, &c));
    free(worker);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.step('%s', 'charge', '4')", claim);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    recorded_are(fx, id, "{reserve,charge} {\"charge\": 4, \"reserve\": 1} ");
    assert_true(
        test_sql_bool(fx, "SELECT tenon.retry(%lld, from_step => 'reserve')", (long long)id));
    recorded_are(fx, id, "  ");
    assert_true(
        test_sql_bool(fx, "SELECT step_count IS NULL AND step_bytes IS NULL FROM tenon.task"));
}

/* Without a step all are kept, in their order and with their times. */
static void test_retry_keeps_the_order(void **state)
{
    struct fixture *fx = *state;
    int64_t id = dead_after_three(fx);
    char *times = test_sql_text(fx, "SELECT step_times FROM tenon.dead");
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT t) FROM tenon.dead CROSS JOIN"
                                      " unnest(step_times) t WHERE t < dead_at"),
                     3);
    test_sql(fx, "SELECT tenon.retry(%lld)", (long long)id);
    assert_true(test_sql_bool(fx, "SELECT step_times = '%s' FROM tenon.tasks WHERE id = %lld",
                              times, (long long)id));
    free(times);
    recorded_are(
        fx, id,
        "{reserve,charge,\"a letter\"} {\"charge\": 2, \"reserve\": 1, \"a letter\": 3} 99");
    assert_true(test_sql_bool(fx, "SELECT array_agg(position ORDER BY position) = '{1,2,3}'"
                                  " FROM tenon.task_step"));
}

/* A task that is named must have the step; of those that a filter finds, the others stay dead. */
static void test_retry_from_an_unknown_step(void **state)
{
    struct fixture *fx = *state;
    int64_t id = dead_after_three(fx);
    struct held c;
    held_new(fx, &c);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    test_sql_fails(fx, "22023", "has no step 'chrage'|were recorded: reserve, charge, a letter.",
                   "SELECT tenon.retry(%lld, from_step => 'chrage')", (long long)id);
    test_sql_fails(fx, "22023", "has no step 'charge'|no steps: retry it without from_step",
                   "SELECT tenon.retry(%lld, from_step => 'charge')", (long long)c.id);
    test_sql_fails(fx, "22023", "from_step 1|the name of a step",
                   "SELECT tenon.change('retry', '{\"kind\": \"a\"}', '{\"from_step\": 1}')");
    test_sql_fails(fx, "22023", "changes {|at least one of from_step",
                   "SELECT tenon.change('retry', '{\"kind\": \"a\"}', '{\"priority\": 1}')");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": \"dead\"}',"
                                      " from_step => 'no')"),
                     0);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": \"dead\"}',"
                                      " from_step => 'charge')"),
                     1);
    assert_int_equal(test_sql_int(fx, "SELECT max(skipped) FROM tenon.audit"), 2);
    recorded_are(fx, id, "{reserve} {\"reserve\": 1} ");
    assert_state(fx, c.id, "dead");
}

/* --- by the command ------------------------------------------------------------------------- */

#define FAILS(fx, code, log, ...) TENON_SAYS(fx, code, "", log, __VA_ARGS__)

#define SAYS(fx, out, ...) TENON_SAYS(fx, 0, out, "", __VA_ARGS__)

static void test_the_command(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "order", 2, "x");
    rows_dead(fx, "mail", 1, "x");
    test_sql(fx, "UPDATE tenon.dead SET steps = '{\"a\": 1, \"b\": 2, \"c\": 3}',"
                 " step_names = '{c,b,a}', step_times = '{2026-03-29 01:00Z,2026-03-29 01:00:01.5Z,"
                 "2026-03-29 01:00:02Z}' WHERE kind = 'order'");
    SAYS(fx, "{\"c\": 3, \"b\": 2, \"a\": 1}", "show", "1");
    SAYS(fx, "2026-03-29 01:00:01.500 UTC: b\n", "show", "1");
    SAYS(fx, "\"step_times\" : {", "show", "1", "--json");
    FAILS(fx, 1, "task 1 has no step 'd'", "retry", "1", "--from-step", "d");
    FAILS(fx, 1, "were recorded: c, b, a.", "retry", "1", "--from-step", "d");
    SAYS(fx, "1 task retried", "retry", "1", "--from-step", "b");
    SAYS(fx, "{\"c\": 3}", "show", "1");
    char *out = TENON_RUN(fx, 0, "retry", "--state", "dead", "--yes", "--from-step", "c", "--why",
                          "x");
    assert_contains(out, "1 task retried");
    assert_contains(out,
                    "1 unchanged: another session has locked them, they have no such step, or");
    free(out);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task_step"), 1);
}

/* --- by the JSON API ------------------------------------------------------------------------ */

static void test_the_api(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    rows_dead(fx, "order", 3, "x");
    WEB_OPEN(fx, &w, NULL);
    test_sql(fx, "UPDATE tenon.dead SET steps = '{\"a\": 1, \"b\": 2}', step_names = '{b,a}'");
    json_decref(web_post(&w, 200, "/api/act",
                         "{\"act\": \"retry\", \"filter\": {\"state\": [\"dead\"]}, "
                         "\"changes\": {\"from_step\": \"a\"}}"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task_step WHERE name = 'b'"), 3);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task_step"), 3);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_retry_from_a_step),
        WITH_DATABASE(test_retry_keeps_the_order),
        WITH_DATABASE(test_retry_from_an_unknown_step),
        WITH_DATABASE(test_the_command),
        WITH_DATABASE(test_the_api),
    };
    return RUN_GROUP(tests);
}
