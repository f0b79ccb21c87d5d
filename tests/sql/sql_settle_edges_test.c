/* label: sql */
/* What settling must withstand: rows that somebody deleted or locked, members of cancelled flows;
 * and whom it wakes. */
#include "tests/support/held.h"
#include "tests/support/stepper.h"

#include "cleaner/decide/settled.h"
#include "cleaner/statements.h"
#include "core/base/now.h"
#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>

static void settle(struct fixture *fx)
{
    while (test_sql_int(fx, "SELECT tenon.settle()") > 0) {
    }
}

static void die(struct fixture *fx, const char *worker, int64_t id)
{
    struct held c;
    assert_true(held_take(fx, worker, id, &c));
    free(held_requeue(fx, &c, "dead", "oops", NULL));
}

static void assert_refused(struct fixture *fx, const char *sql, const char *sqlstate,
                           const char *text)
{
    PGconn *conn = sql_connect(fx->database_url);
    PGresult *r = PQexec(conn, sql);
    assert_int_equal(PQresultStatus(r), PGRES_FATAL_ERROR);
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), sqlstate);
    assert_contains(PQresultErrorMessage(r), text);
    PQclear(r);
    PQfinish(conn);
}

/* Without its row a kind's or a queue's limit would hold nothing back, and nobody would be told. */
static void test_a_kind_that_has_a_limit_stays(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('kind/a', max_running => 1),"
                 " tenon.set_limit('queue/q', max_running => 1)");
    assert_refused(fx, "DELETE FROM tenon.kind", "55000",
                   "delete or rename 'a' in tenon.kind: it has a limit");
    assert_refused(fx, "DELETE FROM tenon.kind", "55000", "tenon.remove_limit('kind/a')");
    assert_refused(fx, "UPDATE tenon.kind SET name = 'b'", "55000", "tenon.remove_limit('kind/a')");
    assert_refused(fx, "DELETE FROM tenon.queue", "55000", "tenon.remove_limit('queue/q')");
    assert_refused(fx, "UPDATE tenon.queue SET name = 'b'", "55000", "remove_limit('queue/q')");
    test_sql(fx, "UPDATE tenon.kind SET priority = NULL");
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'q') FROM generate_series(1, 2)");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 1);
    test_sql(fx, "SELECT tenon.remove_limit('kind/a'), tenon.remove_limit('queue/q')");
    test_sql(fx, "UPDATE tenon.kind SET name = 'b'; DELETE FROM tenon.kind;"
                 " DELETE FROM tenon.queue");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 2);
}

/* When a line stands still is when one wants it to go on. */
static void test_a_line_behind_a_dead_task(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('l', strict => true)");
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{l:1}') FROM generate_series(1, 2)");
    settle(fx);
    die(fx, worker, 1);
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 0);
    test_sql(fx, "SELECT pg_advisory_lock(leader_key) FROM tenon.setting"); /* a cleaner leads */
    char *advice = test_sql_text(fx, "SELECT tenon.why(2)");
    assert_contains(advice, "the dead task 1 blocks them");
    assert_contains(advice, "tenon retry 1, or tenon delete 1");
    free(advice);
    test_sql(fx, "SELECT tenon.set_limit('l', strict => true, when_dead => 'skip')");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT dead FROM tenon.limits WHERE key = 'l:1'"), 0);
    /* also one that has nobody behind it yet */
    test_sql(fx, "SELECT tenon.set_limit('m', strict => true)");
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{m:1}')");
    settle(fx);
    die(fx, worker, 3);
    settle(fx);
    test_sql(fx, "SELECT tenon.set_limit('m', strict => true, when_dead => 'skip')");
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{m:1}')");
    settle(fx);
    assert_state(fx, 4, "ready");
}

/* --- what was cancelled ----------------------------------------------------------------------- */

