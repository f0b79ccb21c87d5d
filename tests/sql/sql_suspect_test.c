/* label: sql */
/* timeout: 120 */
/* Suspects: which crash makes a task one, what it then waits for, and when that is over. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void requeue_is(struct fixture *fx, const struct held *c, const char *reason,
                       const char *state)
{
    char *got = held_requeue(fx, c, reason, "signal 9", NULL);
    assert_string_equal(got, state);
    free(got);
}

static void crash(struct fixture *fx, struct held *c)
{
    requeue_is(fx, c, "crashed", "ready");
    assert_true(held_take(fx, c->worker, c->id, c));
}

/* A task that has crashed twice, and waits for its turn. */
static void suspect_new(struct fixture *fx, struct held *c)
{
    test_sql(fx, "UPDATE tenon.worker SET ended_at = now()"); /* none has the turn */
    held_new(fx, c);
    crash(fx, c);
    requeue_is(fx, c, "crashed", "blocked");
}

static bool is_row(struct fixture *fx, const struct held *c, const char *that)
{
    return test_sql_bool(fx,
                         "SELECT EXISTS (SELECT FROM tenon.task t JOIN tenon.suspect s ON"
                         " s.task_id = t.id WHERE t.id = %lld AND %s)",
                         (long long)c->id, that);
}

static bool has_suspect_row(struct fixture *fx, const struct held *c)
{
    return is_row(fx, c, "true");
}

static void test_before_its_last_crash_it_is_a_suspect(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    assert_true(is_row(fx, &c,
                       "alone AND due_at <= now() AND run_at = 'infinity' AND NOT delayed"
                       " AND t.crashes = 2 AND s.claims IS NULL"));
    assert_state(fx, c.id, "blocked");
    assert_false(held_take(fx, c.worker, c.id, &c));
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)c.id);
    assert_contains(why, "It is suspected: it has crashed 2 times in a row; it runs alone next");
    free(why);
    assert_true(test_sql_bool(fx, "SELECT run_at <= now() FROM tenon.tasks"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.demand('default')"), 1);
}

static void test_the_run_alone_tells(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    assert_state(fx, c.id, "running");
    assert_true(is_row(fx, &c, "t.claims = s.claims AND run_at <= now()"));
    requeue_is(fx, &c, "crashed", "dead");
    assert_true(test_sql_bool(fx, "SELECT reason = 'crashes' AND crashes = 3 AND isfinite(run_at)"
                                  " FROM tenon.dead"));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.suspect)"));
    suspect_new(fx, &c);
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.suspect)"));
}

/* One that is put off by itself has shown that it can answer; its next crash makes it a suspect. */
static void test_what_it_stays(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "released", "blocked");
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "failed", "blocked");
    assert_true(is_row(fx, &c, "alone AND due_at > now() + interval '10 s'"));
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": [%lld]}', '{\"run_at\": \"now\"}')",
             (long long)c.id);
    assert_true(is_row(fx, &c, "alone AND due_at <= now() AND run_at = 'infinity'"));
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "snooze", "ready");
    assert_true(held_take(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "crashed", "blocked"); /* it was not alone, and so it is not dead */
    assert_true(is_row(fx, &c, "alone AND s.crashes = 3"));
}

static void test_a_step_or_progress_begins_the_count_again(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char claim[HELD_TEXT_BYTES];
    held_new(fx, &c);
    for (int i = 0; i < 10; i++) {
        held_text(&c, claim);
        test_sql(fx,
                 i % 2 ? "SELECT tenon.progress('%s', '%d')"
                       : "SELECT tenon.step('%s', 'step %d', '1')",
                 claim, i);
        crash(fx, &c);
    }
    assert_true(is_row(fx, &c, "t.crashes = 10 AND s.crashes = 1 AND NOT alone"));
    requeue_is(fx, &c, "crashed", "blocked");
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.progress('%s', '\"on\"')", claim);
    requeue_is(fx, &c, "crashed", "ready"); /* alone, and it got on */
}

static void test_max_crashes(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    test_sql(fx, "SELECT tenon.set_kind('a', max_crashes => 2)");
    held_new(fx, &c);
    requeue_is(fx, &c, "crashed", "blocked");
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "crashed", "dead");
    test_sql(fx, "UPDATE tenon.worker SET ended_at = now()");
    held_new(fx, &c);
    requeue_is(fx, &c, "released", "ready");
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": [%lld]}', '{\"max_crashes\": 4}')",
             (long long)c.id);
    assert_true(held_take(fx, c.worker, c.id, &c));
    crash(fx, &c);
    crash(fx, &c);
    requeue_is(fx, &c, "crashed", "blocked");
    assert_true(held_take_alone(fx, c.worker, c.id, &c));
    requeue_is(fx, &c, "crashed", "dead");
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": [%lld]}')", (long long)c.id);
    assert_true(test_sql_bool(fx, "SELECT max_crashes = 4 AND crashes = 0 FROM tenon.task"));
    static const char *const bad[] = {"1", "101", "-1", "\"many\"", "2.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (i < 3) { /* the others are no integers */
            test_sql_fails(fx, "22023", "max_crashes|2 to 100",
                           "SELECT tenon.set_kind('a', max_crashes => %s)", bad[i]);
        }
        test_sql_fails(fx, "22023", "max_crashes|2 to 100",
                       "SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"max_crashes\": %s}')",
                       bad[i]);
    }
}

static bool takes_turn(struct fixture *fx, const char *worker)
{
    return test_sql_bool(fx, "SELECT tenon.take_turn('%s', '{default}', '{a,b,mail}')", worker);
}

