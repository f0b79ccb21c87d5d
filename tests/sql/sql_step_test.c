/* label: sql */
/* Steps, signals and results in SQL: what is recorded, and what the next attempt gets; how
 * a signal and a task that waits for it find each other, whichever is committed first; what a
 * waiter sees. */
#include "tests/support/held.h"
#include "tests/support/polls.h"

#include "worker/statements.h"

#include <stdio.h>
#include <string.h>

/* --- steps --- */

static void steps_are(struct fixture *fx, int64_t id, const char *want)
{
    char *got =
        test_sql_text(fx, "SELECT coalesce(steps::text, 'none') FROM tenon.tasks WHERE id = %lld",
                      (long long)id);
    assert_string_equal(got ? got : "no task", want);
    free(got);
}

static void returns(struct fixture *fx, const char *want, const char *sql, const char *claim)
{
    char *got = test_sql_text(fx, sql, claim);
    assert_string_equal(got ? got : "NULL", want);
    free(got);
}

static void test_the_first_of_a_name_stays(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    returns(fx, "{}", "SELECT tenon.steps('%s')", claim);
    returns(fx, "[1]", "SELECT tenon.step('%s', 'reserve', '[1]')", claim);
    returns(fx, "[1]", "SELECT tenon.step('%s', 'reserve', '2')", claim);
    returns(fx, "null", "SELECT tenon.step('%s', 'charge')", claim);
    returns(fx, "{\"charge\": null, \"reserve\": [1]}", "SELECT tenon.steps('%s')", claim);
    test_sql(fx, "BEGIN; SELECT tenon.step('%s', 'ship', '3'); ROLLBACK", claim);
    steps_are(fx, c.id, "{\"charge\": null, \"reserve\": [1]}");
    assert_true(test_sql_bool(fx, "SELECT step_count = 2 AND step_bytes = octet_length(steps::text)"
                                  " FROM tenon.task JOIN tenon.tasks USING (id)"));
}

/* By the words that a claim returns, for both ways to claim; whatever ended the attempt before. */
static void test_the_next_attempt_gets_them(void **state)
{
    static const char *const reasons[] = {"failed", "timed_out", "snooze", "released", "crashed"};
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char claim[HELD_TEXT_BYTES], ids[32], want[64];
        (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c.id);
        (void)snprintf(want, sizeof want, "{\"n\": %zu}", i);
        held_text(&c, claim);
        test_sql(fx, "DELETE FROM tenon.task_step;"
                     " UPDATE tenon.task SET step_count = NULL, step_bytes = NULL");
        test_sql(fx, "SELECT tenon.step('%s', 'n', '%zu')", claim, i);
        free(held_requeue(fx, &c, reasons[i], NULL, "0"));
        test_sql(fx, "BEGIN");
        const char *const by_id[] = {c.worker, ids, "{default}", "{a}", "1000000", ids};
        PGresult *result = statement_run(fx->conn, &sql_claim, by_id, 6);
        assert_string_equal(PQgetvalue(result, 0, 13), want);
        PQclear(result);
        test_sql(fx, "ROLLBACK; BEGIN");
        result = poll_run(fx->conn, c.worker, "{default}", "{a}", "10");
        assert_string_equal(PQgetvalue(result, 0, 13), want);
        PQclear(result);
        test_sql(fx, "ROLLBACK");
        assert_true(held_take(fx, c.worker, c.id, &c));
    }
}

/* Who died, was cancelled or expired, and is retried, goes on behind its steps; and who compensates
 * for it knows them. */
