/* label: sql */
/* What a handler says of its task in SQL, or its worker for it: how far it is, and for how long it
 * may go on. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>
#include <string.h>

static void progress_is(struct fixture *fx, const struct held *c, const char *want)
{
    char *got =
        test_sql_text(fx, "SELECT coalesce(progress::text, 'none') FROM tenon.task WHERE id = %lld",
                      (long long)c->id);
    assert_string_equal(got, want);
    free(got);
}

/* worker/progress.sql for one task; "t", "f" where it could not be stored, "" where nothing was
 * written. */
static void write_is(PGconn *conn, const struct held *c, const char *line, const char *timeout_ms,
                     const char *want)
{
    char ids[32], keys[32], *lines = NULL, timeouts[32] = "{NULL}";
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c->id);
    (void)snprintf(keys, sizeof keys, "{%lld}", (long long)c->key);
    lines = line ? sql_text(conn, "SELECT ARRAY[$x$%s$x$]::text", line) : strdup("{NULL}");
    if (timeout_ms) {
        (void)snprintf(timeouts, sizeof timeouts, "{%s}", timeout_ms);
    }
    const char *const params[] = {ids, keys, lines, timeouts};
    PGresult *result = statement_run(conn, &sql_progress, params, 4);
    assert_string_equal(PQntuples(result) == 1 ? PQgetvalue(result, 0, 1) : "", want);
    PQclear(result);
    free(lines);
}

static void test_progress(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    progress_is(fx, &c, "none");
    test_sql(fx, "SELECT tenon.progress('%s', '{\"n\": 12345678901234567890123}')", claim);
    progress_is(fx, &c, "{\"n\": 12345678901234567890123}");
    assert_true(test_sql_bool(fx, "SELECT progress = '{\"n\": 12345678901234567890123}'"
                                  " FROM tenon.tasks WHERE state = 'running'"));
    test_sql(fx, "SELECT tenon.progress('%s', NULL)", claim);
    progress_is(fx, &c, "none");
    test_sql(fx, "SELECT tenon.progress('%s', '7')", claim);
    test_sql(fx, "SELECT tenon.progress('%s', 'null')", claim); /* JSON's is no progress either */
    progress_is(fx, &c, "none");
}

/* By the words that a claim returns, for both ways to claim. */
static void test_the_next_attempt_gets_it(void **state)
{
    struct fixture *fx = *state;
    static const char *const reasons[] = {"failed", "timed_out", "snooze", "released", "crashed"};
    struct held c;
    held_new(fx, &c);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char line[64], want[32], ids[32];
        (void)snprintf(line, sizeof line, "{\"id\": 1, \"progress\": {\"n\": %zu}}", i);
        (void)snprintf(want, sizeof want, "{\"n\": %zu}", i);
        (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c.id);
        write_is(fx->conn, &c, line, NULL, "t");
        free(held_requeue(fx, &c, reasons[i], NULL, "0"));
        progress_is(fx, &c, want);
        test_sql(fx, "BEGIN");
        const char *const by_id[] = {c.worker, ids, "{default}", "{a}", "1000000", ids};
        PGresult *result = statement_run(fx->conn, &sql_claim, by_id, 6);
        assert_string_equal(PQgetvalue(result, 0, 12), want);
        PQclear(result);
        test_sql(fx, "ROLLBACK");
        assert_true(held_take(fx, c.worker, c.id, &c));
    }
}

static void test_progress_is_measured_as_text(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.progress('%s', to_jsonb(repeat('x', 65534)))", claim);
    test_sql_fails(fx, "22023", "value of 65537 bytes|at most 65536 bytes as text",
                   "SELECT tenon.progress('%s', to_jsonb(repeat('x', 65535)))", claim);
    /* stored in little, printed in much */
    test_sql_fails(fx, "22023", "value of 81",
                   "SELECT tenon.progress('%s', "
                   "'[1e-16383, 1e-16383, 1e-16383, 1e-16383, 1e-16383]')",
                   claim);
    assert_true(test_sql_bool(fx, "SELECT octet_length(progress::text) = 65536 FROM tenon.task"));
}

