/* label: sql */
/* timeout: 240 */
/* Flows and batches: what waits for what, and what follows from each end. Tasks run, end and are
 * settled by tenon's own statements, one by one. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>

#define DIAMOND                                                                                    \
    "{\"name\": \"diamond\", \"tasks\": ["                                                         \
    "{\"name\": \"d\", \"kind\": \"a\", \"depends_on\": [\"b\", \"c\"]},"                          \
    " {\"name\": \"a\", \"kind\": \"a\"}, {\"name\": \"b\", \"kind\": \"a\", \"depends_on\": "     \
    "[\"a\"]}, {\"name\": \"c\", \"kind\": \"a\", \"depends_on\": [\"a\"], \"delay\": \"1 h\"}]}"

static void settle(struct fixture *fx)
{
    for (int i = 0; i < 100; i++) {
        if (test_sql_int(fx, "SELECT tenon.settle()") == 0) {
            return;
        }
    }
    fail_msg("tenon.settle() comes to no end");
}

static int64_t named(struct fixture *fx, const char *name)
{
    return test_sql_int(fx, "SELECT id FROM tenon.flow_task WHERE name = '%s'", name);
}

/* A task in flow `f` with a name, after the tasks with these names ("'a', 'b'"). */
static int64_t add(struct fixture *fx, int64_t f, const char *name, const char *after,
                   const char *more)
{
    int64_t id =
        test_sql_int(fx,
                     "SELECT tenon.enqueue('a', flow => %lld, depends_on => ARRAY(SELECT id"
                     " FROM tenon.flow_task WHERE name IN (%s))%s)",
                     (long long)f, after, more);
    test_sql(fx, "UPDATE tenon.flow_task SET name = '%s' WHERE id = %lld", name, (long long)id);
    return id;
}

/* It runs, if that is how it ends, and ends: done, dead, cancelled or expired. */
static void end(struct fixture *fx, int64_t id, const char *how)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    if (strcmp(how, "cancelled") == 0) {
        test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    } else if (strcmp(how, "expired") == 0) {
        test_sql(fx, "UPDATE tenon.task SET start_before = now() WHERE id = %lld", (long long)id);
    } else {
        assert_true(held_take(fx, worker, id, &c));
        if (strcmp(how, "done") == 0) {
            assert_true(held_finish(fx, &sql_finish, &c, "{\"result\": {\"n\": 1}}"));
        } else {
            free(held_requeue(fx, &c, "dead", "oops", NULL));
        }
    }
    settle(fx);
}

static void end_named(struct fixture *fx, const char *name, const char *how)
{
    end(fx, named(fx, name), how);
}

/* The tasks that have a name, as "a done, b ready". */
static void assert_states(struct fixture *fx, const char *expected)
{
    char *got = test_sql_text(
        fx, "SELECT string_agg(m.name || ' ' || t.state, ', ' ORDER BY m.name) FROM tenon.flow_task"
            " m JOIN tenon.tasks t ON t.id = m.id WHERE m.name IS NOT NULL");
    assert_string_equal(got, expected);
    free(got);
}

static void assert_flow(struct fixture *fx, int64_t f, const char *state)
{
    char *got = test_sql_text(fx, "SELECT state FROM tenon.flows WHERE id = %lld", (long long)f);
    assert_string_equal(got, state);
    free(got);
}

static void clear(struct fixture *fx)
{
    test_sql(fx, "TRUNCATE tenon.task, tenon.dead, tenon.history, tenon.flow, tenon.flow_task,"
                 " tenon.flow_wait, tenon.flow_note");
}

static void test_a_diamond(void **state)
{
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('" DIAMOND "')");
    assert_states(fx, "a ready, b blocked, c blocked, d blocked");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 1);
    assert_flow(fx, f, "running");
    end_named(fx, "a", "done");
    assert_states(fx, "a done, b ready, c scheduled, d blocked");
    end_named(fx, "b", "done");
    assert_states(fx, "a done, b done, c scheduled, d blocked");
    test_sql(fx, "SELECT tenon.run_now_where('{\"ids\": %lld}')", (long long)named(fx, "c"));
    end_named(fx, "c", "done");
    assert_states(fx, "a done, b done, c done, d ready");
    end_named(fx, "d", "done");
    assert_flow(fx, f, "ended");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow_wait"), 0);
}

