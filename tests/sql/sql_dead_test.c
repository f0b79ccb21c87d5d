/* label: sql */
/* How tasks end that do not end well: attempts are kept, policies say when the next one comes, and
 * each death enqueues one task, if somebody wants it. */
#include "tests/support/held.h"

#include <stdio.h>

static void requeue_classed(struct fixture *fx, const struct held *c, const char *reason,
                            const char *error, const char *class)
{
    test_sql(fx, "SELECT tenon.requeue('{%lld}', '{%lld}', '{%s}', ARRAY[%s], NULL, ARRAY[%s])",
             (long long)c->id, (long long)c->key, reason, error, class);
}

static void test_attempts(void **state)
{
    static const struct {
        const char *reason, *error, *class, *want; /* outcome, class, exit code, signal */
    } cases[] = {
        {"failed", "'TimeoutError: no answer'", "NULL", "failed TimeoutError - -"},
        {"failed", "'TimeoutError: no answer'", "'smtp'", "failed smtp - -"},
        {"failed", "'exit status 3: no such user'", "NULL", "failed exit_3 3 -"},
        {"failed", "'killed by signal 9 (Killed)'", "NULL", "failed signal_9 - 9"},
        {"failed", "'the handler ended without an answer: exit status 1: oops'", "NULL",
         "failed exit_1 1 -"},
        {"failed", "'it says exit status 1'", "NULL", "failed it - -"},
        {"failed", "'exit status 99999999999'", "NULL", "failed exit - -"}, /* no integer */
        {"failed", "'exit status 2147483648: no'", "NULL", "failed exit - -"},
        {"failed", "'the handler ended without an answer: killed by signal 99999999999'", "NULL",
         "failed the - -"},
        {"failed", "U&'exit status \\0663'", "NULL", "failed exit - -"}, /* a digit of Arabic */
        {"failed", "''", "NULL", "failed - - -"},
        {"failed", "NULL", "NULL", "failed - - -"},
        {"failed",
         "E'exit status 1: Traceback (most recent call last):\n File \"x.py\", line 1\n"
         "ValueError: bad\n\nDuring that:\n\nsmtplib.SMTPServerError: (550, b\"no\")'",
         "NULL", "failed smtplib.SMTPServerError 1 -"},
        {"failed", "E'/app/a.js:3\nthrow new TypeError(\"x\")\n\nTypeError: x\n    at a.js:3:1'",
         "NULL", "failed TypeError - -"},
        {"failed", "'exit status 3: no such file'", "NULL", "failed exit_3 3 -"},
        {"failed", "'exit status 3: ls: /x: No such file'", "NULL", "failed exit_3 3 -"},
        {"failed", "E'exit status 1: ERROR: no\nat x: Yes'", "NULL", "failed exit_1 1 -"},
        {"failed", "E'exit status 1: Trace:\n at x\nshop.pay.Declined: no money: 5'", "NULL",
         "failed shop.pay.Declined 1 -"},
        {"failed", "'exit status 4: Declined: no money'", "NULL", "failed Declined 4 -"},
        {"failed", "'the handler ended without an answer: exit status 4: Declined: no'", "NULL",
         "failed Declined 4 -"},
        {"failed", "E'exit status 1: /x/a.rb:3:in `pay'': no (x) (Errno::EPERM)\n\tfrom /x/a.rb'",
         "NULL", "failed Errno::EPERM 1 -"},
        {"failed", "E'no luck\nDetails: none'", "NULL", "failed no - -"},
        {"timed_out", "'timed out after 5 ms'", "NULL", "timed_out timeout - -"},
        {"crashed", "'worker x died'", "NULL", "crashed crash - -"},
        {"dead", "'no such address'", "'bad_address'", "dead bad_address - -"},
        {"snooze", "'not yet'", "NULL", NULL},
        {"released", "NULL", "NULL", NULL},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct held c;
        held_new(fx, &c);
        test_sql(fx, "UPDATE tenon.worker SET host = 'h1' WHERE id = '%s'", c.worker);
        requeue_classed(fx, &c, cases[i].reason, cases[i].error, cases[i].class);
        char *got = test_sql_text(
            fx,
            "SELECT concat_ws(' ', outcome, coalesce(error_class, '-'), coalesce(exit_code::text,"
            " '-'), coalesce(signal::text, '-')) FROM tenon.attempt WHERE task_id = %lld AND"
            " attempt = 1"
            " AND claims = 1 AND worker_id = '%s' AND host = 'h1' AND ended_at >= started_at AND"
            " kind = 'a' AND queue = 'default' AND error IS NOT DISTINCT FROM %s",
            (long long)c.id, c.worker, cases[i].error);
        if (!cases[i].want != !got || (got && strcmp(got, cases[i].want) != 0)) {
            fail_msg("%s %s: \"%s\", not \"%s\"", cases[i].reason, cases[i].error,
                     got ? got : "none", cases[i].want ? cases[i].want : "none");
        }
        free(got);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead WHERE error_class ="
                                      " 'bad_address'"),
                     1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE error_class ="
                                      " 'TimeoutError'"),
                     1);
}