static void test_retry_goes_on_behind_them(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    test_sql(fx, "INSERT INTO tenon.kind (name, on_dead) VALUES ('a', 'refund')");
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.step('%s', 'n', '1')", claim);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    steps_are(fx, c.id, "{\"n\": 1}");
    assert_true(test_sql_bool(
        fx, "SELECT payload->'steps' = '{\"n\": 1}' FROM tenon.task WHERE kind = 'refund'"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task_step"), 0);
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": [%lld]}')", (long long)c.id);
    steps_are(fx, c.id, "{\"n\": 1}");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task_step"), 1);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c.id);
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": [%lld], \"state\": [\"cancelled\"]}')",
             (long long)c.id);
    assert_state(fx, c.id, "ready");
    steps_are(fx, c.id, "{\"n\": 1}");
    test_sql(fx, "UPDATE tenon.task SET start_before = now(); SELECT tenon.settle()");
    assert_state(fx, c.id, "expired");
    steps_are(fx, c.id, "{\"n\": 1}");
}

static void test_limits(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql_fails(fx, "22023", "name ''|1 to 100 bytes", "SELECT tenon.step('%s', '')", claim);
    test_sql_fails(fx, "22023", "name 'x|1 to 100 bytes",
                   "SELECT tenon.step('%s', repeat('x', 101))", claim);
    test_sql_fails(fx, "22023", "name NULL", "SELECT tenon.step('%s', NULL)", claim);
    /* {"n": "xxx"} */
    test_sql_fails(fx, "22023", "steps of the task would have 1048577 bytes as text|1048576 bytes",
                   "SELECT tenon.step('%s', 'n', to_jsonb(repeat('x', 1048568)))", claim);
    /* stored in little, printed in much */
    test_sql_fails(fx, "22023", "steps of the task would have 1065|1048576 bytes",
                   "SELECT tenon.step('%s', 'n', ('[' || repeat('1e-16383,', 64) ||"
                   " '1e-16383]')::jsonb)",
                   claim);
    assert_true(test_sql_bool(fx, "SELECT is_new IS NULL FROM tenon.step_in('{\"step\": {\"name\":"
                                  " \"n\", \"value\": [' || repeat('1e-16383,', 64) ||"
                                  " '1e-16383]}}', 1, NULL, NULL)"));
    test_sql(fx, "SELECT tenon.step('%s', 'n', to_jsonb(repeat('x', 1048567)))", claim);
    test_sql_fails(fx, "22023", "steps of the task would have 10485",
                   "SELECT tenon.step('%s', 'o')", claim);
    test_sql(fx, "UPDATE tenon.task SET step_count = NULL, step_bytes = NULL");
    test_sql(fx, "SELECT tenon.put_step(id, i::text, to_jsonb(i)) FROM tenon.task,"
                 " generate_series(1, 999) i");
    test_sql(fx, "SELECT tenon.step('%s', 'the last')", claim);
    test_sql_fails(fx, "22023", "the task has 1000 steps already",
                   "SELECT tenon.step('%s', 'one more')", claim);
    returns(fx, "7", "SELECT tenon.step('%s', '7')", claim); /* is there */
}

/* worker/step.sql; "t", "f" where it is refused, "" where nothing was written, for each line. */
static void write_are(PGconn *conn, const struct held *c, const char *lines, int n,
                      const char *want)
{
    char ids[64], keys[64], got[16] = "";
    (void)snprintf(ids, sizeof ids, "{%lld,%lld}", (long long)c->id, (long long)c->id);
    (void)snprintf(keys, sizeof keys, "{%lld,%lld}", (long long)c->key, (long long)c->key);
    const char *const params[] = {ids, keys, lines};
    PGresult *result = statement_run(conn, &sql_step, params, 3);
    for (int i = 0; i < PQntuples(result); i++) {
        assert_int_equal(strtol(PQgetvalue(result, i, 0), NULL, 10), i + 1);
        got[i] = *PQgetvalue(result, i, 1);
    }
    assert_true(PQntuples(result) <= n);
    assert_string_equal(got, want);
    PQclear(result);
}

