/* label: sql */
/* Depth: tenon.count_depth() counts what there is, tenon.queue_depth() says what it knows, and
 * since when. */
#include "tests/support/fixture.h"

#include <stdlib.h>
#include <string.h>

/* So many tasks, ready since 90 s, in three kinds and all priorities. */
static void make_ready(struct fixture *fx, const char *queue, int n)
{
    test_sql(fx,
             "INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority,"
             " delayed, announced, queue, kind, payload) SELECT now() - interval '90 s', now(),"
             " 1000, 25, i %% 10, false, false, '%s', 'k' || i %% 3, '{}'"
             " FROM generate_series(1, %d) i",
             queue, n);
}

static void make_dead(struct fixture *fx, const char *queue, const char *kind, int n)
{
    test_sql(fx,
             "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
             " failures, crashes, max_attempts, priority, reason, queue, kind, payload)"
             " SELECT now(), (SELECT coalesce(max(id), 1000000) FROM tenon.dead) + i, now(), now(),"
             " 1000, 1, 1, 0, 1, 4, 'failures', '%s', '%s', '{}' FROM generate_series(1, %d) i",
             queue, kind, n);
}

/* Some of each state, in several queues. */
static void make_all(struct fixture *fx)
{
    make_ready(fx, "q", 20);
    make_ready(fx, "other", 3);
    make_dead(fx, "q", "k1", 4);
    make_dead(fx, "gone", "k", 2);
    test_sql(fx, "SELECT tenon.enqueue('k1', queue => 'q', delay => '1 h')"
                 " FROM generate_series(1, 5);"
                 "SELECT tenon.enqueue('k2', queue => 'q', delay => '1 h')"
                 " FROM generate_series(1, 6);"
                 "UPDATE tenon.task SET failures = 1 WHERE kind = 'k2' AND run_at > now();"
                 "UPDATE tenon.task SET crashes = 1 WHERE kind = 'k2' AND run_at < now();"
                 "UPDATE tenon.task SET start_time = now(), claim_key = id, claims = 1,"
                 " worker_id = gen_random_uuid() WHERE kind = 'k0';"
                 "INSERT INTO tenon.task (run_at, created_at, wanted_at, timeout_ms, max_attempts,"
                 " priority, delayed, announced, queue, kind, payload) SELECT 'infinity', now(),"
                 " now(), 1000, 25, 4, false, false, 'q', 'k1', '{}' FROM generate_series(1, 7)");
}

/* In which pairs and states the counts of `from` differ from those of the view of all tasks. */
static void assert_true_counts(struct fixture *fx, const char *from)
{
    char *differs = test_sql_text(
        fx,
        "WITH counted AS (SELECT d.queue, d.kind, s.state, s.n FROM %s d CROSS JOIN LATERAL (VALUES"
        " ('ready', ready), ('running', running), ('scheduled', scheduled), ('retrying', retrying),"
        " ('blocked', blocked), ('dead', dead)) s (state, n) WHERE s.n > 0),"
        " truth AS (SELECT queue, kind, state, count(*) AS n FROM tenon.tasks GROUP BY 1, 2, 3)"
        " SELECT string_agg(x::text, ' ') FROM"
        " ((TABLE counted EXCEPT TABLE truth) UNION ALL (TABLE truth EXCEPT TABLE counted)) x",
        from);
    if (differs) {
        fail_msg("%s: %s", from, differs);
    }
}

static void test_every_state_is_counted(void **state)
{
    struct fixture *fx = *state;
    make_all(fx);
    assert_true_counts(fx, "tenon.queue_depth(10000, 200)");
    assert_true(test_sql_bool(fx, "SELECT tenon.count_depth()"));
    assert_true_counts(fx, "tenon.depth");
    assert_true(test_sql_bool(fx, "SELECT oldest_ready < now() - interval '89 s' FROM tenon.depth"
                                  " WHERE queue = 'q' AND kind = 'k1'"));
    assert_false(test_sql_bool(fx, "SELECT tenon.count_depth()")); /* nothing has changed */
    test_sql(fx, "DELETE FROM tenon.task WHERE queue = 'other'");
    assert_true(test_sql_bool(fx, "SELECT tenon.count_depth()"));
    assert_true_counts(fx, "tenon.depth");
    test_sql(fx, "TRUNCATE tenon.task, tenon.dead; SELECT tenon.count_depth()");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.depth"), 0);
}

/* What is not the same is written, and no more. */
static void test_few_rows_are_written(void **state)
{
    struct fixture *fx = *state;
    make_all(fx);
    test_sql(fx, "SELECT tenon.count_depth(); SELECT tenon.enqueue('k1', queue => 'other');"
                 "CREATE TEMP TABLE before AS SELECT ctid AS place, * FROM tenon.depth;"
                 "SELECT tenon.count_depth()");
    char *moved = test_sql_text(fx, "SELECT string_agg(d.queue || '/' || d.kind, ' ')"
                                    " FROM tenon.depth d JOIN before b USING (queue, kind)"
                                    " WHERE d.ctid <> b.place");
    assert_string_equal(moved, "other/k1");
    free(moved);
}