/* One bad value leaves the last one, and hurts no other of the same statement. */
static void test_what_cannot_be_stored(void **state)
{
    struct fixture *fx = *state;
    static const char *const bad[] = {
        "{\"id\": 1, \"progress\": \"\\u0000\"}", "{\"id\": 1, \"progress\": 1e-20000}",
        "{\"id\": 1, \"progress\": [1e-16383,1e-16383,1e-16383,1e-16383,1]}",
        "{\"id\": 1, \"progress\": \"\\ud800\"}"};
    struct held c;
    held_new(fx, &c);
    write_is(fx->conn, &c, "{\"progress\": 1}", NULL, "t");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_is(fx->conn, &c, bad[i], "7200000", "f");
    }
    progress_is(fx, &c, "1");
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 7200000 FROM tenon.task"));
    write_is(fx->conn, &c, NULL, "3600001", "t"); /* it never shrinks */
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 7200000 FROM tenon.task"));
    progress_is(fx, &c, "1");
    write_is(fx->conn, &c, "{\"progress\": null}", NULL, "t");
    progress_is(fx, &c, "none");
}

/* Who holds nothing any more: an older claim, another start, one that was cancelled. */
static void test_a_lost_claim_writes_nothing(void **state)
{
    struct fixture *fx = *state;
    struct held c, was;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    was = c;
    free(held_requeue(fx, &c, "failed", "x", "0"));
    for (int i = 0; i < 3; i++) {
        held_text(&was, claim);
        write_is(fx->conn, &was, "{\"progress\": 1}", "7200000", "");
        test_sql_fails(fx, "55000", "is no longer valid|roll back and stop",
                       "SELECT tenon.progress('%s', '1')", claim);
        test_sql_fails(fx, "55000", "is no longer valid|roll back and stop",
                       "SELECT tenon.extend('%s', '2 h')", claim);
        if (i == 0) {
            assert_true(held_take(fx, c.worker, c.id, &c));
        } else {
            was = c;
            was.key++;
        }
    }
    assert_true(
        test_sql_bool(fx, "SELECT progress IS NULL AND timeout_ms = 3600000 FROM tenon.task"));
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c.id);
    held_text(&c, claim);
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.progress('%s', '1')", claim);
    test_sql_fails(fx, "55000", "is no longer valid", "SELECT tenon.extend('%s', '1 h')", claim);
    test_sql_fails(fx, "22023", "claim|TENON_TASK_CLAIM", "SELECT tenon.progress('17', '1')");
    test_sql_fails(fx, "22023", "claim NULL", "SELECT tenon.extend(NULL, '1 h')");
}

static void test_extend(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c); /* an hour */
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.extend('%s', '10 min')", claim); /* no later than before */
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 3600000 FROM tenon.task"));
    assert_true(test_sql_bool(fx,
                              "SELECT tenon.extend('%s', '2 h') BETWEEN now() + interval '2 h'"
                              " AND clock_timestamp() + interval '2 h 1 ms'",
                              claim));
    assert_true(test_sql_bool(
        fx, "SELECT start_time + timeout_ms * interval '1 ms' >= now() + interval '119 min'"
            " FROM tenon.task"));
    /* 30 days after its start, however often */
    assert_true(test_sql_bool(fx,
                              "SELECT tenon.extend('%s', '30 days') = start_time + interval '720 h'"
                              " FROM tenon.task",
                              claim));
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 2592000000 FROM tenon.task"));
    test_sql(fx, "SELECT tenon.extend('%s', '1 ms')", claim);
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 2592000000 FROM tenon.task"));
}