static void test_a_task_of_a_cancelled_flow(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES], text[128];
    worker_make(fx, worker);
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('f')");
    test_sql(fx, "SELECT tenon.enqueue('a', flow => %lld) FROM generate_series(1, 2)",
             (long long)f); /* 1, 2 */
    die(fx, worker, 1);
    test_sql(fx, "SELECT tenon.cancel_flow(%lld)", (long long)f);
    settle(fx);
    test_sql(fx, "SELECT tenon.cancel(tenon.enqueue('b'))"); /* 3 */
    (void)snprintf(text, sizeof text, "task 1 cannot be retried: its flow %lld was cancelled by",
                   (long long)f);
    assert_refused(fx, "SELECT tenon.retry_where('{\"ids\": [1, 2]}')", "55000", text);
    assert_refused(fx, "SELECT tenon.retry_where('{\"ids\": 2}')", "55000",
                   "task 2 cannot be retried");
    /* of several it is skipped */
    assert_true(test_sql_bool(
        fx, "SELECT n = 1 AND skipped = 1 FROM tenon.change('retry', '{\"ids\": [1, 3]}')"));
    test_sql(fx, "SELECT tenon.cancel(3)");
    /* who did not name them gets the others */
    assert_true(test_sql_bool(
        fx, "SELECT n = 1 AND skipped = 2 FROM tenon.change('retry', '{\"state\": [\"dead\","
            " \"cancelled\"]}')"));
    settle(fx);
    assert_state(fx, 1, "dead");
    /* one that has ended stays as it is, unless it got another task since */
    f = test_sql_int(fx, "SELECT tenon.flow('ended')");
    test_sql(fx, "SELECT tenon.cancel(tenon.enqueue('a', flow => %lld))", (long long)f);
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_flow(%lld)", (long long)f), 0);
    assert_true(test_sql_bool(fx,
                              "SELECT cancelled_at IS NULL AND ended_at IS NOT NULL"
                              " FROM tenon.flow WHERE id = %lld",
                              (long long)f));
    test_sql(fx, "SELECT tenon.enqueue('a', flow => %lld)", (long long)f);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_flow(%lld)", (long long)f), 1);
    assert_state(fx, 2, "cancelled");
    assert_state(fx, 3, "ready");
}

/* --- what somebody has locked ----------------------------------------------------------------- */

/* An operator thinks about a limit that ends meanwhile, or about its kind: others go on. */
static void test_a_limit_that_ends_while_it_is_locked(void **state)
{
    struct fixture *fx = *state;
    static const char *const locks[] = {
        "SELECT tenon.set_limit('kind/a', max_running => 2, until => now() + interval '1 h')",
        "SELECT tenon.pause(kind => 'a')"};
    for (size_t i = 0; i < 2; i++) {
        PGconn *other = sql_connect(fx->database_url);
        test_sql(fx, "TRUNCATE tenon.task, tenon.limit_task, tenon.limit_event;"
                     " SELECT tenon.set_limit('kind/a', max_running => 1, until => now() + interval"
                     " '1 h'), tenon.set_limit('t', max_running => 1)");
        test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 2)");
        settle(fx);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 1);
        test_sql(fx, "UPDATE tenon.limit SET until = now() WHERE name = 'kind/a'");
        sql_run(other, "BEGIN; %s", locks[i]);
        test_sql(fx, "SELECT tenon.enqueue('b', limit_keys => '{t}')");
        test_sql(fx, "SET statement_timeout = '20 s'");
        settle(fx);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready WHERE kind = 'b'"), 1);
        /* nor does it turn in circles until then */
        assert_true(test_sql_bool(fx, "SELECT due_ms IS NULL FROM tenon.settle_all(500, 0, 0)"));
        assert_int_equal(test_sql_int(fx, "SELECT tenon.limits_due_ms()"), 0);
        sql_run(other, "ROLLBACK");
        settle(fx);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready WHERE kind = 'a'"), 2);
        assert_false(test_sql_bool(fx, "SELECT limited FROM tenon.kind WHERE name = 'a'"));
        PQfinish(other);
    }
}

