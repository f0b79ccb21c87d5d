/* label: sql */
/* Limits by their statements: what tenon.settle() lets go, in which order, and what it keeps. */
#include "tests/support/held.h"
#include "tests/support/process.h"

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

static void take(struct fixture *fx, const char *worker, int64_t id, struct held *c)
{
    if (!held_take(fx, worker, id, c)) {
        fail_msg("task %lld is not to be had", (long long)id);
    }
}

static void finish(struct fixture *fx, const char *worker, int64_t id)
{
    struct held c;
    take(fx, worker, id, &c);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
}

static void requeue(struct fixture *fx, const struct held *c, const char *reason, const char *delay,
                    const char *want)
{
    char *got = held_requeue(fx, c, reason, "x", delay);
    assert_string_equal(got, want);
    free(got);
}

/* Whatever ends a task, or requeues it, there are two. */
static void test_so_many_at_once(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 2)");
    enqueue(fx, "{t:1}", 9);
    enqueue(fx, "{t:2}", 1); /* each key has its own two */
    enqueue(fx, "{u}", 3);   /* and one without a limit any number */
    assert_free(fx, "1 2 10 11 12 13");
    finish(fx, worker, 1);
    assert_free(fx, "2 3 10 11 12 13");
    take(fx, worker, 2, &c);
    requeue(fx, &c, "dead", NULL, "dead");
    assert_free(fx, "3 4 10 11 12 13");
    test_sql(fx, "SELECT tenon.cancel(3)");
    assert_free(fx, "4 5 10 11 12 13");
    take(fx, worker, 4, &c);
    requeue(fx, &c, "failed", "3600000", "blocked");
    assert_free(fx, "5 6 10 11 12 13");
    take(fx, worker, 5, &c);
    requeue(fx, &c, "crashed", NULL, "blocked"); /* it keeps its place, but for that of 6 */
    assert_free(fx, "5 6 10 11 12 13");
    test_sql(fx, "UPDATE tenon.task SET start_before = now() WHERE id = 6");
    assert_free(fx, "5 7 10 11 12 13");
    test_sql(
        fx, "SELECT tenon.set_where('{\"ids\": 4}', jsonb_build_object('run_at', now(), 'priority',"
            " 9))");
    test_sql(fx, "SELECT tenon.cancel(5)");
    assert_free(fx, "4 7 10 11 12 13");
    assert_true(test_sql_bool(fx,
                              "SELECT max_running = 2 AND running = 0 AND ready = 2 AND waiting = 2"
                              " AND rule = 't' FROM tenon.limits WHERE key = 't:1'"));
    test_sql(fx, "SELECT tenon.cancel_where('{\"kind\": \"a\"}')");
    assert_free(fx, "");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_event"), 0);
    assert_true(test_sql_bool(fx, "SELECT tenon.limits_due_ms() IS NULL"));
}

/* A retried task is limited again, also one whose end nobody has looked at yet. */
static void test_retried(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1)");
    enqueue(fx, "{t}", 2);
    assert_free(fx, "1");
    take(fx, worker, 1, &c);
    requeue(fx, &c, "dead", NULL, "dead");
    test_sql(fx, "SELECT tenon.cancel(2); SELECT tenon.retry_where('{\"ids\": [1, 2]}')");
    assert_free(fx, "1");
    finish(fx, worker, 1);
    assert_free(fx, "2");
    finish(fx, worker, 2);
    assert_free(fx, "");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_task"), 0);
}

/* The handler of a task that is cancelled while it runs may run until its worker has seen it. */
static void test_cancelled_while_it_runs(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1)");
    enqueue(fx, "{t}", 2);
    assert_free(fx, "1");
    take(fx, worker, 1, &c);
    test_sql(fx, "SELECT tenon.cancel(1)");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"ids\": 1}')"), 0);
    assert_free(fx, "");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"ids\": 1}')"), 0);
    assert_true(test_sql_bool(fx, "SELECT running = 1 FROM tenon.limits WHERE key = 't'"));
    char *why = test_sql_text(fx, "SELECT tenon.why(2)");
    assert_contains(why, "(1 at once, 1 taken, 1 of them cancelled, counted until ");
    assert_contains(why, " UTC), behind 0 tasks.");
    free(why);
    test_sql(fx, "UPDATE tenon.limit_task SET wanted_at = now() WHERE state = 'ending'");
    assert_free(fx, "2");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"ids\": 1}')"), 1);
    assert_free(fx, "2");
}