/* 1,500 queues, and one queue of 1,500 kinds: at most twice 1,000 rows and one, which add up. */
static void test_names_without_end(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('k', queue => 'q' || i) FROM generate_series(1, 1500) i;"
                 "SELECT tenon.enqueue('k' || i, queue => 'q1') FROM generate_series(1, 1500) i");
    test_sql(fx, "SELECT tenon.count_depth()");
    assert_int_equal(test_sql_int(fx, "SELECT sum(ready) FROM tenon.depth"), 3000);
    assert_in_range(test_sql_int(fx, "SELECT count(*) FROM tenon.depth"), 1000, 2001);
    assert_int_equal(test_sql_int(fx, "SELECT sum(ready) FROM tenon.depth WHERE queue = 'q1'"),
                     1501);
    assert_true(test_sql_bool(fx, "SELECT ready >= 500 FROM tenon.depth"
                                  " WHERE queue = 'q1' AND kind = '(other)'"));
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.depth WHERE queue = '(other)'"),
                     500);
    assert_int_equal(/* none of them is a queue that readers show */
                     test_sql_int(fx, "SELECT count(*) FROM tenon.queue_depth(1000, 5000)"
                                      " WHERE queue = '(other)'"),
                     0);
}

/* ready, dead, and how it is known: live, counted, or at least. */
static void assert_known(struct fixture *fx, const char *queue, const char *wanted)
{
    char *known = test_sql_text(
        fx,
        "SELECT concat_ws(' ', sum(ready), sum(dead), CASE WHEN bool_or(at_least) THEN 'at least'"
        " WHEN min(counted_at) < statement_timestamp() THEN 'counted' ELSE 'live' END)"
        " FROM tenon.queue_depth(1000, 200) WHERE queue = '%s'",
        queue);
    if (strcmp(known, wanted) != 0) {
        fail_msg("%s: \"%s\", not \"%s\"", queue, known, wanted);
    }
    free(known);
}

static void test_what_is_known(void **state)
{
    struct fixture *fx = *state;
    make_ready(fx, "large", 5000);
    make_ready(fx, "small", 30);
    assert_known(fx, "large", "500 0 at least"); /* its half of 1,000 */
    assert_known(fx, "small", "30 0 live");
    test_sql(fx, "SELECT tenon.count_depth()");
    make_ready(fx, "small", 1);
    assert_known(fx, "large", "5000 0 counted");
    assert_known(fx, "small", "31 0 live");
    test_sql(fx, "UPDATE tenon.depth_count SET counted_at = now() - interval '4 min'");
    assert_known(fx, "large", "5000 0 counted");
    test_sql(fx, "UPDATE tenon.depth_count SET counted_at = now() - interval '6 min'");
    assert_known(fx, "large", "500 0 at least");
    test_sql(fx, "UPDATE tenon.depth_count SET took_ms = 15000"); /* the next is due soon */
    assert_known(fx, "large", "5000 0 counted");
    test_sql(fx, "SELECT tenon.count_depth(); DELETE FROM tenon.task WHERE queue = 'large';"
                 "SELECT tenon.count_depth()");
    make_ready(fx, "large", 5000); /* more than the last count found */
    assert_known(fx, "large", "500 0 at least");
}

/* More dead tasks than are counted, also of a queue that has nothing else. */
static void test_the_dead(void **state)
{
    struct fixture *fx = *state;
    make_dead(fx, "old", "a", 30);
    make_dead(fx, "new", "b", 3000);
    make_ready(fx, "small", 30);
    test_sql(fx, "UPDATE tenon.dead SET dead_at = now() - interval '1 day' WHERE kind = 'a'");
    assert_known(fx, "new", "0 1000 at least");
    assert_known(fx, "small", "30 0 at least");
    test_sql(fx, "SELECT tenon.count_depth()");
    assert_known(fx, "new", "0 3000 counted");
    assert_known(fx, "old", "0 30 counted");
    assert_known(fx, "small", "30 0 counted");
}

/* Beyond 10,000 tasks tenon.demand goes by what was counted, without what is paused. */
static void test_demand_of_a_large_queue(void **state)
{
    struct fixture *fx = *state;
    make_ready(fx, "large", 30000);
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.backlog_seen('large')"), 10000);
    test_sql(fx, "SELECT tenon.count_depth()");
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.backlog_seen('large')"), 30000);
    test_sql(fx, "SELECT tenon.pause(kind => 'k1')");
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.backlog_seen('large')"), 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_every_state_is_counted),
        WITH_DATABASE(test_few_rows_are_written),
        WITH_DATABASE(test_names_without_end),
        WITH_DATABASE(test_what_is_known),
        WITH_DATABASE(test_the_dead),
        WITH_DATABASE(test_demand_of_a_large_queue),
    };
    return RUN_GROUP(tests);
}