/* --- two at once ------------------------------------------------------------------------------ */

/* One has made the child's place in its limit's line, and has not committed, when the child is
 * cancelled: the other must not take the event of that, as it cannot see the place, which would
 * stop all that come after. */
static void test_two_that_settle(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('l', max_running => 1)");
    test_sql(fx, "SELECT tenon.flow('f')");
    test_sql(fx, "SELECT tenon.enqueue('a', flow => 1),"
                 " tenon.enqueue('b', flow => 1, depends_on => '{1}', limit_keys => '{l}')");
    struct held c;
    assert_true(held_take(fx, worker, 1, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    PGconn *one = sql_connect(fx->database_url);
    sql_run(one, "BEGIN");
    sql_run(one, "SELECT tenon.settle_flows(500, 0)");
    test_sql(fx, "SELECT tenon.cancel(2)");
    settle(fx);
    sql_run(one, "COMMIT");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_event"), 0);
    PQfinish(one);
}

/* One that settles two cancelled flows has seen the first, and is held up in the second, when a
 * task that another transaction has added to the first is committed. */
static void test_a_task_that_comes_while_its_flow_is_cancelled(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS"
                 " 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';"
                 "SELECT tenon.flow('f'), tenon.flow('g');"
                 "SELECT tenon.enqueue('a', flow => 2)"); /* 1 */
    PGconn *adds = sql_connect(fx->database_url), *locks = sql_connect(fx->database_url);
    PGconn *settles = sql_connect(fx->database_url);
    sql_run(adds, "BEGIN");
    sql_run(adds, "SELECT tenon.enqueue('a', flow => 1)"); /* 2 */
    sql_run(locks, "BEGIN");
    sql_run(locks, "SELECT FROM tenon.task WHERE id = 1 FOR UPDATE");
    test_sql(fx, "SELECT tenon.cancel_flow(1), tenon.cancel_flow(2)");
    sql_run(locks, "ROLLBACK");
    sql_run(locks, "SELECT pg_advisory_lock(7)");
    test_sql(fx, "CREATE TRIGGER hold AFTER INSERT ON tenon.history FOR EACH ROW"
                 " EXECUTE FUNCTION public.hold()");
    assert_int_equal(PQsendQuery(settles, "SELECT tenon.settle()"), 1);
    test_await(fx, 10000,
               "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'"
               " AND NOT granted AND objid = 7)");
    sql_run(adds, "COMMIT");
    sql_run(locks, "SELECT pg_advisory_unlock(7)");
    PQclear(PQgetResult(settles));
    test_sql(fx, "DROP TRIGGER hold ON tenon.history");
    settle(fx);
    assert_state(fx, 2, "cancelled");
    PQfinish(adds);
    PQfinish(locks);
    PQfinish(settles);
}

/* What an operator has paused stays so when the limit's row ends. */
static void test_a_pause_outlives_an_exception(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.set_limit('t:1', max_running => 3, until => now() + interval '1 h');"
                 "SELECT tenon.pause_limit('t:1');"
                 "SELECT tenon.enqueue('a', limit_keys => '{t:1}') FROM generate_series(1, 2);"
                 "UPDATE tenon.limit SET until = now() WHERE name = 't:1'");
    assert_true(test_sql_bool(fx, "SELECT paused FROM tenon.limit_rule('t:1')"));
    settle(fx);
    assert_state(fx, 1, "blocked");
    assert_true(test_sql_bool(fx, "SELECT paused AND max_running = 1 AND rule = 't'"
                                  " FROM tenon.limit_rule('t:1')"));
    assert_true(test_sql_bool(fx, "SELECT tenon.resume_limit('t:1')"));
    settle(fx);
    assert_state(fx, 1, "ready");
    assert_state(fx, 2, "blocked");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit WHERE name = 't:1'"), 0);
}

/* One sets or pauses a limit, and another at once ends what there was before: whether tasks get its
 * key goes by what is there then. */
