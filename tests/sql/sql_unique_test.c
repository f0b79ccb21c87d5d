/* label: sql */
/* unique_key of tenon.enqueue: what becomes of the task that holds it, of what is enqueued while it
 * runs, and of keys that are held for a time. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>

/* One text of the only task of kind "a": payload, seconds until run_at, state. */
static void assert_task(struct fixture *fx, const char *want)
{
    char *got = test_sql_text(
        fx,
        "SELECT string_agg(format('%%s %%s s %%s', payload, greatest(0, 5 * round("
        "extract(epoch FROM run_at -"
        " clock_timestamp()) / 5)), state), '; ' ORDER BY id) FROM tenon.tasks WHERE state NOT IN"
        " ('done', 'cancelled')");
    assert_string_equal(got ? got : "none", want);
    free(got);
}

static void enqueue(PGconn *conn, const char *arguments)
{
    sql_run(conn, "SELECT tenon.enqueue('a', unique_key => 'k', %s)", arguments);
}

static void test_an_unstarted_holder(void **state)
{
    static const struct {
        const char *second, *want;
    } cases[] = {
        {"payload => '{\"b\": 2}'", "{\"a\": 1} 3600 s scheduled"},
        {"payload => '{\"b\": 2}', on_conflict => 'keep'", "{\"a\": 1} 3600 s scheduled"},
        {"payload => '{\"b\": 2}', on_conflict => 'replace', delay => '60 s'",
         "{\"b\": 2} 60 s scheduled"},
        {"payload => '{\"b\": 2}', on_conflict => 'replace'", "{\"b\": 2} 0 s ready"},
        {"payload => '{\"b\": 2}', on_conflict => 'merge', delay => '60 s'",
         "{\"a\": 1, \"b\": 2} 3600 s scheduled"},
        {"payload => '{\"b\": 2}', debounce => '10 s'", "{\"b\": 2} 10 s scheduled"},
        {"payload => '{\"b\": 2}', debounce => '10 s', on_conflict => 'merge'",
         "{\"a\": 1, \"b\": 2} 10 s scheduled"},
        {"payload => '{\"b\": 2}', debounce => '10 s', on_conflict => 'keep'",
         "{\"a\": 1} 10 s scheduled"},
        {"payload => '{\"b\": 2}', debounce => '60 s', debounce_max => '90 s'",
         "{\"b\": 2} 60 s scheduled"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enqueue(fx->conn, "payload => '{\"a\": 1}', delay => '1 h'");
        enqueue(fx->conn, cases[i].second);
        assert_task(fx, cases[i].want);
        test_sql(fx, "DELETE FROM tenon.task");
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
}

static void test_debounce_ends(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx->conn, "debounce => '60 s', debounce_max => '90 s'");
    test_sql(fx, "UPDATE tenon.task SET created_at = created_at - interval '80 s'");
    enqueue(fx->conn, "debounce => '60 s', debounce_max => '90 s'");
    assert_task(fx, "{} 10 s scheduled");
}

/* One whose last moment is over keeps its place, or comes now: it does not pass those before it. */
static void test_debounce_passes_nobody(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx->conn, "delay => '1 h'");
    test_sql(fx, "UPDATE tenon.task SET created_at = created_at - interval '50 min'");
    enqueue(fx->conn, "debounce => '5 s', debounce_max => '10 s'");
    assert_true(test_sql_bool(fx, "SELECT run_at > now() - interval '20 s' AND"
                                  " run_at < now() + interval '1 s' FROM tenon.task"));
    test_sql(fx, "UPDATE tenon.task SET run_at = clock_timestamp() - interval '30 min'");
    enqueue(fx->conn, "debounce => '5 s', debounce_max => '10 s'");
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(test_sql_bool(fx, "SELECT run_at BETWEEN now() - interval '31 min' AND"
                                  " now() - interval '29 min' FROM tenon.task"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
}

/* Nothing that is enqueued is such a row; the owner of the schema might write one. */
static void test_a_row_that_cannot_be_stops_no_other(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue(k, unique_key => 'k', delay => '1 h')"
                 " FROM unnest('{a,b,c}'::text[]) k");
    test_sql(fx, "INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*"
                 " FROM tenon.task t, tenon.as_again(t) a ORDER BY t.id");
    test_sql(fx, "UPDATE tenon.again SET payload = '[1]', on_conflict = 'replace',"
                 " debounce = '1 s', debounce_max = '1 day'");
    test_sql_fails(fx, "23514", "debounce_max",
                   "UPDATE tenon.again SET debounce_max = '300000 years'");
    test_sql(fx, "UPDATE tenon.task SET created_at = '294276-12-31' WHERE kind = 'b'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 3);
    assert_true(
        test_sql_bool(fx, "SELECT bool_and((payload = '[1]') = (kind <> 'b')) FROM tenon.task"));
    assert_true(test_sql_bool(fx, "SELECT string_agg(kind, '') = 'b' AND bool_and(taken)"
                                  " AND min(failed) LIKE '%%out of range%%' FROM tenon.again"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0); /* and it is not tried again */
}

/* What is enqueued after such a row, while the holder runs, starts all the same; and the row is
 * tried again when the holder has ended. */
static void test_a_row_that_cannot_be_takes_nothing_in(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')");
    test_sql(fx, "INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*"
                 " FROM tenon.task t, tenon.as_again(t) a;"
                 "UPDATE tenon.again SET on_conflict = 'replace', debounce = '1 s',"
                 " debounce_max = '1 day';"
                 "UPDATE tenon.task SET created_at = '294276-12-31'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(failed) FROM tenon.again"), 1);
    assert_true(held_take(fx, worker, id, &c));
    enqueue(fx->conn, "payload => '{\"mine\": 1}', on_conflict => 'replace'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 2);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql(fx, "SELECT tenon.settle()");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
    assert_task(fx, "{\"mine\": 1} 0 s ready");
}

static void test_bad_arguments(void **state)
{
    static const struct {
        const char *arguments, *says;
    } bad[] = {
        {"on_conflict => 'replace'",
         "on_conflict, unique_for, debounce and debounce_max require unique_key"},
        {"debounce => '1 s'", "require unique_key"},
        {"unique_key => 'k', on_conflict => 'drop'", "on_conflict 'drop'|keep, replace or merge"},
        {"unique_key => 'k', unique_for => '0'", "unique_for 00:00:00|1 millisecond to 365 days"},
        {"unique_key => 'k', unique_for => '366 days'", "unique_for 366 days"},
        {"unique_key => 'k', debounce => '31 days'", "debounce 31 days|1 millisecond to 30 days"},
        {"unique_key => 'k', debounce => '1 s', delay => '1 s'",
         "debounce is given together with run_at or delay"},
        {"unique_key => 'k', debounce_max => '1 s'", "debounce_max requires debounce"},
        {"unique_key => 'k', debounce => '2 s', debounce_max => '1 s'", "debounce_max 00:00:01"},
        {"start_before => '2001-01-01'", "start_before 2001|in the future"},
        {"start_before => now() + interval '1 h', delay => '2 h'", "start_before|after run_at"},
        {"start_before => 'infinity'", "start_before infinity"},
        {"retry => 'never'", "retry 'never'|polynomial"},
        {"retry => 'linear'", "retry 'linear'"},
        {"retry => 'constant(0 s)'", "retry 'constant(0 s)'"},
        {"retry => 'exponential(1 h, 1 s)'", "retry 'exponential(1 h, 1 s)'"},
        {"retry => 'exponential(1 s, 1 h, 101 %)'", "retry 'exponential(1 s, 1 h, 101 %)'"},
        {"retry => 'constant(yesterday)'", "retry 'constant(yesterday)'"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char call[200];
        (void)snprintf(call, sizeof call, "SELECT tenon.enqueue('a', %s)", bad[i].arguments);
        test_sql_fails(fx, "22023", bad[i].says, "%s", call);
    }
}

/* What was enqueued while the first ran, starts when it has ended, however that was. */
static void test_a_running_holder(void **state)
{
    static const char *const ends[] = {"finish", "failed", "dead", "cancel", "finish()"};
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct held c;
        char text[HELD_TEXT_BYTES];
        int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '1', unique_key => 'k')");
        assert_true(held_take(fx, worker, id, &c));
        assert_int_equal(test_sql_int(fx, "SELECT tenon.enqueue('a', '2', unique_key => 'k')"), id);
        assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
        assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0); /* it waits */
        assert_task(fx, "1 0 s running");
        held_text(&c, text);
        if (strcmp(ends[i], "finish") == 0) {
            assert_true(held_finish(fx, &sql_finish, &c, "{}"));
        } else if (strcmp(ends[i], "finish()") == 0) {
            test_sql(fx, "SELECT tenon.finish('%s')", text);
        } else if (strcmp(ends[i], "cancel") == 0) {
            test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
        } else {
            free(held_requeue(fx, &c, ends[i], "x", NULL));
        }
        test_sql(fx, "DELETE FROM tenon.dead");
        assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
        if (strcmp(ends[i], "failed") == 0) { /* the next attempt will do */
            assert_true(test_sql_bool(fx, "SELECT bool_and(payload = '1') FROM tenon.task"));
        } else {
            assert_task(fx, "2 0 s ready");
        }
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
        test_sql(fx, "DELETE FROM tenon.task");
    }
}

/* A key that many producers enqueue under all the time: the end of a run waits for no settler
 * that is at the rows of its key, and what is due and replaced keeps its place. */
static void test_a_hot_key(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '1', unique_key => 'k')");
    assert_true(held_take(fx, worker, id, &c));
    enqueue(fx->conn, "payload => '2', on_conflict => 'replace'");
    test_sql(fx, "SELECT tenon.settle()");
    enqueue(fx->conn, "payload => '3', on_conflict => 'replace'");
    sql_run(other, "BEGIN; SELECT tenon.settle()"); /* the third joins the second */
    test_sql(fx, "SET lock_timeout = '1 s'");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    sql_run(other, "COMMIT");
    test_sql(fx, "SELECT tenon.settle()");
    assert_task(fx, "3 0 s ready");
    test_sql(fx, "UPDATE tenon.task SET run_at = run_at - interval '0.1 s'");
    enqueue(fx->conn, "payload => '4', on_conflict => 'replace'");
    test_sql(fx, "SELECT pg_sleep(3.1); SELECT tenon.settle()");
    assert_true(test_sql_bool(fx, "SELECT payload = '4' AND run_at < clock_timestamp() -"
                                  " interval '3 s' FROM tenon.task"));
    PQfinish(other);
}

