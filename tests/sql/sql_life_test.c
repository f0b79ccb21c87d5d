/* label: sql */
/* The rest of a task's life in SQL: requeue, finish, cancel, recovery, the view. */
#include "tests/support/held.h"

#include "cleaner/statements.h"
#include "worker/statements.h"

#include <stdio.h>

static void requeue_is(struct fixture *fx, const struct held *c, const char *reason,
                       const char *error, const char *delay_ms, const char *state)
{
    char *got = held_requeue(fx, c, reason, error, delay_ms);
    if (strcmp(got, state) != 0) {
        fail_msg("requeue %s: \"%s\", not \"%s\"", reason, got, state);
    }
    free(got);
    if (*state) {
        assert_state(fx, c->id, state);
    }
}

/* Is this true of the task's row in a table? */
static bool row_is(struct fixture *fx, const struct held *c, const char *table,
                   const char *condition)
{
    return test_sql_bool(fx, "SELECT %s FROM tenon.%s WHERE id = %lld", condition, table,
                         (long long)c->id);
}

static void test_failed(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "failed", "no such host", NULL, "retrying");
    assert_true(row_is(fx, &c, "task",
                       "failures = 1 AND crashes = 0 AND claims = 1 AND last_error = 'no such host'"
                       " AND start_time IS NULL AND worker_id IS NULL AND delayed"
                       " AND run_at - now() BETWEEN interval '15 s' AND interval '27 s'"));
}

/* The delays of a failure that the handler names go before the formula. */
static void test_failed_with_a_delay(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "failed", "busy", "90000", "retrying");
    assert_true(
        row_is(fx, &c, "task",
               "failures = 1 AND run_at - now() BETWEEN interval '89 s' AND interval '91 s'"));
}