/* Seconds of the n-th delay, at least and at most; twenty differ, if chance adds anything. */
static void test_policies(void **state)
{
    static const struct {
        const char *policy;
        int failures;
        double least, most;
    } cases[] = {
        {"NULL", 1, 16, 26},
        {"NULL", 1000, 2592000, 2602000},
        {"'polynomial'", 2, 31, 51},
        {"'polynomial'", 999, 2592000, 2601990},
        {"'polynomial(1 h)'", 9, 3600, 3690},
        {"'polynomial(1 h, 20 %)'", 9, 3600, 4320},
        {"'polynomial(1 day, 10 %)'", 2, 31, 34.1},
        {"'polynomial(1 day, 0 %)'", 2, 31, 31},
        {"'exponential(10 s, 1 h)'", 1, 10, 11},
        {"'exponential(10 s, 1 h)'", 3, 40, 44},
        {"'exponential(10 s, 1 h)'", 999, 3600, 3960},
        {"'exponential(10 s, 1 h, 0 %)'", 4, 80, 80},
        {"'exponential(10 s)'", 1000, 2592000, 2851200},
        {"'exponential(10 s, 20 %)'", 1, 10, 12},
        {"'linear(1 min, 5 min, 50 %)'", 3, 180, 270},
        {"'linear(1 min, 5 min, 50 %)'", 30, 300, 450},
        {"'constant(500 ms, 500 ms, 100 %)'", 7, 0.5, 1},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!test_sql_bool(fx,
                           "SELECT min(d) >= %f AND max(d) <= %f AND count(DISTINCT d) %s FROM"
                           " (SELECT extract(epoch FROM tenon.retry_delay(%d, %s)) AS d"
                           " FROM generate_series(1, 20)) x",
                           cases[i].least, cases[i].most,
                           cases[i].least < cases[i].most ? "> 15" : "= 1", cases[i].failures,
                           cases[i].policy)) {
            fail_msg("delay %d of %s is not %f to %f s, by chance", cases[i].failures,
                     cases[i].policy, cases[i].least, cases[i].most);
        }
    }
    static const char *const no_policies[] = {"polynomial()",
                                              "polynomial(31 days)",
                                              "polynomial(1 h, 101 %)",
                                              "polynomial(10 %)",
                                              "linear",
                                              "linear()",
                                              "constant(0 s)",
                                              "exponential(1 h, 1 s)"};
    for (size_t i = 0; i < sizeof no_policies / sizeof *no_policies; i++) {
        if (test_sql_bool(fx, "SELECT tenon.is_retry('%s')", no_policies[i])) {
            fail_msg("%s is a policy", no_policies[i]);
        }
    }
}

/* The task's own goes before its kind's before its queue's, as they are when it fails. */
static void test_whose_policy(void **state)
{
    static const struct {
        const char *own, *kind, *queue;
        double s;
    } cases[] = {
        {"'constant(1 h, 1 h, 0 %)'", "'constant(2 h)'", "'constant(3 h)'", 3600},
        {"NULL", "'constant(2 h, 2 h, 0 %)'", "'constant(3 h)'", 7200},
        {"NULL", "NULL", "'constant(3 h, 3 h, 0 %)'", 10800},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct held c;
        char sql[300];
        held_new(fx, &c);
        (void)snprintf(sql, sizeof sql,
                       "DELETE FROM tenon.kind; DELETE FROM tenon.queue;"
                       "INSERT INTO tenon.kind (name, retry) VALUES ('a', %s);"
                       "INSERT INTO tenon.queue (name, retry) VALUES ('default', %s);"
                       "UPDATE tenon.task SET retry = %s WHERE id = %lld",
                       cases[i].kind, cases[i].queue, cases[i].own, (long long)c.id);
        test_sql(fx, "%s", sql);
        free(held_requeue(fx, &c, "failed", "x", NULL));
        assert_true(test_sql_bool(fx,
                                  "SELECT abs(extract(epoch FROM run_at - clock_timestamp()) - %f)"
                                  " < 60 FROM tenon.task WHERE id = %lld",
                                  cases[i].s, (long long)c.id));
    }
    test_sql_fails(fx, "23514", "kind_retry_check", "UPDATE tenon.kind SET retry = 'often'");
}