/* Many requests under one running task are one task afterwards. */
static void test_requests_join_each_other(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')");
    assert_true(held_take(fx, worker, id, &c));
    for (int i = 0; i < 5; i++) {
        test_sql(fx,
                 "SELECT tenon.enqueue('a', jsonb_build_object(%d, 1), unique_key => 'k',"
                 " on_conflict => 'merge')",
                 i);
        test_sql(fx, "SELECT tenon.settle()");
    }
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql(fx, "SELECT tenon.settle()");
    assert_task(fx, "{\"0\": 1, \"1\": 1, \"2\": 1, \"3\": 1, \"4\": 1} 0 s ready");
}

/* An open transaction does not stop the holder's end, nor that it; what it enqueued follows. */
static void test_an_open_transaction(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '1', unique_key => 'k')");
    assert_true(held_take(fx, worker, id, &c));
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', '2', unique_key => 'k')");
    test_sql(fx, "SET lock_timeout = '1 s'");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    sql_run(other, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_task(fx, "2 0 s ready");
    /* and rolled back it never was */
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', '3', unique_key => 'k'); ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    assert_task(fx, "2 0 s ready");
    PQfinish(other);
}

/* Who joins an unstarted task holds it until his commit, so that it starts afterwards; but not one
 * that has been ready for a second: it might never start. */
