/* label: sql */
/* Limits by their statements: tasks with several keys, which wait in one line at a time; and keys
 * that take turns. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>

/* Until nothing is left to settle. */
static void settle(struct fixture *fx)
{
    while (test_sql_int(fx, "SELECT tenon.settle()") > 0) {
    }
}

/* After settling, the ids of those that may start or run. */
static void assert_free(struct fixture *fx, const char *want)
{
    settle(fx);
    char *got = test_sql_text(fx, "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM"
                                  " tenon.tasks WHERE state IN ('ready', 'running')");
    assert_string_equal(got, want);
    free(got);
}

static void enqueue(struct fixture *fx, const char *keys, int n)
{
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '%s') FROM generate_series(1, %d)", keys,
             n);
}

static void finish(struct fixture *fx, const char *worker, int64_t id)
{
    struct held c;
    assert_true(held_take(fx, worker, id, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
}

/* --- several keys ----------------------------------------------------------------------------- */

/* A backlog of a key does not wander into the line of another that is paused, and those with one
 * key only go on. */
static void test_a_backlog_does_not_wander(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 3); SELECT tenon.pause_limit('paid');"
                 "SELECT tenon.enqueue_many('a', array_fill('{}'::text, '{2000}'), limit_keys =>"
                 " '{paid,t:1}')");
    enqueue(fx, "{t:1}", 2);
    settle(fx);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.limit_task WHERE state = 'parked'"),
                     103);
    test_sql(fx, "SELECT tenon.resume_limit('paid')");
    assert_free(fx, "1 2 3");
    finish(fx, worker, 2);
    assert_free(fx, "1 3 4");
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task WHERE state = 'parked'") <=
                103);
}