static void test_failed_for_the_last_time(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    test_sql(fx,
             "UPDATE tenon.task SET max_attempts = 3, failures = 1, trace = 't', unique_key = 'k'");
    requeue_is(fx, &c, "failed", "second", "0", "ready");
    assert_true(held_take(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "failed", "third", NULL, "dead");
    assert_true(
        row_is(fx, &c, "dead",
               "reason = 'failures' AND failures = 3 AND max_attempts = 3 AND claims = 2"
               " AND crashes = 0 AND last_error = 'third' AND payload = '{\"n\": 1}'"
               " AND kind = 'a' AND queue = 'default' AND trace = 't' AND unique_key = 'k'"
               " AND start_time IS NOT NULL AND worker_id IS NOT NULL AND timeout_ms = 3600000"
               " AND dead_at BETWEEN now() - interval '1 min' AND clock_timestamp()"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

static void test_later(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "snooze", NULL, "60000", "scheduled");
    assert_true(row_is(fx, &c, "task",
                       "failures = 0 AND crashes = 0 AND claims = 1 AND last_error IS NULL"
                       " AND run_at - now() BETWEEN interval '59 s' AND interval '61 s'"));
}

static void test_released(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    test_sql(fx, "UPDATE tenon.task SET last_error = 'before'");
    char *run_at = test_sql_text(fx, "SELECT run_at FROM tenon.task");
    requeue_is(fx, &c, "released", NULL, NULL, "ready");
    assert_true(row_is(fx, &c, "task",
                       "failures = 0 AND crashes = 0 AND claims = 1 AND last_error = 'before'"));
    char *kept = test_sql_text(fx, "SELECT run_at FROM tenon.task");
    assert_string_equal(kept, run_at); /* its place in the order */
    free(kept);
    free(run_at);
}

/* With a delay it waits, as everything else does. */
static void test_released_with_a_delay(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "released", NULL, "60000", "scheduled");
    assert_true(row_is(fx, &c, "task", "delayed AND run_at - now() > interval '59 s'"));
}

/* A poison pill: the third worker that dies with it is the last, if it ran alone there. */
static void test_crashed(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "crashed", "signal 11", NULL, "ready");
    assert_true(held_take(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "crashed", "signal 11", NULL, "blocked");
    assert_true(row_is(fx, &c, "task", "crashes = 2 AND failures = 0"));
    assert_false(held_take(fx, c.worker, c.id, &c));
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "crashed", "signal 9", NULL, "dead");
    assert_true(row_is(fx, &c, "dead",
                       "reason = 'crashes' AND crashes = 3 AND failures = 0 AND claims = 3"
                       " AND last_error = 'signal 9'"));
}

static void test_timed_out_and_dead(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    requeue_is(fx, &c, "timed_out", "ran 61 s", NULL, "retrying");
    assert_true(row_is(fx, &c, "task", "failures = 1 AND run_at > now() + interval '14 s'"));
    held_new(fx, &c);
    test_sql(fx, "UPDATE tenon.task SET max_attempts = 1 WHERE id = %lld", (long long)c.id);
    requeue_is(fx, &c, "timed_out", "ran 61 s", NULL, "dead");
    assert_true(row_is(fx, &c, "dead", "reason = 'failures'"));
    held_new(fx, &c);
    test_sql(fx, "INSERT INTO tenon.kind (name, on_timeout) SELECT kind, 'dead' FROM tenon.task"
                 " GROUP BY kind");
    requeue_is(fx, &c, "timed_out", "ran 61 s", NULL, "dead");
    assert_true(row_is(fx, &c, "dead", "reason = 'timeout' AND failures = 1"));
    held_new(fx, &c);
    requeue_is(fx, &c, "dead", "no such user", NULL, "dead");
    assert_true(row_is(fx, &c, "dead",
                       "reason = 'handler' AND failures = 0 AND last_error = 'no such user'"));
}

static void test_long_errors_are_cut(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    char text[HELD_TEXT_BYTES];
    held_text(&c, text);
    assert_true(
        test_sql_bool(fx,
                      "SELECT state = 'retrying' FROM tenon.requeue('{%lld}', '{%lld}', '{failed}',"
                      " ARRAY['Traceback:' || repeat('\xC3\xA9', 100000) || 'KeyError'], '{NULL}')",
                      (long long)c.id, (long long)c.key));
    assert_true(
        row_is(fx, &c, "task",
               "length(last_error) = 8192 AND last_error LIKE 'Traceback:%% ... %%KeyError'"));
}

/* Another key, or another task: somebody else's claim. */
static void test_fence(void **state)
{
    struct fixture *fx = *state;
    struct held c, wrong[3];
    static const char *const reasons[] = {"failed",  "snooze",    "released",
                                          "crashed", "timed_out", "dead"};
    held_new(fx, &c);
    wrong[0] = wrong[1] = wrong[2] = c;
    wrong[0].key++;
    wrong[1].key ^= INT64_MIN;
    wrong[2].id++;
    char *before = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    for (size_t i = 0; i < 3; i++) {
        char text[HELD_TEXT_BYTES];
        held_text(&wrong[i], text);
        for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++) {
            requeue_is(fx, &wrong[i], reasons[k], "x", NULL, "");
        }
        assert_false(held_finish(fx, &sql_finish, &wrong[i], "{}"));
        assert_false(held_finish(fx, &sql_finish_unlocked, &wrong[i], "{}"));
        test_sql_fails(fx, "55000", "is no longer valid|roll back", "SELECT tenon.finish('%s')",
                       text);
    }
    char *after = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    assert_string_equal(before, after);
    free(before);
    free(after);
    /* and the claim itself is still good */
    assert_true(held_finish(fx, &sql_finish, &c, "{\"result\": 1}"));
    assert_true(row_is(fx, &c, "history", "result = '1'"));
}

/* Claimed again by the same worker: the old claim is no good. */
static void test_fence_of_one_worker(void **state)
{
    struct fixture *fx = *state;
    struct held old, c;
    held_new(fx, &old);
    requeue_is(fx, &old, "released", NULL, NULL, "ready");
    assert_true(held_take(fx, old.worker, old.id, &c));
    assert_int_equal(c.claims, 2);
    requeue_is(fx, &old, "failed", "late", NULL, "");
    assert_false(held_finish(fx, &sql_finish, &old, "{}"));
    assert_true(held_finish(fx, &sql_finish_unlocked, &c, "{}"));
    assert_state(fx, c.id, "done");
}

/* What somebody else has locked is left out, and stays as it is. */
static void test_locked_rows_are_skipped(void **state)
{
    struct fixture *fx = *state;
    struct held c, free_one;
    held_new(fx, &c);
    held_new(fx, &free_one);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT FROM tenon.task WHERE id = %lld FOR UPDATE", (long long)c.id);
    requeue_is(fx, &c, "failed", "x", NULL, "");
    assert_false(held_finish(fx, &sql_finish_unlocked, &c, "{}"));
    requeue_is(fx, &free_one, "failed", "x", NULL, "retrying");
    test_sql(fx, "SET lock_timeout = 100");
    char text[HELD_TEXT_BYTES];
    held_text(&c, text);
    test_sql_fails(fx, "55P03", "lock timeout", "SELECT tenon.finish('%s')", text);
    sql_run(other, "COMMIT");
    PQfinish(other);
    assert_state(fx, c.id, "running");
    requeue_is(fx, &c, "failed", "x", NULL, "retrying");
}