static void test_lines_of_a_pool_child(void **state)
{
    struct fixture *fx = *state;
    struct held c, was;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    was = c;
    write_are(fx->conn, &c,
              "{\"{\\\"step\\\": {\\\"name\\\": \\\"a\\\", \\\"value\\\": 1e30}}\","
              "\"{\\\"step\\\": {\\\"name\\\": \\\"a\\\", \\\"value\\\": 2}}\"}",
              2, "tt");
    steps_are(fx, c.id, "{\"a\": 1000000000000000000000000000000}");
    /* a bad one hurts no other */
    write_are(fx->conn, &c,
              "{\"{\\\"step\\\": {\\\"name\\\": \\\"b\\\", \\\"value\\\": \\\"\\\\u0000\\\"}}\","
              "\"{\\\"step\\\": {\\\"name\\\": \\\"c\\\"}}\"}",
              2, "ft");
    steps_are(fx, c.id, "{\"a\": 1000000000000000000000000000000, \"c\": null}");
    /* a row that somebody has locked is left out */
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT FROM tenon.task FOR UPDATE");
    write_are(fx->conn, &c, "{\"{\\\"step\\\": {\\\"name\\\": \\\"d\\\"}}\",\"{}\"}", 2, "");
    sql_run(other, "ROLLBACK"); /* the end of its session would be a moment later */
    PQfinish(other);
    held_text(&c, claim);
    free(held_requeue(fx, &c, "failed", "x", "0"));
    assert_true(held_take(fx, c.worker, c.id, &c));
    write_are(fx->conn, &was, "{\"{\\\"step\\\": {\\\"name\\\": \\\"d\\\"}}\",\"{}\"}", 2, "");
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.step('%s', 'd')", claim);
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.steps('%s')", claim);
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.wait_signal('%s', 'd')", claim);
    steps_are(fx, c.id, "{\"a\": 1000000000000000000000000000000, \"c\": null}");
}

/* With a claim of tenon worker --run-one, which no row has. */
static void test_by_hand(void **state)
{
    static const char claim[] = "1/1/0000000000000000";
    struct fixture *fx = *state;
    test_sql(fx, "SET client_min_messages = warning");
    returns(fx, "[1]", "SELECT tenon.step('%s', 'a', '[1]')", claim);
    returns(fx, "{}", "SELECT tenon.steps('%s')", claim);
    returns(fx, "waits", "SELECT state FROM tenon.wait_signal('%s', 's')", claim);
    test_sql(fx, "SELECT tenon.signal('s', '5')");
    returns(fx, "came 5", "SELECT state || ' ' || payload FROM tenon.wait_signal('%s', 's')",
            claim);
}

/* --- signals --- */

static void wait_signal(struct fixture *fx, struct held *c, const char *delay_ms)
{
    held_new(fx, c);
    char *got = held_requeue(fx, c, "wait_signal", NULL, delay_ms);
    assert_string_equal(got, "blocked");
    free(got);
    assert_state(fx, c->id, "blocked");
}

static void settle(struct fixture *fx, int n)
{
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), n);
}