static void test_extend_past_its_limits(void **state)
{
    struct fixture *fx = *state;
    static const char *const bad[] = {"'0'",
                                      "'-1 h'",
                                      "'0.5 ms'",
                                      "'30 days 1 ms'",
                                      "NULL",
                                      "'1 year -370 days'",
                                      "'170000000 years'"};
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_sql_fails(fx, "22023", "by |1 millisecond to 30 days", "SELECT tenon.extend('%s', %s)",
                       claim, bad[i]);
    }
    assert_true(test_sql_bool(fx, "SELECT timeout_ms = 3600000 FROM tenon.task"));
}

/* With tenon worker --run-one there is no task. */
static void test_by_hand(void **state)
{
    struct fixture *fx = *state;
    static const char claim[] = "1/1/0000000000000000";
    test_sql(fx, "SET client_min_messages = error");
    test_sql(fx, "SELECT tenon.progress('%s', '{}')", claim);
    test_sql(fx, "SELECT tenon.extend('%s', '1 h')", claim);
}

/* What the handler's own transaction has locked is left out, and nobody waits. */
static void test_a_locked_row_is_left_out(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN");
    sql_run(other, "SELECT tenon.progress('%s', '1')", claim);
    write_is(fx->conn, &c, "{\"progress\": 2}", NULL, "");
    sql_run(other, "COMMIT");
    progress_is(fx, &c, "1");
    write_is(fx->conn, &c, "{\"progress\": 2}", NULL, "t");
    progress_is(fx, &c, "2");
    PQfinish(other);
}

/* A claim with progress stays a HOT update, and so does each that writes some. */
static void test_updates_are_hot(void **state)
{
    struct fixture *fx = *state;
    static const char sql[] =
        "SELECT %s FROM pg_stat_xact_user_tables WHERE relid = 'tenon.task'::regclass";
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "BEGIN");
    int64_t cold = test_sql_int(fx, sql, "n_tup_upd - n_tup_hot_upd");
    int64_t all = test_sql_int(fx, sql, "n_tup_upd");
    for (int i = 0; i < 10; i++) {
        test_sql(fx, "SELECT tenon.progress('%s', '%d')", claim, i);
        test_sql(fx, "SELECT tenon.extend('%s', '%d h')", claim, i + 2);
        write_is(fx->conn, &c, "{\"progress\": 2}", NULL, "t");
    }
    assert_int_equal(test_sql_int(fx, sql, "n_tup_upd"), all + 30);
    assert_int_equal(test_sql_int(fx, sql, "n_tup_upd - n_tup_hot_upd"), cold);
    test_sql(fx, "COMMIT");
}

/* By which a worker learns of a deadline that was extended. */
static void test_verify_tells_the_timeout(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES], ids[32], keys[32];
    held_new(fx, &c);
    held_text(&c, claim);
    test_sql(fx, "UPDATE tenon.task SET timeout_ms = 1000");
    test_sql(fx, "SELECT tenon.extend('%s', '2 h')", claim);
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c.id);
    (void)snprintf(keys, sizeof keys, "{%lld}", (long long)c.key);
    const char *const params[] = {c.worker, ids, keys, "{1}"};
    PGresult *result = statement_run(fx->conn, &sql_verify, params, 4);
    assert_string_equal(PQgetvalue(result, 0, 2), "mine");
    assert_in_range(strtol(PQgetvalue(result, 0, 3), NULL, 10), 7200000, 7200000 + 600000);
    PQclear(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_progress),
        WITH_DATABASE(test_the_next_attempt_gets_it),
        WITH_DATABASE(test_progress_is_measured_as_text),
        WITH_DATABASE(test_what_cannot_be_stored),
        WITH_DATABASE(test_a_lost_claim_writes_nothing),
        WITH_DATABASE(test_extend),
        WITH_DATABASE(test_extend_past_its_limits),
        WITH_DATABASE(test_by_hand),
        WITH_DATABASE(test_a_locked_row_is_left_out),
        WITH_DATABASE(test_updates_are_hot),
        WITH_DATABASE(test_verify_tells_the_timeout),
    };
    return RUN_GROUP(tests);
}