static void test_a_limit_and_its_pause_change_at_once(void **state)
{
    static const struct {
        const char *before, *one, *other;
    } cases[] = {
        {"pause_limit('kind/a')", "set_limit('kind/a', max_running => 5)",
         "resume_limit('kind/a')"},
        {"set_limit('kind/b', max_running => 5)", "pause_limit('kind/b')",
         "remove_limit('kind/b')"},
        {"pause_limit('queue/q')", "set_limit('queue/q', strict => true)",
         "resume_limit('queue/q')"},
    };
    struct fixture *fx = *state;
    PGconn *one = sql_connect(fx->database_url), *other = sql_connect(fx->database_url);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[200];
        test_sql(fx, "SELECT tenon.%s", cases[i].before);
        sql_run(one, "BEGIN");
        sql_run(one, "SELECT tenon.%s", cases[i].one);
        (void)snprintf(sql, sizeof sql, "SELECT tenon.%s", cases[i].other);
        assert_int_equal(PQsendQuery(other, sql), 1);
        test_await(fx, 10000, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = %d)",
                   PQbackendPID(other));
        sql_run(one, "COMMIT");
        for (PGresult *r = PQgetResult(other); r; r = PQgetResult(other)) {
            assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
            PQclear(r);
        }
    }
    assert_true(test_sql_bool(fx, "SELECT limited FROM tenon.kind WHERE name = 'a'"));
    assert_true(test_sql_bool(fx, "SELECT limited FROM tenon.queue WHERE name = 'q'"));
    assert_true(test_sql_bool(fx, "SELECT NOT limited AND NOT EXISTS (SELECT FROM tenon.paused)"
                                  " FROM tenon.kind WHERE name = 'b'")); /* removed last */
    PQfinish(one);
    PQfinish(other);
}

static int64_t ready_of(struct fixture *fx, const char *key)
{
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{%s}')", key);
    settle(fx);
    return test_sql_int(fx, "SELECT ready FROM tenon.limits WHERE key = '%s'", key);
}

/* What an open transaction has taken counts also when another row says the rate by then: an
 * exception has begun, or has ended. */
static void test_a_take_beside_an_exception(void **state)
{
    struct fixture *fx = *state;
    PGconn *taker = sql_connect(fx->database_url);
    test_sql(fx, "SELECT tenon.set_limit('r', max_starts => 1, per => '1 h')");
    sql_run(taker, "BEGIN; SELECT tenon.take_limit('r:1')");
    test_sql(fx, "SELECT tenon.set_limit('r:1', max_starts => 1, per => '2 h', until => now() +"
                 " interval '1 h')");
    assert_int_equal(ready_of(fx, "r:1"), 0);
    sql_run(taker, "COMMIT");
    assert_int_equal(ready_of(fx, "r:1"), 0);
    test_sql(fx, "SELECT tenon.set_limit('r:2', max_starts => 1, per => '2 h', until =>"
                 " clock_timestamp() + interval '500 ms')");
    sql_run(taker, "BEGIN; SELECT tenon.take_limit('r:2')");
    test_await(fx, 10000, "SELECT until < now(), until FROM tenon.limit WHERE name = 'r:2'");
    assert_int_equal(ready_of(fx, "r:2"), 0);
    sql_run(taker, "COMMIT");
    assert_int_equal(ready_of(fx, "r:2"), 0);
    PQfinish(taker);
}

/* An operator sets a key and then its part, in one transaction: whoever takes meanwhile is told to
 * ask again, also when he is the victim of the deadlock. */