static void test_each_that_waits_gets_it(void **state)
{
    struct fixture *fx = *state;
    struct held c[3];
    wait_signal(fx, &c[0], "60000");
    wait_signal(fx, &c[1], "60000");
    settle(fx, 0);
    assert_true(test_sql_bool(fx, "SELECT bool_and(settled) FROM tenon.waiting"));
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)c[0].id);
    assert_contains(why, "It is blocked: it waits for the signal s, until ");
    free(why);
    assert_true(test_sql_bool(fx, "SELECT tenon.signal('s', '{\"paid\": 1}')"));
    assert_false(test_sql_bool(fx, "SELECT tenon.signal('s', '{\"paid\": 2}')")); /* first wins */
    settle(fx, 2);
    for (int i = 0; i < 2; i++) {
        assert_state(fx, c[i].id, "ready");
        steps_are(fx, c[i].id, "{\"s\": {\"paid\": 1}}");
    }
    settle(fx, 0);
    /* it is kept for whoever waits later, and who does need not wait for a second */
    test_sql(fx, "LISTEN tenon");
    wait_signal(fx, &c[2], "60000");
    PGnotify *told = NULL;
    (void)PQconsumeInput(fx->conn);
    for (PGnotify *n; (n = PQnotifies(fx->conn)); told = n) {
        PQfreemem(told);
    }
    assert_non_null(told);
    assert_string_equal(told->extra, "settle");
    PQfreemem(told);
    settle(fx, 1);
    steps_are(fx, c[2].id, "{\"s\": {\"paid\": 1}}");
    /* uncharged */
    assert_true(test_sql_bool(fx, "SELECT bool_and(failures + crashes = 0 AND wanted_at IS NULL"
                                  " AND NOT delayed AND run_at <= now()) FROM tenon.task"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.waiting"), 0);
}

/* The two commit in either order, with a settle between and one after: never is one missed. */
static void test_whichever_commits_last(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    struct held c;
    held_new(fx, &c);
    sql_run(other, "BEGIN; SELECT tenon.signal('s', '1')");
    free(held_requeue(fx, &c, "wait_signal", NULL, "60000"));
    settle(fx, 0); /* the wait is committed, the signal is not */
    assert_true(test_sql_bool(fx, "SELECT settled FROM tenon.waiting"));
    sql_run(other, "COMMIT");
    settle(fx, 1);
    assert_state(fx, c.id, "ready");

    held_new(fx, &c);
    char claim[HELD_TEXT_BYTES];
    held_text(&c, claim);
    sql_run(other, "BEGIN; SELECT * FROM tenon.wait_signal('%s', 't')", claim);
    test_sql(fx, "SELECT tenon.signal('t', '2')");
    settle(fx, 0); /* the signal is committed, the wait is not */
    assert_true(test_sql_bool(fx, "SELECT bool_and(settled) FROM tenon.signal"));
    sql_run(other, "COMMIT");
    settle(fx, 1);
    steps_are(fx, c.id, "{\"t\": 2}");
    PQfinish(other);
}

/* What is locked is left for later, by a cleaner beside another as well. */
static void test_a_locked_task_is_left_for_later(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    struct held c;
    wait_signal(fx, &c, "60000");
    test_sql(fx, "SELECT tenon.signal('s')");
    sql_run(other, "BEGIN; SELECT FROM tenon.task FOR UPDATE");
    settle(fx, 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.waiting"), 1);
    sql_run(other, "ROLLBACK; BEGIN; SELECT tenon.settle()");
    settle(fx, 0); /* and nobody waits */
    sql_run(other, "COMMIT");
    assert_state(fx, c.id, "ready");
    steps_are(fx, c.id, "{\"s\": true}");
    PQfinish(other);
}

static void test_time_is_over(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    wait_signal(fx, &c, "60000");
    settle(fx, 0);
    test_sql(fx, "UPDATE tenon.waiting SET until = now()");
    settle(fx, 1);
    steps_are(fx, c.id, "{\"s\": null}");
    assert_true(held_take(fx, c.worker, c.id, &c));
    char claim[HELD_TEXT_BYTES];
    held_text(&c, claim);
    returns(fx, "timed_out", "SELECT state FROM tenon.wait_signal('%s', 's')", claim);
    /* to wait for it again would come to nothing, time and again: it is charged */
    char *got = held_requeue(fx, &c, "wait_signal", NULL, "60000");
    assert_string_equal(got, "retrying");
    free(got);
    assert_true(test_sql_bool(fx,
                              "SELECT failures = 1 AND last_error = 'the task cannot wait for s:"
                              " a step of that name is recorded already' FROM tenon.task"));
}

/* By SQL, in the handler's own transaction. */
/* While it waits for a signal, it takes no room of its limits; then it waits for them. */
static void test_who_waits_leaves_its_limits_to_others(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES], claim[HELD_TEXT_BYTES];
    struct held c, other;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('k', max_running => 1)");
    int64_t first = test_sql_int(fx, "SELECT tenon.enqueue('a', limit_keys => '{k}')");
    int64_t second = test_sql_int(fx, "SELECT tenon.enqueue('a', limit_keys => '{k}')");
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(held_take(fx, worker, first, &c));
    free(held_requeue(fx, &c, "wait_signal", NULL, "60000"));
    test_sql(fx, "SELECT tenon.settle()");
    assert_state(fx, first, "blocked");
    assert_state(fx, second, "ready");
    assert_true(test_sql_bool(fx, "SELECT tenon.limits_due_ms() IS NULL"));
    test_sql(fx, "SELECT tenon.settle()");
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)first);
    assert_contains(why, "it waits for the signal s");
    free(why);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT tenon.set_where('{\"ids\": %lld}', '{\"run_at\":"
                                  " \"now\"}')",
                                  (long long)first),
                     1);
    test_sql(fx, "SELECT tenon.settle()");
    assert_state(fx, first, "blocked");
    test_sql(fx, "SELECT tenon.signal('s', '1'); SELECT tenon.settle(); SELECT tenon.settle()");
    steps_are(fx, first, "{\"s\": 1}");
    assert_state(fx, first, "blocked");
    assert_true(held_take(fx, worker, second, &other));
    held_text(&other, claim);
    test_sql(fx, "SELECT tenon.finish('%s')", claim);
    test_sql(fx, "SELECT tenon.settle()");
    assert_state(fx, first, "ready");
}