/* Many at once, of each reason, some of them not ours. */
static void test_requeue_of_many(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[700]))");
    test_sql(fx,
             "UPDATE tenon.task SET start_time = '2026-01-01 00:00:00.123456+00', worker_id = '%s',"
             " claim_key = id, claims = 1",
             worker);
    char *states = test_sql_text(
        fx,
        "SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state,"
        " count(*) AS n FROM tenon.requeue("
        " (SELECT array_agg(id ORDER BY id) FROM tenon.task),"
        " (SELECT array_agg(id + (id %% 70 = 0)::integer ORDER BY id) FROM tenon.task),"
        " (SELECT array_agg(('{failed,later,released,crashed,timed_out,dead,dead}'::text[])[1 + id"
        " %% 7] ORDER BY id) FROM tenon.task),"
        " (SELECT array_agg('e' || id ORDER BY id) FROM tenon.task),"
        " (SELECT array_agg(CASE WHEN id %% 7 = 1 THEN 60000 END ORDER BY id)"
        " FROM tenon.task)) GROUP BY state) s");
    assert_string_equal(states, "dead 200, ready 200, retrying 190, scheduled 100");
    free(states);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks WHERE state = 'running'"),
                     10);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.tasks WHERE last_error = 'e' || id"),
                     690);
}

/* Each claim counts as a claim; what was released or put off was no attempt. */
static void test_claims_and_attempts(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *reason;
        int attempt;
    } ends[] = {{"failed", 1},    {"snooze", 1},   {"released", 1}, {"crashed", 2},
                {"timed_out", 3}, {"released", 3}, {"dead", 4}};
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    for (int i = 0; i < 7; i++) {
        assert_true(held_take(fx, worker, id, &c));
        assert_int_equal(c.claims, i + 1);
        int64_t running = test_sql_int(fx, "SELECT attempt FROM tenon.tasks WHERE id = %lld",
                                       (long long)id);
        assert_int_equal(running, i == 0 ? 1 : ends[i - 1].attempt + 1);
        free(held_requeue(fx, &c, ends[i].reason, "x", "0"));
        assert_true(
            test_sql_bool(fx,
                          "SELECT claims = %d AND attempt = %d FROM tenon.tasks WHERE id = %lld",
                          i + 1, ends[i].attempt, (long long)id));
    }
    assert_state(fx, id, "dead");
}

/* n^4 + 15 s, and up to 10 n s. */
static void test_retry_delay(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM generate_series(1, 25) n, generate_series(1, 400) i,"
                         " LATERAL (SELECT extract(epoch FROM tenon.retry_delay(n + 0 * i)) AS s) d"
                         " WHERE s NOT BETWEEN n ^ 4 + 15 AND n ^ 4 + 15 + 10 * n"),
        0);
    /* and it is jitter: the range is used, and no two are alike */
    assert_true(test_sql_bool(
        fx,
        "SELECT max(s) - min(s) > 60 AND count(DISTINCT s) > 390 FROM generate_series(1, 400) i,"
        " LATERAL (SELECT extract(epoch FROM tenon.retry_delay(8 + 0 * i)) AS s) d"));
    assert_true(
        test_sql_bool(fx, "SELECT clock_timestamp() + tenon.retry_delay(1000) < 'infinity'"));
}

static void test_finish_statement(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    static const struct statement *const both[] = {&sql_finish, &sql_finish_unlocked};
    for (size_t i = 0; i < 2; i++) {
        held_new(fx, &c);
        test_sql(fx,
                 "UPDATE tenon.task SET trace = 't', unique_key = 'k', failures = 2, crashes = 1,"
                 " last_error = 'e', priority = 7");
        assert_true(held_finish(fx, both[i], &c,
                                "{\"result\": {\"big\": 12345678901234567890.10}, \"x\": 1}"));
        assert_true(
            row_is(fx, &c, "history",
                   "outcome = 'done' AND result::text = '{\"big\": 12345678901234567890.10}'"
                   " AND claims = 1 AND failures = 2 AND crashes = 1 AND last_error = 'e'"
                   " AND priority = 7 AND queue = 'default' AND kind = 'a' AND trace = 't'"
                   " AND unique_key = 'k' AND payload = '{\"n\": 1}' AND start_time IS NOT NULL"
                   " AND worker_id IS NOT NULL AND finished_at > start_time"));
        assert_false(held_finish(fx, both[i], &c, "{}"));
        held_new(fx, &c);
        assert_true(held_finish(fx, both[i], &c, "{}"));
        assert_true(row_is(fx, &c, "history", "result IS NULL"));
    }
}