static void test_a_take_in_a_deadlock(void **state)
{
    struct fixture *fx = *state;
    struct stepper taker, operator;
    test_sql(fx, "SELECT tenon.set_limit('r', max_starts => 1, per => '1 h'),"
                 " tenon.set_limit('r:1', max_starts => 1, per => '1 h')");
    stepper_open(&taker, fx->database_url, 0);
    stepper_open(&operator, fx->database_url, 0);
    sql_run(taker.conn, "SET deadlock_timeout = '500 ms'");
    sql_run(operator.conn, "SET deadlock_timeout = '10 s'");
    sql_run(operator.conn, "BEGIN; SELECT tenon.set_limit('r:1', max_starts => 2, per => '1 h')");
    stepper_send(&taker, "SELECT tenon.take_limit('r:1')");
    assert_false(stepper_settle(&taker, fx->conn));
    stepper_send(&operator, "SELECT tenon.set_limit('r', max_starts => 2, per => '1 h')");
    stepper_await(&taker);
    assert_string_equal(stepper_state(&taker), "");
    assert_string_equal(PQgetvalue(taker.result, 0, 0), "100");
    stepper_await(&operator);
    assert_string_equal(stepper_state(&operator), "");
    stepper_close(&taker);
    stepper_close(&operator);
}

/* What comes between the change of a limit and its commit is seen to after that. */
static void test_a_limit_that_is_changed_late(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    PGconn *late = sql_connect(fx->database_url);
    test_sql(fx, "SELECT tenon.pause_limit('t'), tenon.set_limit('s', strict => true);"
                 "SELECT tenon.enqueue('b', limit_keys => '{s}')"); /* 1 */
    settle(fx);
    sql_run(late, "BEGIN; SELECT tenon.resume_limit('t')");
    test_sql(fx, "SELECT tenon.enqueue('b', limit_keys => '{t:2}')"); /* 2 */
    settle(fx);
    assert_state(fx, 2, "blocked");
    sql_run(late, "COMMIT");
    settle(fx);
    assert_state(fx, 2, "ready");
    sql_run(late, "BEGIN; SELECT tenon.set_limit('s', strict => true, when_dead => 'skip')");
    die(fx, worker, 1);
    settle(fx);
    test_sql(fx, "SELECT tenon.enqueue('b', limit_keys => '{s}')"); /* 3 */
    settle(fx);
    assert_state(fx, 3, "blocked");
    sql_run(late, "COMMIT");
    settle(fx);
    assert_state(fx, 3, "ready");
    PQfinish(late);
}