static void test_wait_signal(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES], ids[32], claims[32];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql_fails(fx, "22023", "timeout 366 days|365 days",
                   "SELECT tenon.wait_signal('%s', 's', '366 days')", claim);
    test_sql_fails(fx, "22023", "signal ''|Use a name of 1 to 100 bytes",
                   "SELECT tenon.wait_signal('%s', '')", claim);
    test_sql(fx, "BEGIN; SELECT tenon.wait_signal('%s', 's'); ROLLBACK", claim);
    assert_state(fx, c.id, "running");
    returns(fx, "waits", "SELECT state FROM tenon.wait_signal('%s', 's', '1 day')", claim);
    assert_true(test_sql_bool(fx, "SELECT until - now() BETWEEN interval '23 h' AND '1 day'"
                                  " FROM tenon.waiting"));
    /* what the handler answers then, changes nothing, and its worker does not take it for lost */
    assert_false(held_finish(fx, &sql_finish, &c, "{}"));
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c.id);
    (void)snprintf(claims, sizeof claims, "{%d}", c.claims);
    const char *const params[] = {c.worker, ids, "{7}", claims};
    PGresult *result = statement_run(fx->conn, &sql_verify, params, 4);
    assert_string_equal(PQgetvalue(result, 0, 2), "ended");
    PQclear(result);
    test_sql(fx, "SELECT tenon.signal('s', '[4]')");
    settle(fx, 1);
    assert_true(held_take(fx, c.worker, c.id, &c));
    held_text(&c, claim);
    returns(fx, "came [4]", "SELECT state || ' ' || payload FROM tenon.wait_signal('%s', 's')",
            claim);
    test_sql(fx, "SELECT tenon.signal('is there', '5')");
    returns(fx, "came 5", "SELECT state || ' ' || payload FROM tenon.wait_signal('%s', 'is there')",
            claim);
    steps_are(fx, c.id, "{\"s\": [4], \"is there\": 5}");
    test_sql(fx, "SELECT tenon.step('%s', 'n' || n, '1') FROM generate_series(1, 998) n", claim);
    test_sql_fails(fx, "22023", "signal 't': |1000 steps or 1 MiB|Record fewer",
                   "SELECT tenon.wait_signal('%s', 't')", claim);
}

static void test_who_waits_may_end(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    wait_signal(fx, &c, "60000");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c.id);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.waiting"), 0);
    wait_signal(fx, &c, "60000");
    test_sql(fx, "UPDATE tenon.task SET start_before = now()");
    settle(fx, 1);
    assert_state(fx, c.id, "expired");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.waiting"), 0);
}