static void test_an_unstarted_holder_waits_for_the_commit(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k', delay => '1 s')");
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', unique_key => 'k')");
    test_await(fx, 10000, "SELECT run_at < clock_timestamp() FROM tenon.task");
    assert_false(held_take(fx, worker, id, &c));
    /* a third one does not wait either */
    test_sql(fx, "SET lock_timeout = '1 s'; SELECT tenon.enqueue('a', unique_key => 'k')");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    sql_run(other, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_task(fx, "{} 0 s ready");
    test_sql(fx, "UPDATE tenon.task SET run_at = run_at - interval '2 s'");
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', unique_key => 'k')");
    assert_true(held_take(fx, worker, id, &c));
    sql_run(other, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_task(fx, "{} 0 s ready");
    PQfinish(other);
}

static void test_another_role_changes_nothing(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx->conn, "payload => '1', delay => '1 h'");
    test_sql(fx, "UPDATE tenon.task SET enqueued_by = 'somebody';"
                 "UPDATE tenon.setting SET cancel_own_only = true");
    enqueue(fx->conn, "payload => '2', on_conflict => 'replace'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1); /* it waits for the end */
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    assert_task(fx, "1 3600 s scheduled");
    test_sql(fx, "UPDATE tenon.setting SET cancel_own_only = false; SELECT tenon.cancel(id) FROM"
                 " tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_task(fx, "2 0 s ready");
}

static void test_a_merge_that_is_too_large_is_a_task_of_its_own(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET payload_bytes_max = 100");
    enqueue(fx->conn, "payload => jsonb_build_object('a', repeat('a', 60)), delay => '1 h'");
    enqueue(fx->conn,
            "payload => jsonb_build_object('b', repeat('b', 60)), on_conflict => 'merge'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.task; SELECT tenon.settle()");
    assert_true(test_sql_bool(fx, "SELECT payload ? 'b' FROM tenon.task"));
}

/* Of many under one running task what does not fit in one payload is a task of its own, later. */
static void test_requests_are_bounded(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    test_sql(fx, "UPDATE tenon.setting SET payload_bytes_max = 100");
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')");
    assert_true(held_take(fx, worker, id, &c));
    for (int i = 0; i < 6; i++) {
        test_sql(fx,
                 "SELECT tenon.enqueue('a', jsonb_build_object(%d, repeat('x', 30)),"
                 " unique_key => 'k', on_conflict => 'merge')",
                 i);
    }
    assert_int_equal(test_sql_int(fx, "SELECT sum(tenon.settle()) FROM generate_series(1, 8)"), 6);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    for (int i = 0; i < 6 && test_sql_int(fx, "SELECT count(*) FROM tenon.again") > 0; i++) {
        test_sql(fx, "SELECT tenon.settle(); SELECT tenon.cancel(id) FROM tenon.task");
    }
    test_sql(fx, "SELECT tenon.settle(); SELECT tenon.cancel(id) FROM tenon.task");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history f, jsonb_object_keys("
                                      "f.payload) WHERE octet_length(f.payload::text) <= 100"),
                     6);
}

/* What cannot be settled for long stops no other key. */
static void test_what_waits_stops_no_other(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    test_sql(fx, "UPDATE tenon.setting SET payload_bytes_max = 100");
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.enqueue('a', jsonb_build_object('x', repeat('x', 80)), unique_key =>"
                 " 'big', delay => '1 h');"
                 "SELECT tenon.enqueue('a', jsonb_build_object(n, repeat('x', 80)), unique_key =>"
                 " 'big', on_conflict => 'merge') FROM generate_series(1, 50) n");
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'v')");
    assert_true(held_take(fx, worker, id, &c));
    test_sql(fx, "SELECT tenon.enqueue('a', unique_key => 'v')");
    for (int i = 0; i < 12; i++) {
        test_sql(fx, "SELECT tenon.settle(5)");
    }
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql(fx, "SELECT tenon.settle(5)");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready WHERE unique_key = 'v'"),
                     1);
}