/* Parents of another transaction and of another flow; one that is done is not waited for. */
static void test_parents_of_any_transaction(void **state)
{
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('one')");
    int64_t g = test_sql_int(fx, "SELECT tenon.flow()");
    (void)add(fx, f, "a", "NULL", "");
    (void)add(fx, f, "b", "'a'", "");
    (void)add(fx, g, "c", "'a', 'b'", ", delay => '1 h'");
    settle(fx);
    assert_states(fx, "a ready, b blocked, c blocked");
    end_named(fx, "a", "done");
    (void)add(fx, g, "d", "'a'", "");
    (void)add(fx, g, "e", "'a', 'b'", "");
    assert_states(fx, "a done, b ready, c blocked, d ready, e blocked");
    end_named(fx, "b", "done");
    assert_states(fx, "a done, b done, c scheduled, d ready, e ready");
}

/* The parent ends, and is settled, while the transaction that enqueues the child is open. */
static void test_a_parent_that_ends_meanwhile(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('one')");
    int64_t parent = add(fx, f, "a", "NULL", "");
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', flow => %lld, depends_on => '{%lld}')",
            (long long)f, (long long)parent);
    end(fx, parent, "done");
    sql_run(other, "COMMIT");
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks WHERE state = 'ready'"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow_wait"), 0);
    PQfinish(other);
}

/* What happens to a child that does this when a parent ends so. */
static void test_parents_that_do_not_end_well(void **state)
{
    static const char *const ends[] = {"dead", "cancelled", "expired"};
    static const char *const policies[] = {"", ", on_parent_dead => 'wait'",
                                           ", on_parent_dead => 'run'",
                                           ", on_parent_dead => 'cancel'"};
    static const char *const becomes[] = {"blocked", "blocked", "ready", "cancelled"};
    struct fixture *fx = *state;
    for (size_t i = 0; i < 12; i++) {
        for (int late = 0; late < 2; late++) { /* the parent has ended already */
            int64_t f = test_sql_int(fx, "SELECT tenon.flow('one')");
            int64_t parent = add(fx, f, "a", "NULL", ""), child;
            if (late) {
                end(fx, parent, ends[i / 4]);
                child = add(fx, f, "b", "'a'", policies[i % 4]);
                settle(fx);
            } else {
                child = add(fx, f, "b", "'a'", policies[i % 4]);
                (void)add(fx, f, "c", "'b'", ", on_parent_dead => 'cancel'");
                end(fx, parent, ends[i / 4]);
                assert_state(fx, named(fx, "c"), i % 4 == 3 ? "cancelled" : "blocked");
            }
            assert_state(fx, child, becomes[i % 4]);
            clear(fx);
        }
    }
}

/* Then the child that waits for it goes on. */
static void test_a_dead_parent_is_retried(void **state)
{
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('" DIAMOND "')");
    end_named(fx, "a", "dead");
    test_sql(fx, "SELECT pg_advisory_lock(leader_key) FROM tenon.setting"); /* a cleaner leads */
    char *why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)named(fx, "b"));
    assert_contains(why, "It waits for a parent: ");
    assert_contains(why, "(a, dead). What to do: tenon retry ");
    free(why);
    test_sql(fx, "BEGIN; SELECT tenon.delete_where('{\"state\": \"dead\"}')");
    why = test_sql_text(fx, "SELECT tenon.why(%lld)", (long long)named(fx, "b"));
    assert_contains(why, "(dead, and gone). What to do: tenon cancel ");
    free(why);
    test_sql(fx, "ROLLBACK; SELECT tenon.retry_where('{\"state\": \"dead\"}')");
    settle(fx);
    assert_states(fx, "a ready, b blocked, c blocked, d blocked");
    assert_int_equal(test_sql_int(fx, "SELECT flow FROM tenon.task WHERE id = %lld",
                                  (long long)named(fx, "a")),
                     f);
    end_named(fx, "a", "done");
    assert_states(fx, "a done, b ready, c scheduled, d blocked");
}