/* The handler's effect and the end of its task commit together. */
static void test_finish_in_a_transaction(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char text[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, text);
    test_sql(fx, "CREATE TABLE public.effect (task bigint)");
    test_sql(fx,
             "BEGIN; INSERT INTO public.effect VALUES (%lld); SELECT tenon.finish('%s',"
             " '{\"ok\": true}'); ROLLBACK",
             (long long)c.id, text);
    assert_state(fx, c.id, "running");
    test_sql(fx,
             "BEGIN; INSERT INTO public.effect VALUES (%lld); SELECT tenon.finish('%s',"
             " '{\"ok\": true}'); COMMIT",
             (long long)c.id, text);
    assert_state(fx, c.id, "done");
    assert_true(row_is(fx, &c, "history", "result = '{\"ok\": true}'"));
    test_sql(fx, "BEGIN; INSERT INTO public.effect VALUES (%lld)", (long long)c.id);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.finish('%s')", text);
    test_sql(fx, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.effect"), 1);
}

/* Two runs of one task finish it at the same time: one effect. */
static void test_finish_raced(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char text[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, text);
    test_sql(fx, "CREATE TABLE public.effect (task bigint)");
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; INSERT INTO public.effect VALUES (1); SELECT tenon.finish('%s')", text);
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "BEGIN; INSERT INTO public.effect VALUES (2); SELECT tenon.finish('%s'); COMMIT",
                   text);
    int pid = PQbackendPID(fx->conn);
    assert_int_equal(PQsendQuery(fx->conn, sql), 1);
    sql_await(other, 5000, "SELECT count(*) = 1 FROM pg_locks WHERE pid = %d AND NOT granted", pid);
    sql_run(other, "COMMIT");
    PGresult *result;
    bool refused = false;
    while ((result = PQgetResult(fx->conn))) {
        const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        refused = refused || (code && strcmp(code, "55000") == 0);
        PQclear(result);
    }
    assert_true(refused);
    test_sql(fx, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT sum(task) FROM public.effect"), 1);
    PQfinish(other);
}

static void test_garbage_claims(void **state)
{
    struct fixture *fx = *state;
    static const char *const garbage[] = {
        "NULL",
        "''",
        "'1'",
        "'1/1/x'",
        "'1/1/000000000000000'",
        "'1/1/00000000000000000'",
        "'1/1/000000000000000A'",
        "'1/1/000000000000000g'",
        "'1/1/-000000000000001'",
        "'x/1/0000000000000000'",
        "'1/99999999999/0000000000000000'",
        "'9999999999999999999/1/0000000000000000'",
        "'-1/1/0000000000000000'",
        "'a/1/0000000000000000'",
        "'1/b/0000000000000000'",
        "'/1/0000000000000000'",
        "'1//0000000000000000'",
        "'1/0000000000000000'",
        "' 1/1/0000000000000000'",
        "E'1/1/0000000000000000\\n'",
        "'1/1/0000000000000000/'",
        "'1/1/1/00000000000000000000000000000000'",
        "'1/1/0000000000000000' || repeat('x', 100000)",
    };
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        test_sql_fails(fx, "22023", "claim|is not allowed|TENON_TASK_CLAIM",
                       "SELECT tenon.finish(%s)", garbage[i]);
    }
    test_sql_fails(fx, "55000", "no longer valid",
                   "SELECT"
                   " tenon.finish('999999999999999999/2147483647/ffffffffffffffff')");
    test_sql(fx, "SELECT tenon.finish('1/1/0000000000000000')"); /* a trial */
}