/* A run that starts after the commit is sure also when the holder does not start any more. */
static void test_an_expired_holder(void **state)
{
    struct fixture *fx = *state;
    enqueue(fx->conn, "payload => '1', start_before => clock_timestamp() + interval '1 h'");
    test_sql(fx, "UPDATE tenon.task SET start_before = now()");
    enqueue(fx->conn, "payload => '2'");
    test_sql(fx, "SELECT tenon.settle(); SELECT tenon.settle()");
    assert_true(test_sql_bool(fx, "SELECT payload = '2' AND state = 'ready' FROM tenon.tasks WHERE"
                                  " end_time IS NULL"));
    /* who joins without a last moment takes it away */
    test_sql(fx, "DELETE FROM tenon.task");
    enqueue(fx->conn, "start_before => now() + interval '1 h'");
    enqueue(fx->conn, "payload => '{}'");
    assert_true(test_sql_bool(fx, "SELECT start_before IS NULL FROM tenon.task"));
}

/* What was committed later wins, though what came before it is settled after it. */
static void test_the_order_of_replacements(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    enqueue(fx->conn, "payload => '0', delay => '1 h'");
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', unique_key => 'k')");
    enqueue(fx->conn, "payload => '1', on_conflict => 'replace'");
    sql_run(other, "COMMIT");
    enqueue(fx->conn, "payload => '2', on_conflict => 'replace'");
    test_sql(fx, "SELECT tenon.settle()");
    assert_task(fx, "2 0 s ready");
    PQfinish(other);
}