/* Its worker cannot see it before the commit, however late that is. */
static void test_cancelled_in_a_long_transaction(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1)");
    enqueue(fx, "{t}", 2);
    assert_free(fx, "1");
    take(fx, worker, 1, &c);
    test_sql(fx,
             "SELECT tenon.cancel(1); UPDATE tenon.limit_event SET hold_until = now() - interval"
             " '1 min' WHERE hold_until IS NOT NULL"); /* a minute and 45 s ago */
    assert_free(fx, "");
    assert_true(test_sql_bool(fx, "SELECT wanted_at > now() + interval '40 s' FROM tenon.limit_task"
                                  " WHERE state = 'ending'"));
}

/* What was let go and has not started may start at any moment: it counts until it has. */
static void test_so_many_starts(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_starts => 3, per => '1 h')");
    enqueue(fx, "{t}", 9);
    assert_free(fx, "1 2 3");
    assert_true(test_sql_bool(fx, "SELECT tenon.limits_due_ms() BETWEEN 3500000 AND 3600000"));
    test_sql(fx, "UPDATE tenon.limit_due SET due_at = now()"); /* time alone gives nothing */
    assert_free(fx, "1 2 3");
    finish(fx, worker, 1);
    take(fx, worker, 2, &c);
    requeue(fx, &c, "failed", "0", "blocked"); /* its next start is another one */
    assert_free(fx, "3");
    test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '50 min'");
    take(fx, worker, 3, &c);
    test_sql(fx, "UPDATE tenon.limit_due SET due_at = now()");
    assert_free(fx, "3");
    /* the first two starts are over an hour old: two more */
    test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '20 min';"
                 "UPDATE tenon.limit_due SET due_at = now()");
    assert_free(fx, "2 3 4");
    /* and one that runs for longer than the time counts no more */
    test_sql(fx, "UPDATE tenon.task SET start_time = start_time - interval '2 h' WHERE id = 3;"
                 "UPDATE tenon.limit_due SET due_at = now()");
    assert_free(fx, "2 3 4 5");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start WHERE at > now() -"
                                      " interval '1 h'"),
                     0);
}

/* One after the other in the order of ids, whatever their priority, run_at and failures. */
static void test_strict(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('o', strict => true);"
                 "SELECT tenon.enqueue('a', limit_keys => '{o:1}');"
                 "SELECT tenon.enqueue('a', limit_keys => '{o:1}', delay => '1 h');"
                 "SELECT tenon.enqueue('a', limit_keys => '{o:1}', priority => 9);"
                 "SELECT tenon.enqueue('a', limit_keys => '{o:1}');"
                 "SELECT tenon.enqueue('a', limit_keys => '{o:2}')");
    assert_free(fx, "1 5");
    take(fx, worker, 1, &c);
    requeue(fx, &c, "failed", "3600000", "blocked");
    assert_free(fx, "5"); /* it keeps its place */
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": 1}', jsonb_build_object('run_at', now()))");
    assert_free(fx, "1 5");
    finish(fx, worker, 1);
    assert_free(fx, "5"); /* 2 is not due */
    test_sql(fx, "SELECT tenon.set_where('{\"ids\": 2}', jsonb_build_object('run_at', now()))");
    assert_free(fx, "2 5");
    test_sql(fx, "SELECT tenon.cancel(2)");
    assert_free(fx, "3 5");
    /* a dead one blocks, until it is retried or deleted; or it is skipped */
    take(fx, worker, 3, &c);
    requeue(fx, &c, "dead", NULL, "dead");
    assert_free(fx, "5");
    char *why = test_sql_text(fx, "SELECT tenon.why(4)");
    assert_contains(why, "the dead task 3 blocks them");
    free(why);
    test_sql(fx, "SELECT tenon.retry_where('{\"ids\": 3}')");
    assert_free(fx, "3 5");
    take(fx, worker, 3, &c);
    requeue(fx, &c, "dead", NULL, "dead");
    settle(fx);
    test_sql(fx, "SELECT tenon.delete_where('{\"ids\": 3}')");
    assert_free(fx, "4 5");
    test_sql(fx, "SELECT tenon.set_limit('o', strict => true, when_dead => 'skip')");
    enqueue(fx, "{o:1}", 1);
    take(fx, worker, 4, &c);
    requeue(fx, &c, "dead", NULL, "dead");
    assert_free(fx, "5 6");
}