/* A task with several keys waits for one of them at a time and holds none meanwhile. */
static void test_several_keys(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('all', max_running => 2); SELECT tenon.set_limit('t',"
                 " max_running => 1)");
    enqueue(fx, "{all,t:1}", 50); /* the wide one first: the worst order */
    enqueue(fx, "{all,t:2}", 2);
    enqueue(fx, "{t:1}", 1);
    enqueue(fx, "{t:2,all}", 1);
    assert_free(fx, "1 51"); /* in the line of t:1 and t:2 first */
    for (int i = 0; i < 54; i++) {
        finish(fx, worker, test_sql_int(fx, "SELECT min(id) FROM tenon.ready"));
        settle(fx);
        assert_true(
            test_sql_bool(fx,
                          "SELECT bool_and(ready <= coalesce(max_running, 99)) FROM tenon.limits"));
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task"), 0);
}

/* As many keys as there may be: whichever of them is full stops a task, also the last one, and
 * while it is stopped it holds nothing of the others. */
static void test_four_keys(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(
        fx,
        "SELECT tenon.set_limit('a', max_running => 9), tenon.set_limit('b', max_running => 8),"
        " tenon.set_limit('c', max_starts => 5, per => '1 h'), tenon.set_limit('d', max_running =>"
        " 7)");
    enqueue(fx, "{d}", 6);       /* of the fourth one is left */
    enqueue(fx, "{a,b,c,d}", 3); /* 7 to 9 */
    enqueue(fx, "{a,b,c}", 1);   /* 10 */
    assert_free(fx, "1 2 3 4 5 6 7 10");
    assert_true(test_sql_bool(fx, "SELECT string_agg(key || ready, ' ' ORDER BY key) = 'a2 b2 c2"
                                  " d7' FROM tenon.limits"));
    char *why = test_sql_text(fx, "SELECT tenon.why(8)");
    assert_contains(why, "waits for the limit d (7 at once, 7 taken)");
    free(why);
    finish(fx, worker, 1);
    assert_free(fx, "2 3 4 5 6 7 8 10");
    finish(fx, worker, 7);
    assert_free(fx, "2 3 4 5 6 8 9 10");
    enqueue(fx, "{d,c,b,a}", 3); /* 11 to 13: of the rate one is left, of the fourth none */
    finish(fx, worker, 2);
    assert_free(fx, "3 4 5 6 8 9 10 11");
    finish(fx, worker, 3);
    assert_free(fx, "4 5 6 8 9 10 11"); /* now the rate stops them */
    test_sql(fx, "SELECT tenon.set_limit('c')");
    assert_free(fx, "4 5 6 8 9 10 11 12");
    for (int n = 9; n > 0; n--) {
        finish(fx, worker, test_sql_int(fx, "SELECT min(id) FROM tenon.ready"));
        settle(fx);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task"), 0);
}

/* --- turns ------------------------------------------------------------------------------------ */

/* The 8 that are let go ahead, with no worker at all, are shared. */
static void test_fair(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.set_limit('t', fair => true); SELECT tenon.set_limit('t:3', weight => 2)");
    enqueue(fx, "{t:1}", 1000);
    assert_free(fx, "1 2 3 4 5 6 7 8"); /* alone, it gets all */
    enqueue(fx, "{t:2}", 10);
    enqueue(fx, "{t:3}", 10);
    test_sql(fx, "DELETE FROM tenon.task WHERE id <= 8 RETURNING tenon.record_end_of(task)");
    settle(fx);
    char *got = test_sql_text(fx, "SELECT string_agg(key || ' ' || ready, ', ' ORDER BY key) FROM"
                                  " tenon.limits WHERE key LIKE 't:%%'");
    assert_string_equal(got, "t:1 3, t:2 2, t:3 3");
    free(got);
    /* one that has reached a limit of its own leaves the rest to others */
    test_sql(fx, "SELECT tenon.set_limit('t:1', max_running => 3);"
                 "DELETE FROM tenon.task WHERE run_at < 'infinity' AND limit_keys <> '{t:1}'"
                 " RETURNING tenon.record_end_of(task)");
    settle(fx);
    got = test_sql_text(fx, "SELECT string_agg(key || ' ' || ready, ', ' ORDER BY key) FROM"
                            " tenon.limits WHERE key LIKE 't:%%'");
    assert_string_equal(got, "t:1 3, t:2 1, t:3 4");
    free(got);
    /* and when the others are through it has all that it may */
    test_sql(fx, "SELECT tenon.set_limit('t:1'); DELETE FROM tenon.task WHERE limit_keys <> '{t:1}'"
                 " RETURNING tenon.record_end_of(task)");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.limits WHERE key = 't:1'"), 8);
    test_sql(fx, "DELETE FROM tenon.task RETURNING tenon.record_end_of(task)");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_turn"), 0);
}

/* The one that would start first ends: another can be let go. */
static void end_one(struct fixture *fx)
{
    test_sql(fx, "DELETE FROM tenon.task WHERE id = (SELECT id FROM tenon.ready ORDER BY run_at, id"
                 " LIMIT 1) RETURNING tenon.record_end_of(task)");
}

/* Keys that are new each time, with a task each, do not come before one that waits for ever. */
static void test_new_keys_wait_for_the_next_round(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', fair => true)");
    enqueue(fx, "{t:z}", 40);
    settle(fx);
    for (int i = 0; i < 24; i++) {
        end_one(fx);
        test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{t:%d}')", i);
        settle(fx);
    }
    /* 8 before the others came; then each round has one more of them */
    int64_t n = 40 - 8 -
                test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE limit_keys = '{t:z}' AND"
                                 " wanted_at IS NOT NULL");
    if (n < 4) {
        fail_msg("24 times one was let go, and %lld times it was the key that waits", (long long)n);
    }
}

/* What a key had while nobody shared with it is not held against it when others come. */
static void test_a_key_that_was_alone(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.set_limit('t', fair => true); SELECT tenon.set_limit('t:1', max_running"
             " => 1)");
    enqueue(fx, "{t:1}", 30);
    settle(fx);
    for (int i = 0; i < 20; i++) {
        end_one(fx);
        settle(fx);
    }
    for (int i = 0; i < 2; i++) { /* behind the first of these nobody waits for a turn */
        enqueue(fx, "{t:2}", 1 + 40 * i);
        settle(fx);
    }
    for (int i = 0; i < 3; i++) { /* of t:1 and of t:2, which had all other places */
        end_one(fx);
        settle(fx);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready WHERE id <= 30"), 1);
}

/* Ten tasks behind 100,000 of another: who is let go when slots get free one after the other. */
static void test_a_hundred_thousand_of_one(void **state)
{
    enum { BACKLOG = 100000, TEN = 10 };
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.set_limit('t', fair => true);"
             "SELECT tenon.enqueue_many('a', array_fill('{}'::text, '{%d}'), limit_keys =>"
             " '{t:1}')",
             BACKLOG);
    settle(fx);
    enqueue(fx, "{t:2}", TEN);
    for (int i = 0; i < TEN * 2 + 1; i++) { /* its first turn is in the next round */
        end_one(fx);
        settle(fx);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task WHERE key = 't:2' AND"
                                      " state = 'waits'"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_several_keys),
        WITH_DATABASE(test_a_backlog_does_not_wander),
        WITH_DATABASE(test_four_keys),
        WITH_DATABASE(test_fair),
        WITH_DATABASE(test_new_keys_wait_for_the_next_round),
        WITH_DATABASE(test_a_key_that_was_alone),
        WITH_DATABASE(test_a_hundred_thousand_of_one),
    };
    return RUN_GROUP(tests);
}