static void test_cancel_and_view(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    long long ready = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    long long scheduled = test_sql_int(fx, "SELECT tenon.enqueue('a', delay => '1 h')");
    held_new(fx, &c);
    long long running = c.id;
    struct held retrying, done, dead;
    held_new(fx, &retrying);
    requeue_is(fx, &retrying, "failed", "x", NULL, "retrying");
    held_new(fx, &done);
    assert_true(held_finish(fx, &sql_finish, &done, "{}"));
    held_new(fx, &dead);
    requeue_is(fx, &dead, "dead", "x", NULL, "dead");
    const struct {
        long long id;
        const char *state;
        bool cancels;
    } cases[] = {{ready, "ready", true},     {scheduled, "scheduled", true},
                 {running, "running", true}, {retrying.id, "retrying", true},
                 {done.id, "done", false},   {dead.id, "dead", false},
                 {ready, "cancelled", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_state(fx, cases[i].id, cases[i].state);
        assert_int_equal(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", cases[i].id),
                         cases[i].cancels);
        assert_state(fx, cases[i].id, cases[i].cancels ? "cancelled" : cases[i].state);
    }
    assert_false(test_sql_bool(fx, "SELECT tenon.cancel(999999999)"));
    assert_false(test_sql_bool(fx, "SELECT tenon.cancel(NULL)"));
    /* the worker that ran it has lost its claim */
    char text[HELD_TEXT_BYTES];
    held_text(&c, text);
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.finish('%s')", text);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_int_equal(
        test_sql_int(
            fx,
            "SELECT count(*) FROM tenon.tasks WHERE state = 'cancelled' AND end_time IS NOT NULL"),
        4);
}

/* Cancelled while it waits behind a claim that is being made: one of the two wins, never both. */
static void test_cancel_against_a_claim(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.cancel(%lld)", (long long)id);
    assert_false(held_take(fx, worker, id, &c));
    sql_run(other, "ROLLBACK");
    assert_true(held_take(fx, worker, id, &c));
    PQfinish(other);
}

static void test_paused_queue_is_not_ready(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.pause('p'); SELECT tenon.enqueue('a',"
                 " queue => 'p'), tenon.enqueue('a'),"
                 " tenon.enqueue('a', delay => '1 h')");
    assert_true(test_sql_bool(fx, "SELECT array_agg(queue) = '{default}' FROM tenon.ready"));
}

/* An application has locked more tasks than one round of recovery takes. */
static void test_recovery_takes_what_is_not_locked(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    const char *const params[] = {"(0,0)", "(1000,0)", "1 s", "2"};
    static const char *const states[] = {"'alive', ended_at = NULL", "'dead', ended_at = now()",
                                         "'left', ended_at = now()"};
    PGconn *other = sql_connect(fx->database_url);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        test_sql(fx,
                 "UPDATE tenon.worker SET state = %s; DELETE FROM tenon.task;"
                 "SELECT tenon.enqueue_many('a', '{1,2,3,4,5}')",
                 states[i]);
        test_sql(fx,
                 "UPDATE tenon.task SET start_time = now() - interval '1 day', worker_id = '%s',"
                 " claim_key = id, claims = 1",
                 worker);
        sql_run(other, "BEGIN; SELECT id FROM tenon.task ORDER BY id LIMIT 3 FOR UPDATE");
        PGresult *result = statement_run(fx->conn, &sql_recover, params, 4);
        assert_int_equal(PQntuples(result), 1 + 2);
        PQclear(result);
        sql_run(other, "COMMIT");
    }
    PQfinish(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_failed),
        WITH_DATABASE(test_failed_with_a_delay),
        WITH_DATABASE(test_failed_for_the_last_time),
        WITH_DATABASE(test_later),
        WITH_DATABASE(test_released),
        WITH_DATABASE(test_released_with_a_delay),
        WITH_DATABASE(test_crashed),
        WITH_DATABASE(test_timed_out_and_dead),
        WITH_DATABASE(test_long_errors_are_cut),
        WITH_DATABASE(test_fence),
        WITH_DATABASE(test_fence_of_one_worker),
        WITH_DATABASE(test_locked_rows_are_skipped),
        WITH_DATABASE(test_requeue_of_many),
        WITH_DATABASE(test_claims_and_attempts),
        WITH_DATABASE(test_retry_delay),
        WITH_DATABASE(test_finish_statement),
        WITH_DATABASE(test_finish_in_a_transaction),
        WITH_DATABASE(test_finish_raced),
        WITH_DATABASE(test_garbage_claims),
        WITH_DATABASE(test_cancel_and_view),
        WITH_DATABASE(test_cancel_against_a_claim),
        WITH_DATABASE(test_paused_queue_is_not_ready),
        WITH_DATABASE(test_recovery_takes_what_is_not_locked),
    };
    return RUN_GROUP(tests);
}