/* Half of the workers, and one at least; the dead, and those of other kinds, do not count. */
static void test_half_of_the_workers_have_the_turn(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char w[5][UUID_BYTES];
    held_new(fx, &c);
    assert_false(takes_turn(fx, c.worker)); /* there is no suspect */
    crash(fx, &c);
    requeue_is(fx, &c, "crashed", "blocked");
    assert_true(takes_turn(fx, c.worker)); /* the only one */
    assert_true(takes_turn(fx, c.worker)); /* which may ask again */
    for (int i = 0; i < 5; i++) {
        worker_make(fx, w[i]);
    }
    assert_true(takes_turn(fx, w[0]));
    assert_true(takes_turn(fx, w[1]));
    assert_false(takes_turn(fx, w[2])); /* three of six have it */
    test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now() WHERE id = '%s'", w[0]);
    assert_false(takes_turn(fx, w[2])); /* two of five */
    test_sql(fx, "UPDATE tenon.worker SET kinds = '{b}' WHERE id = '%s'", w[4]);
    test_sql(fx, "UPDATE tenon.worker SET alone_since = NULL WHERE id = '%s'", w[1]);
    assert_true(takes_turn(fx, w[2])); /* one of four */
    assert_false(takes_turn(fx, w[0]));
    assert_true(held_take_alone(fx, w[2], c.id, &c));
    assert_false(takes_turn(fx, w[3])); /* it runs */
}

static void test_without_the_turn_it_is_not_claimed(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    const char *const params[] = {c.worker, "{default}", "{a}"};
    PGresult *result = statement_run(fx->conn, &sql_claim_alone, params, 3);
    assert_int_equal(PQntuples(result), 0);
    PQclear(result);
    test_sql(fx, "SELECT tenon.pause(queue => 'default')");
    assert_false(held_take_alone(fx, c.worker, c.id, &c));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.demand('default')"), 0);
    test_sql(fx, "SELECT tenon.resume(queue => 'default')");
    test_sql(fx, "UPDATE tenon.task SET start_before = now()");
    assert_false(held_take_alone(fx, c.worker, c.id, &c));
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(test_sql_bool(fx, "SELECT outcome = 'expired' AND isfinite(run_at)"
                                  " FROM tenon.history"));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.suspect)"));
}

/* It starts at the moment by which start_before was judged. */
static void test_its_claim_is_one_moment(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    assert_true(takes_turn(fx, c.worker));
    assert_true(test_sql_bool(fx,
                              "SELECT start_time = statement_timestamp() FROM"
                              " tenon.claim_alone('%s', '{default}', '{a}')",
                              c.worker));
}

static void test_cancel_and_unique_key(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    suspect_new(fx, &c);
    test_sql(fx, "UPDATE tenon.task SET unique_key = 'k'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.enqueue('a', '2', unique_key => 'k',"
                                      " on_conflict => 'replace')"),
                     c.id);
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(is_row(fx, &c, "run_at = 'infinity' AND wanted_at IS NULL AND payload <> '2'"));
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": [%lld]}', '{\"priority\": 9}')",
             (long long)c.id);
    assert_true(is_row(fx, &c, "run_at = 'infinity' AND priority = 9 AND NOT delayed"));
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)c.id));
    assert_false(has_suspect_row(fx, &c));
    assert_true(test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.suspect) AND"
                                  " (SELECT isfinite(run_at) FROM tenon.history)"));
    test_sql(fx, "SELECT tenon.settle()"); /* what was enqueued under its key comes now */
    assert_true(test_sql_bool(fx, "SELECT payload = '2' AND run_at <= now() FROM tenon.task"));
}

/* Its limits let it go first, and count it from then on. */
static void test_limits(void **state)
{
    struct fixture *fx = *state;
    struct held c = {0}, other;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('l', max_running => 1)");
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '1', limit_keys => '{l}')");
    for (int i = 0; i < 2; i++) {
        test_sql(fx, "SELECT tenon.settle()");
        assert_true(held_take(fx, worker, id, &c));
        requeue_is(fx, &c, "crashed", "blocked");
    }
    assert_true(is_row(fx, &c, "alone AND due_at IS NULL AND wanted_at IS NOT NULL"));
    assert_false(takes_turn(fx, worker));
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(is_row(fx, &c, "due_at IS NOT NULL AND wanted_at IS NULL AND run_at = 'infinity'"));
    int64_t next = test_sql_int(fx, "SELECT tenon.enqueue('a', '1', limit_keys => '{l}')");
    test_sql(fx, "SELECT tenon.settle()");
    assert_false(held_take(fx, worker, next, &other)); /* the suspect has the only place */
    assert_true(held_take_alone(fx, worker, id, &c));
    test_sql(fx, "SELECT tenon.settle()");
    assert_false(held_take(fx, worker, next, &other));
    requeue_is(fx, &c, "crashed", "dead");
    test_sql(fx, "SELECT tenon.settle()");
    assert_true(held_take(fx, worker, next, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_before_its_last_crash_it_is_a_suspect),
        WITH_DATABASE(test_the_run_alone_tells),
        WITH_DATABASE(test_what_it_stays),
        WITH_DATABASE(test_a_step_or_progress_begins_the_count_again),
        WITH_DATABASE(test_max_crashes),
        WITH_DATABASE(test_half_of_the_workers_have_the_turn),
        WITH_DATABASE(test_without_the_turn_it_is_not_claimed),
        WITH_DATABASE(test_its_claim_is_one_moment),
        WITH_DATABASE(test_cancel_and_unique_key),
        WITH_DATABASE(test_limits),
    };
    return RUN_GROUP(tests);
}