static void test_signals_are_checked_and_kept_for_a_time(void **state)
{
    struct fixture *fx = *state;
    test_sql_fails(fx, "22023", "name ''|1 to 100 bytes", "SELECT tenon.signal('')");
    test_sql_fails(fx, "22023", "payload null|any JSON value except null",
                   "SELECT tenon.signal('s', 'null')");
    test_sql_fails(fx, "22023", "payload null", "SELECT tenon.signal('s', NULL)");
    test_sql_fails(fx, "22023", "payload of 65537 bytes|at most 65536",
                   "SELECT tenon.signal('s', to_jsonb(repeat('x', 65535)))");
    struct held c;
    test_sql(fx, "SELECT tenon.signal('t'), tenon.signal('young')");
    settle(fx, 0);
    wait_signal(fx, &c, "60000");
    test_sql(fx, "SELECT tenon.signal('s')");
    test_sql(fx,
             "UPDATE tenon.signal SET sent_at = now() - interval '8 days' WHERE name <> 'young'");
    settle(fx, 1); /* one that nobody has brought yet is brought first */
    steps_are(fx, c.id, "{\"s\": true}");
    test_sql(fx, "DELETE FROM tenon.signal WHERE name = 'young'");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.signal"), 0);
    assert_true(test_sql_bool(fx, "SELECT tenon.signal('s')")); /* the name is free again */
}

/* --- results --- */

static void result_is(PGconn *conn, int64_t id, const char *want)
{
    char *got = sql_text(conn,
                         "SELECT format('%%s %%s %%s', state, result, error) FROM"
                         " tenon.await(%lld)",
                         (long long)id);
    char *again = sql_text(conn,
                           "SELECT format('%%s %%s %%s', state, result, error) FROM"
                           " tenon.result(%lld)",
                           (long long)id);
    assert_string_equal(got, want);
    assert_string_equal(again, want);
    free(got);
    free(again);
}

/* How often an end was told, for whatever reason. */
static int told(struct fixture *fx, int64_t id)
{
    int n = 0;
    PGnotify *notify;
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    test_sql(fx, "SELECT 1");
    while ((notify = PQnotifies(fx->conn))) {
        n += strcmp(notify->relname, "tenon_ended") == 0 && strcmp(notify->extra, text) == 0;
        PQfreemem(notify);
    }
    return n;
}

static void test_every_end_is_told(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    test_sql(fx, "LISTEN tenon_ended");
    for (int keeps = 1; keeps >= 0; keeps--) { /* without a history, too */
        test_sql(fx, "UPDATE tenon.setting SET history_keep = '%d h'", keeps);
        held_new(fx, &c);
        result_is(fx->conn, c.id, "running  ");
        assert_true(held_finish(fx, keeps ? &sql_finish : &sql_finish_forget, &c,
                                "{\"result\": {\"n\": 1}}"));
        assert_int_equal(told(fx, c.id), 1);
        result_is(fx->conn, c.id, "done {\"n\": 1} ");
    }
    held_new(fx, &c);
    result_is(fx->conn, c.id, "running  ");
    free(held_requeue(fx, &c, "failed", "first", "0"));
    assert_int_equal(told(fx, c.id), 0);
    result_is(fx->conn, c.id, "ready  first");
    assert_true(held_take(fx, c.worker, c.id, &c));
    free(held_requeue(fx, &c, "dead", "x", NULL));
    assert_int_equal(told(fx, c.id), 1);
    result_is(fx->conn, c.id, "dead  x");
    held_new(fx, &c);
    result_is(fx->conn, c.id, "running  ");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c.id);
    assert_int_equal(told(fx, c.id), 1);
    held_new(fx, &c);
    free(held_requeue(fx, &c, "snooze", NULL, "0"));
    result_is(fx->conn, c.id, "ready  ");
    test_sql(fx, "UPDATE tenon.task SET start_before = now(); SELECT tenon.settle()");
    assert_int_equal(told(fx, c.id), 1);
    /* nobody waits for this one: nothing is told, and nothing kept */
    held_new(fx, &c);
    assert_true(held_finish(fx, &sql_finish_forget, &c, "{}"));
    assert_int_equal(told(fx, c.id), 0);
    char *got = test_sql_text(fx, "SELECT error FROM tenon.await(%lld) WHERE state IS NULL",
                              (long long)c.id);
    assert_contains(got, "there is no task");
    free(got);
}