/* More keys wait under a limit than are seen to at a time. */
static void test_a_limit_of_many_keys(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.pause_limit('t');"
                 "SELECT tenon.enqueue('a', limit_keys => ARRAY['t:' || i]) FROM"
                 " generate_series(1, 25) i");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 0);
    test_sql(fx, "SELECT tenon.resume_limit('t')");
    while (test_sql_int(fx, "SELECT tenon.settle(10)") > 0) {
        assert_in_range(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_event"), 0, 11);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 25);
}

/* --- notes that are committed late --- */

static int64_t number_at(const PGresult *r, int column)
{
    return strtoll(PQgetvalue(r, 0, column), NULL, 10);
}

/* While a transaction is open that has left a note, nobody takes the note for settled: also when no
 * transaction has begun after it. */
static void test_a_note_of_an_open_transaction_is_not_skipped(void **state)
{
    struct fixture *fx = *state;
    struct settled s = {.all_ms = now_ms()};
    PGconn *open = sql_connect(fx->database_url), *conn = sql_connect(fx->database_url);
    sql_run(open, "BEGIN; SELECT tenon.enqueue('a', limit_keys => '{t}')");
    for (int turns = 0; turns < 7; turns++) {
        if (turns == 6) {
            sql_run(open, "COMMIT");
            assert_true(
                test_sql_bool(fx, "SELECT min(id) > %lld FROM tenon.limit_event", (long long)s.id));
        }
        char from[24];
        (void)snprintf(from, sizeof from, "%lld", (long long)s.id);
        const char *const params[] = {"500", "0", from};
        PGresult *r = statement_run(conn, &sql_settle, params, 3);
        const struct settled_answer answer = {.from = s.id,
                                              .first = number_at(r, 5),
                                              .last = number_at(r, 6),
                                              .xmin = number_at(r, 7),
                                              .next = number_at(r, 8)};
        settled_answered(&s, &answer, now_ms());
        PQclear(r);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 1);
    PQfinish(open);
    PQfinish(conn);
}

/* --- whom it wakes ---------------------------------------------------------------------------- */

static PGresult *cleaner_settles(PGconn *conn, const char *few)
{
    const char *const params[] = {"500", few, "0"};
    return statement_run(conn, &sql_settle, params, 3);
}

static bool notified(PGconn *conn)
{
    (void)PQconsumeInput(conn);
    PGnotify *n = PQnotifies(conn);
    bool any = n && strcmp(n->relname, "tenon_wakeup") == 0;
    if (any) {
        assert_string_equal(n->extra, "4 default/a");
    }
    PQfreemem(n);
    return any;
}

/* Few it names; of many the workers are told in its own commit. What is due later is neither. */
static void test_whom_it_wakes(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "LISTEN tenon_wakeup");
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{t}') FROM generate_series(1, 3)");
    PGresult *r = cleaner_settles(conn, "3");
    assert_string_equal(PQgetvalue(r, 0, 1), "3");
    const char *const freed[] = {PQgetvalue(r, 0, 3)};
    PGresult *each = statement_run(conn, &sql_settle_freed, freed, 1);
    assert_int_equal(PQntuples(each), 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(PQgetvalue(each, i, 1), "default");
        assert_string_equal(PQgetvalue(each, i, 2), "a");
        assert_string_equal(PQgetvalue(each, i, 3), "t");
    }
    PQclear(each);
    PQclear(r);
    assert_false(notified(conn));
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{t}') FROM generate_series(1, 4)");
    r = cleaner_settles(conn, "3");
    assert_string_equal(PQgetvalue(r, 0, 1), "4");
    PQclear(r);
    assert_true(notified(conn));
    /* a child that is due in an hour: the due chore sees to it */
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('f')");
    int64_t parent = test_sql_int(fx, "SELECT tenon.enqueue('a', flow => %lld)", (long long)f);
    int64_t child = test_sql_int(fx,
                                 "SELECT tenon.enqueue('a', flow => %lld, depends_on => '{%lld}',"
                                 " delay => '1 h', on_parent_dead => 'run')",
                                 (long long)f, (long long)parent);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)parent);
    r = cleaner_settles(conn, "1");
    assert_string_equal(PQgetvalue(r, 0, 1), "1");
    const char *const later[] = {PQgetvalue(r, 0, 3)};
    each = statement_run(conn, &sql_settle_freed, later, 1);
    assert_string_equal(PQgetvalue(each, 0, 3), "f");
    PQclear(each);
    PQclear(r);
    assert_true(
        test_sql_bool(fx, "SELECT delayed FROM tenon.task WHERE id = %lld", (long long)child));
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_kind_that_has_a_limit_stays),
        WITH_DATABASE(test_a_line_behind_a_dead_task),
        WITH_DATABASE(test_a_task_of_a_cancelled_flow),
        WITH_DATABASE(test_a_limit_that_ends_while_it_is_locked),
        WITH_DATABASE(test_two_that_settle),
        WITH_DATABASE(test_a_task_that_comes_while_its_flow_is_cancelled),
        WITH_DATABASE(test_a_pause_outlives_an_exception),
        WITH_DATABASE(test_a_limit_and_its_pause_change_at_once),
        WITH_DATABASE(test_a_take_beside_an_exception),
        WITH_DATABASE(test_a_take_in_a_deadlock),
        WITH_DATABASE(test_a_limit_that_is_changed_late),
        WITH_DATABASE(test_a_limit_of_many_keys),
        WITH_DATABASE(test_a_note_of_an_open_transaction_is_not_skipped),
        WITH_DATABASE(test_whom_it_wakes),
    };
    return RUN_GROUP(tests);
}