static void test_results_of_parents(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES], claim[HELD_TEXT_BYTES];
    test_sql(fx, "SELECT tenon.flow('" DIAMOND "')");
    end_named(fx, "a", "done");
    int64_t b = named(fx, "b");
    test_sql(fx, "DELETE FROM tenon.history"); /* its history is over, before the child ran */
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, b, &c));
    held_text(&c, claim);
    assert_true(test_sql_bool(fx,
                              "SELECT (name, state, result) = ('a', 'done', '{\"n\": 1}'::jsonb)"
                              " FROM tenon.parent_results('%s')",
                              claim));
    assert_true(test_sql_bool(fx, "SELECT result = '{\"n\": 1}' FROM tenon.parent_results(%lld)",
                              (long long)b));
    assert_true(
        test_sql_bool(fx,
                      "SELECT count(*) = 2 AND count(result) = 0 FROM tenon.parent_results('%lld')",
                      (long long)named(fx, "d")));
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql_fails(fx, "55000", "no longer valid", "SELECT tenon.parent_results('%s')", claim);
    test_sql_fails(fx, "22023", "a task of a flow", "SELECT tenon.parent_results(0)");
}

/* For handlers without a database: in the payload, where it asks. */
static void test_results_in_the_payload(void **state)
{
    static const char ask[] = ", payload => '{\"parents\": null, \"x\": 1}'";
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow()");
    (void)add(fx, f, "a", "NULL", "");
    int64_t b = add(fx, f, "b", "'a'", ask);
    int64_t c = add(fx, f, "c", "'a'", ", payload => '{\"parents\": 7}'");
    end_named(fx, "a", "done");
    int64_t late = add(fx, f, "d", "'a'", ask);
    assert_true(test_sql_bool(
        fx,
        "SELECT bool_and(payload = CASE WHEN id = %lld THEN '{\"parents\": 7}' ELSE"
        " '{\"parents\": {\"a\": {\"n\": 1}}, \"x\": 1}'::jsonb END AND payload_bytes ="
        " length(payload::text)) FROM tenon.task WHERE id IN (%lld, %lld, %lld)",
        (long long)c, (long long)b, (long long)c, (long long)late));
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE run_at < now() AND xmax = '0'"), 3);
}

/* Somebody has the child's row locked: it is unblocked when he is through. So is one cancelled. */
static void test_a_child_that_is_locked(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t f = test_sql_int(fx, "SELECT tenon.flow()");
    (void)add(fx, f, "x", "NULL", "");
    int64_t doomed = add(fx, f, "y", "'x'", ", on_parent_dead => 'cancel'");
    sql_run(other, "BEGIN; SELECT FROM tenon.task WHERE id = %lld FOR UPDATE", (long long)doomed);
    end_named(fx, "x", "dead");
    assert_state(fx, doomed, "blocked");
    sql_run(other, "COMMIT");
    settle(fx);
    assert_state(fx, doomed, "cancelled");
    clear(fx);
    test_sql(fx, "SELECT tenon.flow('" DIAMOND "')");
    sql_run(other, "BEGIN; SELECT FROM tenon.task WHERE id = %lld FOR UPDATE",
            (long long)named(fx, "b"));
    test_sql(fx, "DELETE FROM tenon.task WHERE id = %lld RETURNING tenon.record_end_of(task)",
             (long long)named(fx, "a"));
    for (int i = 0; i < 5; i++) { /* in pieces */
        test_sql(fx, "SELECT tenon.settle(1)");
    }
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow_note"), 1);
    assert_state(fx, named(fx, "b"), "blocked");
    sql_run(other, "COMMIT");
    settle(fx);
    assert_state(fx, named(fx, "b"), "ready");
    assert_true(test_sql_bool(fx, "SELECT xmax = '0' FROM tenon.task WHERE id = %lld",
                              (long long)named(fx, "b"))); /* polls see it */
    PQfinish(other);
}