/* A waiter waits for no lock for long, and stops nobody. */
static void test_a_locked_row_is_not_marked(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    struct held c;
    held_new(fx, &c);
    sql_run(other, "BEGIN; SELECT FROM tenon.task FOR UPDATE");
    result_is(fx->conn, c.id, "running  ");
    assert_true(test_sql_bool(fx, "SELECT awaited IS NULL FROM tenon.task"));
    sql_run(other, "ROLLBACK");
    result_is(fx->conn, c.id, "running  ");
    assert_true(test_sql_bool(fx, "SELECT awaited FROM tenon.task"));
    PQfinish(other);
}

static void test_whose_results_are_whose(void **state)
{
    struct fixture *fx = *state;
    static const char *const grants[] = {"producer", "producer", "reader"};
    PGconn *conns[3];
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "CREATE ROLE %s_%d; SELECT tenon.grant_%s('%s_%d')", fx->database, i,
                 grants[i], fx->database, i);
        conns[i] = sql_connect(fx->database_url);
        sql_run(conns[i], "SET SESSION AUTHORIZATION %s_%d", fx->database, i);
    }
    int64_t id = sql_int(conns[0], "SELECT tenon.enqueue('a')");
    result_is(conns[0], id, "ready  ");
    result_is(conns[2], id, "ready  ");
    sql_fails(conns[1], "42501", "permission denied for task|a reader", "SELECT tenon.result(%lld)",
              (long long)id);
    sql_fails(conns[1], "42501", "permission denied for task", "SELECT tenon.await(%lld)",
              (long long)id);
    assert_true(sql_bool(conns[1], "SELECT tenon.signal('s')"));
    test_sql(fx, "SELECT tenon.grant_producer('%s_1', kinds => '{a}')", fx->database);
    sql_fails(conns[1], "42501", "may not send signals", "SELECT tenon.signal('t')");
    sql_fails(conns[2], "42501", "permission denied", "SELECT tenon.signal('t')");
    for (int i = 0; i < 3; i++) {
        PQfinish(conns[i]);
        test_sql(fx, "DROP OWNED BY %s_%d; DROP ROLE %s_%d", fx->database, i, fx->database, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_the_first_of_a_name_stays),
        WITH_DATABASE(test_the_next_attempt_gets_them),
        WITH_DATABASE(test_retry_goes_on_behind_them),
        WITH_DATABASE(test_limits),
        WITH_DATABASE(test_lines_of_a_pool_child),
        WITH_DATABASE(test_by_hand),
        WITH_DATABASE(test_each_that_waits_gets_it),
        WITH_DATABASE(test_whichever_commits_last),
        WITH_DATABASE(test_a_locked_task_is_left_for_later),
        WITH_DATABASE(test_time_is_over),
        WITH_DATABASE(test_who_waits_leaves_its_limits_to_others),
        WITH_DATABASE(test_wait_signal),
        WITH_DATABASE(test_who_waits_may_end),
        WITH_DATABASE(test_signals_are_checked_and_kept_for_a_time),
        WITH_DATABASE(test_every_end_is_told),
        WITH_DATABASE(test_a_locked_row_is_not_marked),
        WITH_DATABASE(test_whose_results_are_whose),
    };
    return RUN_GROUP(tests);
}