/* In the order of ids among what is committed when it is looked at. */
static void test_strict_and_late_commits(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    PGconn *late = sql_connect(fx->database_url), *gone = sql_connect(fx->database_url);
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('o', strict => true)");
    sql_run(late, "BEGIN; SELECT tenon.enqueue('a', limit_keys => '{o}')");
    sql_run(gone, "BEGIN; SELECT tenon.enqueue('a', limit_keys => '{o}')");
    enqueue(fx, "{o}", 2);
    assert_free(fx, "3");
    sql_run(late, "COMMIT");
    sql_run(gone, "ROLLBACK");
    assert_free(fx, "3");
    finish(fx, worker, 3);
    assert_free(fx, "1");
    finish(fx, worker, 1);
    assert_free(fx, "4");
    PQfinish(late);
    PQfinish(gone);
}

/* A key takes what its own row leaves open from that of its part before the colon. */
static void test_exceptions_and_pauses(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.set_limit('t:1', max_running => 3, until => now() + interval '1 h');"
                 "SELECT tenon.pause_limit('t:2', 'they asked')");
    enqueue(fx, "{t:1}", 4);
    enqueue(fx, "{t:2}", 2);
    assert_free(fx, "1 2 3");
    test_sql(fx, "SELECT pg_advisory_lock(leader_key) FROM tenon.setting"); /* a cleaner leads */
    char *why = test_sql_text(fx, "SELECT tenon.why(5)");
    assert_contains(why, "waits for the limit t:2 (it is paused by ");
    assert_contains(why, "they asked");
    assert_contains(why, "tenon limit resume t:2");
    free(why);
    assert_true(test_sql_bool(fx, "SELECT tenon.resume_limit('t:2')"));
    assert_false(test_sql_bool(fx, "SELECT tenon.resume_limit('t:2')"));
    assert_free(fx, "1 2 3 5");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit WHERE name = 't:2'"), 0);
    test_sql(fx, "UPDATE tenon.limit SET until = now() WHERE name = 't:1';"
                 "DELETE FROM tenon.task WHERE id < 3 RETURNING tenon.record_end_of(task)");
    assert_free(fx, "3 5");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit WHERE name = 't:1'"), 0);
    assert_true(test_sql_bool(fx, "SELECT tenon.remove_limit('t')"));
    assert_free(fx, "3 4 5 6");
    assert_false(test_sql_bool(fx, "SELECT tenon.remove_limit('t')"));
    char *acts = test_sql_text(fx, "SELECT string_agg(act, ' ' ORDER BY id) FROM tenon.audit");
    assert_string_equal(acts, "set_limit set_limit pause_limit resume_limit remove_limit");
    free(acts);
}

/* A limit of a kind or a queue holds for all that is enqueued from then on, by whatever way. */
static void test_kinds_and_queues(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.enqueue('mail');"
                 "SELECT tenon.set_limit('kind/mail', max_running => 1);"
                 "SELECT tenon.set_limit('queue/default', max_running => 2);"
                 "UPDATE tenon.setting SET on_dead = 'mail'");
    test_sql(fx,
             "SELECT tenon.enqueue('mail'); SELECT tenon.enqueue_many('mail', ARRAY['{}', '{}']);"
             "SELECT tenon.enqueue('a'); SELECT tenon.enqueue('a', limit_keys => '{x}')");
    assert_free(fx, "1 2 5");
    take(fx, worker, 5, &c);
    requeue(fx, &c, "dead", NULL, "dead"); /* and what compensates it */
    assert_free(fx, "1 2 6");
    assert_true(test_sql_bool(
        fx, "SELECT limit_keys = '{kind/mail,queue/default}' FROM tenon.tasks WHERE id = 7"));
    finish(fx, worker, 2);
    assert_free(fx, "1 3 6");
    test_sql(fx, "SELECT tenon.close(tenon.batch(on_done => 'mail'))"); /* its callback is 8 */
    assert_free(fx, "1 3 6");
    assert_true(test_sql_bool(fx, "SELECT waiting = 3 FROM tenon.limits WHERE key = 'kind/mail'"));
    test_sql(fx, "SELECT tenon.cancel(8)");
    settle(fx);
    test_sql(fx,
             "SELECT tenon.remove_limit('kind/mail'); SELECT tenon.remove_limit('queue/default');"
             "SELECT tenon.enqueue('mail')");
    assert_free(fx, "1 3 4 6 7 9");
    assert_true(test_sql_bool(fx, "SELECT limit_keys IS NULL FROM tenon.tasks WHERE id = 9"));
    test_sql(fx, "SELECT tenon.set_limit('kind/sms', max_starts => 2, per => '1 h');"
                 "SELECT tenon.enqueue('sms') FROM generate_series(1, 3)");
    assert_free(fx, "1 3 4 6 7 9 10 11");
}

/* A task with parents enters the line of its keys when they are done; and a flow that is cancelled
 * lets its running handlers end first. */