/* Two at once would each leave the child to the other. */
static void test_one_settles_at_a_time(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    struct held b, c;
    char worker[UUID_BYTES];
    test_sql(fx, "SELECT tenon.flow('" DIAMOND "'); UPDATE tenon.task SET wanted_at = now()"
                 " WHERE wanted_at > now()");
    end_named(fx, "a", "done");
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, named(fx, "b"), &b));
    assert_true(held_take(fx, worker, named(fx, "c"), &c));
    assert_true(held_finish(fx, &sql_finish, &b, "{}"));
    sql_run(other, "BEGIN; SELECT tenon.settle()");
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.settle()"), 0);
    sql_run(other, "COMMIT");
    settle(fx);
    assert_states(fx, "a done, b done, c done, d ready");
    PQfinish(other);
}

/* What one may do to a task while it is blocked. */
static void test_a_blocked_task(void **state)
{
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow('one')");
    (void)add(fx, f, "a", "NULL", "");
    int64_t id = add(fx, f, "b", "'a'", "");
    settle(fx);
    assert_true(test_sql_bool(fx,
                              "SELECT run_at < now() AND flow = %lld FROM tenon.list('{"
                              "\"state\": \"blocked\"}')",
                              (long long)f));
    test_sql(fx,
             "SELECT tenon.set_where('{\"ids\": %lld}', jsonb_build_object('priority', 9, 'run_at',"
             " now() + interval '1 h'))",
             (long long)id);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.run_now_where('{\"ids\": %lld}')",
                                  (long long)id),
                     0);
    assert_true(test_sql_bool(fx,
                              "SELECT run_at = 'infinity' AND wanted_at > now() AND priority ="
                              " 9 AND NOT delayed FROM tenon.task WHERE id = %lld",
                              (long long)id));
    end_named(fx, "a", "done");
    assert_state(fx, id, "scheduled");
    assert_true(test_sql_bool(fx, "SELECT delayed FROM tenon.task WHERE id = %lld", (long long)id));
}

