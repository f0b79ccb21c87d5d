/* label: sql */
/* tenon.finish_many: the ends of many tasks in one statement, each under the fence of its claim. */
#include "tests/support/held.h"

#include <stdio.h>

enum { MANY = 6, ARRAY_BYTES = MANY * HELD_TEXT_BYTES + 64 };

/* '{"claim", ...}', for SQL. */
static const char *claims_of(const struct held *all, int n, char text[ARRAY_BYTES])
{
    size_t len = (size_t)snprintf(text, ARRAY_BYTES, "'{");
    for (int i = 0; i < n; i++) {
        char claim[HELD_TEXT_BYTES];
        held_text(&all[i], claim);
        len += (size_t)snprintf(text + len, ARRAY_BYTES - len, "%s\"%s\"", i ? "," : "", claim);
    }
    (void)snprintf(text + len, ARRAY_BYTES - len, "}'");
    return text;
}

static void make(struct fixture *fx, struct held *all, int n)
{
    for (int i = 0; i < n; i++) {
        held_new(fx, &all[i]);
    }
}

static void assert_text(struct fixture *fx, const char *want, const char *sql)
{
    char *got = test_sql_text(fx, "%s", sql);
    assert_string_equal(got ? got : "NULL", want);
    free(got);
}

/* The answer of tenon.finish_many to these arguments. */
static void answer_is(struct fixture *fx, const char *want, const char *arguments)
{
    char sql[ARRAY_BYTES + 256];
    (void)snprintf(sql, sizeof sql, "SELECT tenon.finish_many(%s)", arguments);
    assert_text(fx, want, sql);
}

static int64_t tasks(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE start_time IS NOT NULL");
}

/* Each with its own result, in the history as tenon.finish puts it there. */
static void test_many_end_together(void **state)
{
    struct fixture *fx = *state;
    struct held all[4];
    char claims[ARRAY_BYTES], one[HELD_TEXT_BYTES], arguments[ARRAY_BYTES + 100];
    make(fx, all, 4);
    test_sql(fx, "UPDATE tenon.task SET trace = 't' || id, unique_key = 'k' || id, failures = 2,"
                 " crashes = 1, last_error = 'e', priority = 7, kind = 'b'");
    held_text(&all[3], one);
    test_sql(fx, "SELECT tenon.finish('%s', '{\"a\": 1.10}')", one);
    (void)snprintf(arguments, sizeof arguments, "%s, '{\"{\\\"a\\\": 1.10}\",NULL,\"null\"}'",
                   claims_of(all, 3, claims));
    answer_is(fx, "{t,t,t}", arguments);
    assert_int_equal(tasks(fx), 0);
    assert_text(fx, "{\"a\": 1.10},NULL,null,{\"a\": 1.10}",
                "SELECT string_agg(coalesce(result::text, 'NULL'), ',' ORDER BY id)"
                " FROM tenon.history");
    assert_text(fx, "1",
                "SELECT count(DISTINCT to_jsonb(f) - '{id,trace,unique_key,finished_at,created_at,"
                "run_at,start_time,worker_id,result}'::text[]) FROM tenon.history f");
    assert_true(test_sql_bool(fx, "SELECT bool_and(trace = 't' || id AND unique_key = 'k' || id AND"
                                  " finished_at > start_time AND run_at >= created_at AND"
                                  " worker_id IS NOT NULL AND outcome = 'done')"
                                  " FROM tenon.history"));
}