static void test_flows(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    struct held c;
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.flow('{\"tasks\": [{\"kind\": \"a\", \"name\": \"p\"},"
                 " {\"kind\": \"a\", \"depends_on\": [\"p\"], \"limit_keys\": [\"t\"]},"
                 " {\"kind\": \"a\", \"depends_on\": [\"p\"], \"limit_keys\": [\"t\"]}]}');"
                 "SELECT tenon.enqueue('a', limit_keys => '{t}')");
    assert_free(fx, "1 4");
    finish(fx, worker, 1);
    assert_free(fx, "4");
    finish(fx, worker, 4);
    assert_free(fx, "2");
    take(fx, worker, 2, &c);
    enqueue(fx, "{t}", 1);
    test_sql(fx, "SELECT tenon.cancel_flow(id) FROM tenon.flow");
    assert_free(fx, "");
    test_sql(fx, "UPDATE tenon.limit_task SET wanted_at = now() WHERE state = 'ending'");
    assert_free(fx, "5");
}

/* What handlers take themselves, and the starts of tasks, are one. */
static void test_take_limit(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "SELECT tenon.set_limit('s', max_starts => 5, per => '1 h')");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 3)"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('free', 10000)"), 0);
    enqueue(fx, "{s:1}", 4);
    assert_free(fx, "1 2");
    assert_true(test_sql_int(fx, "SELECT tenon.take_limit('s:1')") > 3590000);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:2', 5)"), 0); /* its own */
    test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '2 h'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1', 3)"), 0);
    assert_int_equal(
        test_sql_int(fx, "SELECT sum(n) FROM tenon.limit_start WHERE at > now() - interval '1 h'"),
        3);
    /* while somebody's transaction is open nobody else gets anything, and why says so */
    sql_run(other, "BEGIN; SELECT tenon.take_limit('s:3')");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.take_limit('s:1')"), 100);
    enqueue(fx, "{s:3}", 5);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.limits WHERE key = 's:3'"), 0);
    char *why = test_sql_text(fx, "SELECT tenon.why(5)");
    assert_contains(why, "another transaction has locked the limit s");
    free(why);
    sql_run(other, "COMMIT");
    test_await(
        fx, 10000,
        "SELECT tenon.settle() >= 0 AND ready = 4, ready FROM tenon.limits WHERE key = 's:3'");
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    sql_fails(other, "55000", "repeatable read|READ COMMITTED transaction of its own",
              "SELECT tenon.take_limit('s:1')");
    PQfinish(other);
}

/* What a rate does not count any more goes with the next take of its key; and whoever settles does
 * not wait for a take that somebody has not committed. */
static void test_takes_leave_nothing(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    PGconn *other = sql_connect(fx->database_url);
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.set_limit('s', max_starts => 10, per => '1 h')");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(test_sql_int(fx, "SELECT sum(tenon.take_limit('s:1')) FROM"
                                          " generate_series(1, 10)"),
                         0);
        test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '2 h'");
    }
    int64_t left = test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start");
    if (left > 20) {
        fail_msg("%lld rows are left of 1000 takes", (long long)left);
    }
    enqueue(fx, "{s:1}", 1);
    assert_free(fx, "1");
    sql_run(other, "BEGIN; SELECT tenon.take_limit('s:1')");
    finish(fx, worker, 1);
    test_sql(fx, "SET lock_timeout = '1 s'");
    assert_true(test_sql_int(fx, "SELECT tenon.settle()") > 0);
    sql_run(other, "COMMIT");
    PQfinish(other);
}

/* Two that settle at once, with a stale snapshot even, let no more go than one. */
static void test_two_settle(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1)");
    enqueue(fx, "{t:1}", 3);
    sql_run(other, "BEGIN; SELECT tenon.settle()");
    enqueue(fx, "{t:2}", 3);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    sql_run(other, "COMMIT");
    assert_free(fx, "1 4");
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    test_sql(fx, "DELETE FROM tenon.task WHERE id = 1 RETURNING tenon.record_end_of(task)");
    assert_free(fx, "2 4");
    sql_run(other, "SELECT tenon.settle(); COMMIT");
    assert_free(fx, "2 4");
    /* a task that somebody has locked is passed over, and tried again soon */
    sql_run(other, "BEGIN; SELECT tenon.cancel(3)");
    test_sql(fx, "DELETE FROM tenon.task WHERE id = 2 RETURNING tenon.record_end_of(task)");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 1);
    sql_run(other, "ROLLBACK");
    test_await(fx, 10000,
               "SELECT tenon.settle() >= 0 AND count(*) = 1 FROM tenon.ready WHERE id = 3");
    PQfinish(other);
}