/* An end reads what it concerns, and not all of 10,000 children, or parents. */
static void test_an_end_reads_little(void **state)
{
    static const char read[] = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
                               " FROM pg_stat_xact_user_tables WHERE schemaname = 'tenon'";
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SELECT tenon.flow(jsonb_build_object('tasks', jsonb_build_array('{\"name\": \"p\","
        " \"kind\": \"a\"}'::jsonb) || (SELECT jsonb_agg(jsonb_build_object('name', 'c' || i,"
        " 'kind', 'a', 'depends_on', '[\"p\"]'::jsonb)) FROM generate_series(1, 10000) i) ||"
        " jsonb_build_object('kind', 'a', 'name', 'last', 'depends_on', (SELECT jsonb_agg('c' || i)"
        " FROM generate_series(1, 10000) i))))");
    end_named(fx, "p", "done");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 10000);
    test_sql(fx,
             "BEGIN; DELETE FROM tenon.task WHERE id = %lld RETURNING tenon.record_end_of(task)",
             (long long)named(fx, "c7"));
    int64_t before = test_sql_int(fx, "%s", read);
    test_sql(fx, "SELECT tenon.settle()");
    int64_t rows = test_sql_int(fx, "%s", read) - before;
    test_sql(fx, "COMMIT");
    if (rows > 100) {
        fail_msg("the end of one of 10000 parents read %lld rows", (long long)rows);
    }
    test_sql(fx, "DELETE FROM tenon.task WHERE id <> %lld RETURNING tenon.record_end_of(task)",
             (long long)named(fx, "last"));
    settle(fx);
    assert_state(fx, named(fx, "last"), "ready");
}

/* The callbacks that were enqueued, by kind. */
static void assert_callbacks(struct fixture *fx, const char *expected)
{
    char *got = test_sql_text(fx, "SELECT coalesce(string_agg(kind, ' ' ORDER BY kind), '')"
                                  " FROM tenon.tasks WHERE kind LIKE 'on_%%'");
    assert_string_equal(got, expected);
    free(got);
}

#define BATCH                                                                                      \
    "SELECT tenon.batch(on_done => 'on_done', on_dead => 'on_dead', on_end => 'on_end', payload"   \
    " => '{\"x\": 1}')"

static void test_each_callback_comes_once(void **state)
{
    static const char *const ends[] = {"done", "dead", "cancelled", "expired"};
    struct fixture *fx = *state;
    for (int i = 0; i < 4; i++) {
        int64_t f = test_sql_int(fx, BATCH);
        (void)add(fx, f, "a", "NULL", "");
        (void)add(fx, f, "b", "'a'", ", on_parent_dead => 'run'");
        end_named(fx, "a", ends[i]);
        end_named(fx, "b", "done");
        assert_callbacks(fx, "");
        assert_flow(fx, f, "open");
        assert_true(test_sql_bool(fx, "SELECT tenon.close(%lld)", (long long)f));
        assert_false(test_sql_bool(fx, "SELECT tenon.close(%lld)", (long long)f));
        settle(fx);
        assert_callbacks(fx, i == 0 ? "on_done on_end" : "on_dead on_end");
        assert_true(
            test_sql_bool(fx,
                          "SELECT bool_and(payload = jsonb_build_object('x', 1, 'flow', %lld))"
                          " FROM tenon.tasks WHERE kind LIKE 'on_%%'",
                          (long long)f));
        assert_flow(fx, f, "ended");
        if (i > 0) { /* what was not done is retried: now all is */
            test_sql(fx, "SELECT tenon.retry_where('{\"ids\": %lld}')", (long long)named(fx, "a"));
            settle(fx);
            assert_flow(fx, f, "running");
            end_named(fx, "a", "done");
            assert_callbacks(fx, "on_dead on_done on_end");
        }
        clear(fx);
    }
}

static void test_the_end_of_a_batch(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t f = test_sql_int(fx, BATCH);
    test_sql(fx, "SELECT tenon.close(%lld)", (long long)f);
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', flow => %lld)", (long long)f);
    settle(fx); /* somebody adds a task at this moment */
    assert_callbacks(fx, "");
    sql_run(other, "COMMIT");
    settle(fx);
    assert_callbacks(fx, "");
    end(fx, test_sql_int(fx, "SELECT id FROM tenon.task"), "done");
    assert_callbacks(fx, "on_done on_end");
    test_sql_fails(fx, "55000", "takes no more tasks: it has ended|Make another",
                   "SELECT tenon.enqueue('a', flow => %lld)", (long long)f);
    clear(fx);
    f = test_sql_int(fx, BATCH); /* without a task */
    test_sql(fx, "SELECT tenon.close(%lld)", (long long)f);
    settle(fx);
    assert_callbacks(fx, "on_done on_end");
    PQfinish(other);
}

static void test_a_flow_is_cancelled(void **state)
{
    struct fixture *fx = *state;
    PGconn *other = sql_connect(fx->database_url);
    int64_t f = test_sql_int(fx, BATCH);
    (void)add(fx, f, "a", "NULL", "");
    (void)add(fx, f, "b", "'a'", "");
    (void)add(fx, f, "c", "NULL", "");
    end_named(fx, "c", "done");
    sql_run(other, "BEGIN; SELECT tenon.enqueue('a', flow => %lld)", (long long)f);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_flow(%lld)", (long long)f), 2);
    settle(fx);
    assert_states(fx, "a cancelled, b cancelled, c done");
    assert_callbacks(fx, "");
    sql_run(other, "COMMIT"); /* a task that nobody could see */
    settle(fx);
    assert_int_equal(test_sql_int(fx, "SELECT cancelled FROM tenon.flows"), 3);
    assert_callbacks(fx, "on_dead on_end");
    assert_flow(fx, f, "cancelled");
    test_sql_fails(fx, "55000", "it was cancelled by", "SELECT tenon.enqueue('a', flow => %lld)",
                   (long long)f);
    PQfinish(other);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *parts, *call;
    } bad[] = {
        {"tasks[0].depends_on 'x'|names of tasks of this flow",
         "flow('{\"tasks\": [{\"kind\": \"a\", \"depends_on\": [\"x\"]}]}')"},
        {"in a circle: b after a after b|depends_on",
         "flow('{\"tasks\": [{\"name\": \"c\", \"kind\": \"a\", \"depends_on\": [\"b\"]},"
         " {\"name\": "
         "\"a\", \"kind\": \"a\", \"depends_on\": [\"b\"]}, {\"name\": \"b\", \"kind\": \"a\", "
         "\"depends_on\": [\"a\"]}]}')"},
        {"in a circle: a after a",
         "flow('{\"tasks\": [{\"name\": \"a\", \"kind\": \"a\", \"depends_on\": [\"a\"]}]}')"},
        {"tasks of 100001 elements|1 to 100000 objects (flow_tasks_max)",
         "flow(jsonb_build_object('tasks', (SELECT jsonb_agg(1) FROM"
         " generate_series(1, 100001))))"},
        {"tasks of 0 elements", "flow('{\"tasks\": []}')"},
        {"tasks NULL", "flow('{}')"},
        {"tasks[1].name 'a'|different from the other names",
         "flow('{\"tasks\": [{\"kind\": \"a\"}, {\"name\": \"a\", \"kind\": \"a\"}, {\"name\": "
         "\"a\", \"kind\": \"a\"}]}')"},
        {"tasks[0] {|an object with no keys except name, kind",
         "flow('{\"tasks\": [{\"kind\": \"a\", \"x\": 1}]}')"},
        {"tasks[0] 7", "flow('{\"tasks\": [7]}')"},
        {"tasks[0].depends_on \"a\"|an array",
         "flow('{\"tasks\": [{\"kind\": \"a\", \"depends_on\": \"a\"}]}')"},
        {"description|no keys except name, tasks", "flow('{\"x\": 1}'::jsonb)"},
        {"description|no keys except name, tasks", "flow(' [{\"kind\": \"a\"}]')"},
        {"kind 'a b' is not allowed (in tasks[1], 'z')",
         "flow('{\"tasks\": [{\"kind\": \"a\"}, {\"name\": \"z\", \"kind\": \"a b\"}]}')"},
        {"name|1 to 200", "flow(repeat('x', 201))"},
        {"there is no flow 0|the number of a flow", "enqueue('a', flow => 0)"},
        {"depends_on and on_parent_dead require flow", "enqueue('a', depends_on => '{1}')"},
        {"unique_key and flow are given together", "enqueue('a', flow => %lld, unique_key => 'k')"},
        {"task 0 in depends_on belongs to no flow",
         "enqueue('a', flow => %lld, depends_on => '{0}')"},
        {"on_parent_dead 'x'|wait, run or cancel",
         "enqueue('a', flow => %lld, on_parent_dead => 'x')"},
        {"callback 'a b'|a kind", "batch(on_end => 'a b')"},
        {"a batch needs a callback|on_done, on_dead or on_end", "batch()"},
    };
    struct fixture *fx = *state;
    int64_t f = test_sql_int(fx, "SELECT tenon.flow()");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char call[600];
        (void)snprintf(call, sizeof call, bad[i].call, (long long)f);
        test_sql_fails(fx, "22023", bad[i].parts, "SELECT tenon.%s", call);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 0);
}