/* One that is not valid takes nothing along, in the same transaction or later. */
static void test_a_lost_claim_is_an_error(void **state)
{
    struct fixture *fx = *state;
    struct held all[MANY], wrong[MANY];
    char claims[ARRAY_BYTES];
    make(fx, all, MANY);
    for (int i = 0; i < 3; i++) {
        memcpy(wrong, all, sizeof wrong);
        wrong[3].key = i == 0 ? all[2].key : i == 1 ? all[3].key + 1 : all[3].key;
        wrong[3].id += i == 2 ? 1000 : 0;
        char lost[HELD_TEXT_BYTES + 100];
        held_text(&wrong[3], lost);
        (void)snprintf(lost + strlen(lost), 100, "|is no longer valid|roll back");
        test_sql_fails(fx, "55000", lost, "SELECT tenon.finish_many(%s)",
                       claims_of(wrong, MANY, claims));
        test_sql_fails(fx, "55000", lost, "SELECT tenon.finish_many(%s, skip_lost => NULL)",
                       claims);
    }
    assert_int_equal(tasks(fx), MANY);
    test_sql(fx, "SELECT tenon.finish_many(%s)", claims_of(all, MANY, claims));
    assert_int_equal(tasks(fx), 0);
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.finish_many(%s)", claims);
}

/* Those that are not valid are named by their places; the others have ended. */
static void test_lost_claims_may_be_skipped(void **state)
{
    struct fixture *fx = *state;
    struct held all[MANY];
    char claims[ARRAY_BYTES], arguments[ARRAY_BYTES + 100];
    make(fx, all, MANY - 1);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)all[1].id));
    all[3].key++;
    all[MANY - 1] = all[4]; /* twice */
    (void)snprintf(arguments, sizeof arguments, "%s, skip_lost => true",
                   claims_of(all, MANY, claims));
    answer_is(fx, "{t,f,t,f,t,f}", arguments);
    assert_state(fx, all[0].id, "done");
    assert_state(fx, all[1].id, "cancelled");
    assert_state(fx, all[3].id, "running");
    assert_state(fx, all[4].id, "done");
    answer_is(fx, "{f,f,f,f,f,f}", arguments);
}

/* They end if the transaction commits, like everything else that it did. */
static void test_a_transaction(void **state)
{
    struct fixture *fx = *state;
    struct held all[3];
    char claims[ARRAY_BYTES];
    make(fx, all, 3);
    test_sql(fx, "BEGIN; SELECT tenon.finish_many(%s); ROLLBACK", claims_of(all, 3, claims));
    assert_int_equal(tasks(fx), 3);
    test_sql(fx, "BEGIN; SELECT tenon.finish_many(%s); COMMIT", claims);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 3);
}

static void test_what_is_refused(void **state)
{
    struct fixture *fx = *state;
    struct held all[2];
    char claims[ARRAY_BYTES], arguments[ARRAY_BYTES + 100];
    static const char *const garbage[] = {
        "NULL",
        "ARRAY['x']",
        "ARRAY[NULL]",
        "ARRAY['1/1/000000000000000']",
        "array_fill('1/1/0000000000000001'::text, ARRAY[10001])",
    };
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        test_sql_fails(fx, "22023", "claim|is not allowed", "SELECT tenon.finish_many(%s)",
                       garbage[i]);
    }
    make(fx, all, 2);
    test_sql_fails(fx, "22023", "claim|is not allowed|TENON_TASK_CLAIM",
                   "SELECT tenon.finish_many((%s)::text[] || 'x'::text)",
                   claims_of(all, 2, claims));
    test_sql_fails(fx, "22023", "results of 2 elements is not allowed|1 elements",
                   "SELECT tenon.finish_many(%s, '{1,2}')", claims_of(all, 1, claims));
    test_sql_fails(fx, "22023", "results of 0 elements", "SELECT tenon.finish_many(%s, '{}')",
                   claims);
    assert_int_equal(tasks(fx), 2);
    answer_is(fx, "{}", "'{}'");
    answer_is(fx, "{}", "'{}', '{}'");
    (void)snprintf(arguments, sizeof arguments, "ARRAY['1/1/0000000000000000'] || (%s)::text[]",
                   claims);
    answer_is(fx, "{t,t}", arguments); /* the first is tried by hand */
    answer_is(fx, "{t,f}",
              "'[0:1]={1/1/0000000000000000,1/1/0000000000000001}', skip_lost => true");
}