static void test_bad_arguments(void **state)
{
    static const struct {
        const char *call, *says;
    } bad[] = {
        {"enqueue('a', limit_keys => '{a,b,c,d,e}')", "limit_keys|1 to 4 keys"},
        {"enqueue('a', limit_keys => '{\"a b\"}')", "limit_keys 'a b'|without spaces"},
        {"enqueue('a', limit_keys => '{NULL}')", "limit_keys NULL"},
        {"enqueue('a', limit_keys => '{kind/a}')", "limit_keys 'kind/a'|kind/ or queue/"},
        {"enqueue_many('a', ARRAY['{}'], limit_keys => '{queue/a}')", "limit_keys 'queue/a'"},
        {"set_limit('a b')", "name 'a b'"},
        {"set_limit('queue/A')", "queue 'A'"},
        {"set_limit('kind/')", "kind ''"},
        {"set_limit('a', max_running => 0)", "max_running 0|pause the limit"},
        {"set_limit('a', max_starts => 0, per => '1 s')", "max_starts 0|1 to 10000"},
        {"set_limit('a', max_starts => 1)", "max_starts and per are given one without the other"},
        {"set_limit('a', per => '1 s')", "max_starts and per"},
        {"set_limit('a', max_starts => 1, per => '32 days')", "per 32 days"},
        {"set_limit('a', weight => 0)", "weight 0"},
        {"set_limit('a', until => now())", "until|in the future"},
        {"set_limit('a', when_dead => 'drop')", "when_dead 'drop'|block or skip"},
        {"take_limit('a', 0)", "n 0|1 to 10000"},
        {"take_limit('a b')", "limit_keys 'a b'"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_sql_fails(fx, "22023", bad[i].says, "SELECT tenon.%s", bad[i].call);
    }
    test_sql(fx, "SELECT tenon.enqueue('a', limit_keys => '{a,b,a}');"
                 "SELECT tenon.enqueue('a', limit_keys => '{}')");
    assert_true(test_sql_bool(fx, "SELECT limit_keys = '{a,b}' FROM tenon.task WHERE id = 1"));
    assert_true(test_sql_bool(fx, "SELECT limit_keys IS NULL FROM tenon.task WHERE id = 2"));
}

/* 20,000 that wait at one key are not read for another: few rows are. */
static void test_others_cost_nothing(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.set_limit('full', max_running => 1);"
        "SELECT tenon.enqueue_many('a', array_fill('{}'::text, '{20000}'), limit_keys => '{full}');"
        "SELECT tenon.settle(); SELECT tenon.enqueue('a', limit_keys => '{b}');"
        "ANALYZE tenon.limit_task; ANALYZE tenon.task");
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "BEGIN");
    assert_int_equal(sql_int(conn, "SELECT tenon.settle()"), 2);
    int64_t rows = sql_int(conn, "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM"
                                 " pg_stat_xact_user_tables WHERE schemaname = 'tenon'");
    sql_run(conn, "COMMIT");
    PQfinish(conn);
    if (rows > 200) {
        fail_msg("%lld rows were read", (long long)rows);
    }
}

/* The examples of the page for users: what stands there runs. */
static void test_the_page(void **state)
{
    struct fixture *fx = *state;
    char path[300];
    int n = 0;
    (void)snprintf(path, sizeof path, "%s/docs/limits.md", repository);
    char *page = file_text(path);
    for (char *from = page; (from = strstr(from, "\n```sql\n")); n++) {
        char *end = strstr(from += 8, "\n```");
        *end = '\0';
        test_sql(fx, "%s", from);
        from = end + 1;
    }
    assert_true(n >= 6);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_so_many_at_once),
        WITH_DATABASE(test_retried),
        WITH_DATABASE(test_cancelled_while_it_runs),
        WITH_DATABASE(test_cancelled_in_a_long_transaction),
        WITH_DATABASE(test_so_many_starts),
        WITH_DATABASE(test_strict),
        WITH_DATABASE(test_strict_and_late_commits),
        WITH_DATABASE(test_exceptions_and_pauses),
        WITH_DATABASE(test_kinds_and_queues),
        WITH_DATABASE(test_flows),
        WITH_DATABASE(test_take_limit),
        WITH_DATABASE(test_takes_leave_nothing),
        WITH_DATABASE(test_two_settle),
        WITH_DATABASE(test_bad_arguments),
        WITH_DATABASE(test_others_cost_nothing),
        WITH_DATABASE(test_the_page),
    };
    return RUN_GROUP(tests);
}