/* Nobody reads or holds up what he may not enqueue. */
static void test_another_queue_of_a_confined_producer(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "INSERT INTO tenon.producer VALUES ('pg_monitor', '{low}')");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"card\": 1}', queue => 'high', unique_key => 'k')");
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', '{}', queue => 'low', unique_key => 'k',"
                   " on_conflict => 'merge')");
    assert_int_equal(sql_int(other, "SELECT count(*) FROM tenon.mine()"), 0);
    test_sql(fx, "SET lock_timeout = '1 s'; SELECT tenon.cancel(id) FROM tenon.task");
    sql_run(other, "ROLLBACK");
    PQfinish(other);
}

static void test_unique_for(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    static const char call[] = "SELECT tenon.enqueue('a', unique_key => 'k', unique_for => '1 h')";
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, call);
    assert_int_equal(test_sql_int(fx, call), id);
    assert_true(held_take(fx, worker, id, &c));
    assert_int_equal(test_sql_int(fx, call), id); /* and no other run */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_int_equal(test_sql_int(fx, call), id);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    /* another kind's key is another key */
    assert_int_not_equal(
        test_sql_int(fx, "SELECT tenon.enqueue('b', unique_key => 'k', unique_for => '1 h')"), id);
    /* who does not ask for it does not mind */
    assert_int_not_equal(test_sql_int(fx, "SELECT tenon.enqueue('a', unique_key => 'k')"), id);
    test_sql(fx, "DELETE FROM tenon.task; UPDATE tenon.unique_hold SET until = now()");
    int64_t next = test_sql_int(fx, call);
    assert_int_not_equal(next, id);
    test_sql(fx, "DELETE FROM tenon.task"); /* it ended */
    assert_int_equal(test_sql_int(fx, call), next);
    /* rolled back, it holds nothing */
    test_sql(fx, "DELETE FROM tenon.unique_hold");
    test_sql(fx, "BEGIN");
    test_sql(fx, call);
    test_sql(fx, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.unique_hold"), 0);
    test_sql(fx, call);
    test_sql(fx, "UPDATE tenon.unique_hold SET until = now() - interval '1 s'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(10)"), 1);
}

static void test_mine(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', '1')");
    test_sql(fx, "SELECT tenon.enqueue('a', '2')");
    test_sql(fx,
             "BEGIN; SELECT tenon.enqueue('a', '3'); SAVEPOINT s; SELECT tenon.enqueue('a', '4');"
             "SAVEPOINT t; SELECT tenon.enqueue('a', '5'); ROLLBACK TO t;"
             "SELECT tenon.enqueue_many('a', '{6,7}')");
    char *mine = test_sql_text(fx, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM"
                                   " tenon.mine()");
    assert_string_equal(mine, "3 4 6 7");
    free(mine);
    test_sql(fx, "ROLLBACK");
    sql_run(other, "ROLLBACK");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.mine()"), 0);
    PQfinish(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_an_unstarted_holder),
        WITH_DATABASE(test_debounce_ends),
        WITH_DATABASE(test_debounce_passes_nobody),
        WITH_DATABASE(test_a_row_that_cannot_be_stops_no_other),
        WITH_DATABASE(test_a_row_that_cannot_be_takes_nothing_in),
        WITH_DATABASE(test_bad_arguments),
        WITH_DATABASE(test_a_running_holder),
        WITH_DATABASE(test_a_hot_key),
        WITH_DATABASE(test_requests_join_each_other),
        WITH_DATABASE(test_an_open_transaction),
        WITH_DATABASE(test_an_unstarted_holder_waits_for_the_commit),
        WITH_DATABASE(test_another_role_changes_nothing),
        WITH_DATABASE(test_a_merge_that_is_too_large_is_a_task_of_its_own),
        WITH_DATABASE(test_requests_are_bounded),
        WITH_DATABASE(test_what_waits_stops_no_other),
        WITH_DATABASE(test_an_expired_holder),
        WITH_DATABASE(test_the_order_of_replacements),
        WITH_DATABASE(test_another_queue_of_a_confined_producer),
        WITH_DATABASE(test_unique_for),
        WITH_DATABASE(test_mine),
    };
    return RUN_GROUP(tests);
}