/* More than pg_dump can read when it is printed, and more than PostgreSQL can print. */
static void test_results_are_measured_as_text(void **state)
{
    struct fixture *fx = *state;
    struct held all[3];
    char claims[ARRAY_BYTES];
    static const int numbers[] = {200, 70000};
    for (int i = 0; i < 2; i++) {
        test_sql(fx, "DELETE FROM tenon.history");
        make(fx, all, 3);
        test_sql(fx,
                 "SELECT tenon.finish_many(%s, ARRAY['1', NULL,"
                 " '[' || repeat('1e-16383,', %d) || '1]']::jsonb[])",
                 claims_of(all, 3, claims), numbers[i]);
        assert_text(fx, "1|NULL|\"tenon: the result was n",
                    "SELECT string_agg(left(coalesce(result::text, 'NULL'), 24), '|' ORDER BY id)"
                    " FROM tenon.history");
    }
}

static void await_blocked(struct fixture *fx, PGconn *waiting)
{
    test_await(fx, 5000, "SELECT count(*) > 0 FROM pg_locks WHERE pid = %d AND NOT granted",
               PQbackendPID(waiting));
}

static bool takes_all(PGconn *conn)
{
    bool failed = false;
    PGresult *result;
    while ((result = PQgetResult(conn))) {
        failed = failed || PQresultStatus(result) == PGRES_FATAL_ERROR;
        PQclear(result);
    }
    return !failed;
}

/* They are locked in the order of their ids, whatever that of the claims: while it waits for the
 * first it holds none of the others. */
static void test_it_never_waits_in_a_circle(void **state)
{
    struct fixture *fx = *state;
    struct held all[3], turned[3];
    char claims[ARRAY_BYTES], sql[ARRAY_BYTES + 100];
    make(fx, all, 3);
    for (int i = 0; i < 3; i++) {
        turned[i] = all[2 - i];
    }
    PGconn *other = sql_connect(fx->database_url), *third = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT FROM tenon.task WHERE id = %lld FOR UPDATE",
            (long long)all[0].id);
    (void)snprintf(sql, sizeof sql, "SELECT tenon.finish_many(%s)", claims_of(turned, 3, claims));
    assert_int_equal(PQsendQuery(third, sql), 1);
    await_blocked(fx, third);
    test_sql(fx, "SELECT FROM tenon.task WHERE id > %lld FOR UPDATE NOWAIT", (long long)all[0].id);
    sql_run(other, "COMMIT");
    assert_true(takes_all(third));
    assert_int_equal(tasks(fx), 0);
    PQfinish(other);
    PQfinish(third);
}

/* Two runs of the same tasks end them at the same time: one of the two is refused. */
static void test_raced(void **state)
{
    struct fixture *fx = *state;
    struct held all[3];
    char claims[ARRAY_BYTES], sql[ARRAY_BYTES + 100];
    make(fx, all, 3);
    PGconn *other = sql_connect(fx->database_url), *third = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.finish_many(%s)", claims_of(all, 2, claims));
    (void)snprintf(sql, sizeof sql, "SELECT tenon.finish_many(%s)", claims_of(all + 1, 2, claims));
    assert_int_equal(PQsendQuery(third, sql), 1);
    await_blocked(fx, third);
    sql_run(other, "COMMIT");
    assert_false(takes_all(third));
    assert_state(fx, all[1].id, "done");
    assert_state(fx, all[2].id, "running");
    PQfinish(other);
    PQfinish(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_many_end_together),
        WITH_DATABASE(test_a_lost_claim_is_an_error),
        WITH_DATABASE(test_lost_claims_may_be_skipped),
        WITH_DATABASE(test_a_transaction),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_results_are_measured_as_text),
        WITH_DATABASE(test_it_never_waits_in_a_circle),
        WITH_DATABASE(test_raced),
    };
    return RUN_GROUP(tests);
}