/* A flow is its maker's; and nobody gets a task to where he may not enqueue. */
static void test_rights(void **state)
{
    struct fixture *fx = *state;
    PGconn *conns[2];
    for (int i = 0; i < 2; i++) {
        test_sql(fx, "CREATE ROLE %s_%d; SELECT tenon.grant_producer('%s_%d')", fx->database, i,
                 fx->database, i);
        conns[i] = sql_connect(fx->database_url);
        sql_run(conns[i], "SET SESSION AUTHORIZATION %s_%d", fx->database, i);
    }
    test_sql(fx, "SELECT tenon.grant_producer('%s_1', kinds => '{a}')", fx->database);
    long long f = sql_int(conns[0], "SELECT tenon.flow('mine')");
    long long a = sql_int(conns[0], "SELECT tenon.enqueue('b', flow => %lld)", f);
    long long g = sql_int(conns[1], "SELECT tenon.flow('{\"tasks\": [{\"kind\": \"a\"}]}')");
    static const char no[] = "permission denied for flow";
    sql_fails(conns[1], "42501", no, "SELECT tenon.enqueue('a', flow => %lld)", f);
    sql_fails(conns[1], "42501", no,
              "SELECT tenon.enqueue('a', flow => %lld, depends_on => '{%lld}')", g, a);
    sql_fails(conns[1], "42501", no, "SELECT tenon.cancel_flow(%lld)", f);
    sql_fails(conns[1], "42501", no, "SELECT tenon.close(%lld)", f);
    sql_fails(conns[1], "42501", "may not read the results", "SELECT tenon.parent_results(%lld)",
              a);
    sql_fails(conns[1], "42501", "may not enqueue kind b", "SELECT tenon.batch(on_end => 'b')");
    sql_fails(conns[1], "42501", "may not enqueue kind b|tasks[0]",
              "SELECT tenon.flow('{\"tasks\": [{\"kind\": \"b\"}]}')");
    sql_fails(conns[1], "42501", "may not enqueue kind b",
              "SELECT tenon.enqueue('b', flow => %lld)", g);
    sql_fails(conns[0], "42501", "permission denied", "SELECT * FROM tenon.flows");
    assert_int_equal(sql_int(conns[0], "SELECT tenon.cancel_flow(%lld)", f), 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_flow(%lld)", g), 1); /* the owner */
    for (int i = 0; i < 2; i++) {
        PQfinish(conns[i]);
        test_sql(fx, "DROP OWNED BY %s_%d; DROP ROLE %s_%d", fx->database, i, fx->database, i);
    }
}

/* What is kept, and how long. */
static void test_flows_are_purged(void **state)
{
    struct fixture *fx = *state;
    int64_t done = test_sql_int(fx, "SELECT tenon.flow('" DIAMOND "')");
    int64_t dead = test_sql_int(fx, "SELECT tenon.flow('{\"tasks\": [{\"name\": \"x\", \"kind\":"
                                    " \"a\"}]}')");
    int64_t empty = test_sql_int(fx, "SELECT tenon.flow('empty')");
    int64_t open = test_sql_int(fx, BATCH);
    test_sql(fx, "UPDATE tenon.task SET wanted_at = now() WHERE wanted_at > now()");
    for (const char *name = "abcd"; *name; name++) {
        char text[2] = {*name, '\0'};
        end_named(fx, text, "done");
    }
    end_named(fx, "x", "dead");
    test_sql(fx, "SELECT tenon.purge(100)");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow"), 4);
    test_sql(fx, "UPDATE tenon.flow SET ended_at = ended_at - interval '25 h', made_at = made_at -"
                 " interval '25 h'; SELECT tenon.purge(100)");
    assert_true(test_sql_bool(fx,
                              "SELECT array_agg(id ORDER BY id) = '{%lld,%lld}' FROM tenon.flow",
                              (long long)dead, (long long)open));
    assert_true(done < dead && dead < empty);
    test_sql(fx, "SELECT tenon.delete_where('{\"state\": \"dead\"}'); SELECT tenon.purge(100)");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow_task"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.flow"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_diamond),
        WITH_DATABASE(test_parents_of_any_transaction),
        WITH_DATABASE(test_a_parent_that_ends_meanwhile),
        WITH_DATABASE(test_parents_that_do_not_end_well),
        WITH_DATABASE(test_a_dead_parent_is_retried),
        WITH_DATABASE(test_results_of_parents),
        WITH_DATABASE(test_results_in_the_payload),
        WITH_DATABASE(test_a_child_that_is_locked),
        WITH_DATABASE(test_one_settles_at_a_time),
        WITH_DATABASE(test_a_blocked_task),
        WITH_DATABASE(test_an_end_reads_little),
        WITH_DATABASE(test_each_callback_comes_once),
        WITH_DATABASE(test_the_end_of_a_batch),
        WITH_DATABASE(test_a_flow_is_cancelled),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_rights),
        WITH_DATABASE(test_flows_are_purged),
    };
    return RUN_GROUP(tests);
}