/* With the death, whatever its reason, in the same statement; with the dead one as payload. */
static void test_on_dead(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    held_new(fx, &c);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0); /* nobody wants it */
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'tell';"
                 "INSERT INTO tenon.kind (name, queue, priority) VALUES ('tell', 'ops', 9),"
                 " ('a', NULL, NULL)");
    held_new(fx, &c);
    test_sql(fx, "UPDATE tenon.task SET payload = '{\"card\": 7}', max_attempts = 1");
    free(held_requeue(fx, &c, "failed", "Declined: no money", NULL));
    assert_true(test_sql_bool(
        fx,
        "SELECT kind = 'tell' AND queue = 'ops' AND priority = 9 AND compensates = %lld"
        " AND payload @> '{\"kind\": \"a\", \"payload\": {\"card\": 7}, \"reason\": \"failures\","
        " \"error_class\": \"Declined\", \"error\": \"Declined: no money\", \"attempt\": 1}'"
        " AND payload_bytes = octet_length(payload::text) AND (payload ->> 'id')::bigint = %lld"
        " FROM tenon.task",
        (long long)c.id, (long long)c.id));
    test_sql(fx,
             "DELETE FROM tenon.task; UPDATE tenon.kind SET on_dead = 'refund' WHERE name = 'a'");
    held_new(fx, &c);
    held_alone(fx, &c, 2);
    free(held_requeue(fx, &c, "crashed", "x", NULL));
    char *kinds = test_sql_text(fx, "SELECT string_agg(kind, ' ') FROM tenon.task");
    assert_string_equal(kinds, "refund"); /* the kind's own instead */
    free(kinds);
}

/* One that dies itself enqueues nothing: no chain. */
static void test_no_chain(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES];
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'a'");
    held_new(fx, &c);
    free(held_requeue(fx, &c, "dead", "x", NULL));
    int64_t id = test_sql_int(fx, "SELECT id FROM tenon.task");
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, id, &c));
    free(held_requeue(fx, &c, "dead", "x", NULL));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead WHERE compensates IS NOT"
                                      " NULL"),
                     1);
}

static void test_dead_keep(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    for (int i = 0; i < 3; i++) {
        held_new(fx, &c);
        free(held_requeue(fx, &c, "dead", "x", NULL));
    }
    test_sql(fx, "UPDATE tenon.dead SET dead_at = now() - interval '91 days' WHERE id < %lld",
             (long long)c.id);
    test_sql(fx, "UPDATE tenon.dead SET dead_at = now() - interval '89 days' WHERE id = %lld",
             (long long)c.id);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(1)"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(100)"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 1);
}

/* A retry is undone of those that no worker has claimed since: they are as they were. */
static void test_undo_of_a_retry(void **state)
{
    struct fixture *fx = *state;
    struct held c[4], again;
    char worker[UUID_BYTES], claim[HELD_TEXT_BYTES];
    const char *same = "SELECT string_agg(d::text, '; ' ORDER BY id) FROM tenon.dead d"
                       " WHERE kind = 'a' AND unique_key IS NULL";
    worker_make(fx, worker);
    for (int i = 0; i < 4; i++) {
        int64_t id = test_sql_int(
            fx,
            "SELECT tenon.enqueue('a', '{\"n\": %d}', max_attempts => 1, tags => '{t}',"
            " unique_key => %s, start_before => now() + interval '1 h')",
            i, i == 3 ? "'k'" : "NULL");
        assert_true(held_take(fx, worker, id, &c[i]));
        held_text(&c[i], claim);
        test_sql(fx, "SELECT tenon.step('%s', 's', '1')", claim);
        requeue_classed(fx, &c[i], "failed", "'Timeout: it'", "NULL");
    }
    char *before = test_sql_text(fx, "%s", same);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.undo_retry_where('{\"kind\": \"a\"}')"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"error\": \"Timeout\"}')"), 4);
    assert_int_equal(test_sql_int(fx, "SELECT cardinality(ids) FROM tenon.find("
                                      "'{\"error\": \"Timeout\"}', 'undo')"),
                     3);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.undo_retry_where('{\"error\": \"Timeout\"}',"
                                      " why => 'too early')"),
                     3);
    char *after = test_sql_text(fx, "%s", same);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE kind = 'a'"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.attempt"), 4);
    assert_int_equal(test_sql_int(fx, "SELECT n FROM tenon.audit WHERE act = 'undo'"
                                      " AND what->>'why' = 'too early'"),
                     3);
    /* claimed once, and released: it may have run */
    test_sql(fx, "SELECT tenon.retry(%lld)", (long long)c[0].id);
    assert_true(held_take(fx, worker, c[0].id, &again));
    requeue_classed(fx, &again, "released", "NULL", "NULL");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.undo_retry_where('{\"kind\": \"a\"}')"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_attempts),        WITH_DATABASE(test_policies),
        WITH_DATABASE(test_whose_policy),    WITH_DATABASE(test_on_dead),
        WITH_DATABASE(test_no_chain),        WITH_DATABASE(test_dead_keep),
        WITH_DATABASE(test_undo_of_a_retry),
    };
    return RUN_GROUP(tests);
}
