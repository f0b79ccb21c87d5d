/* label: sql */
/* poll.sql by age: what it takes first, and how little it reads for that. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>

/* ret: how many it claims */
static int look(struct fixture *fx, const char *worker, const char *queues, int n, const char *from)
{
    char text[12];
    (void)snprintf(text, sizeof text, "%d", n);
    const char *const params[] = {worker, queues, "{a}", text, from, "true"};
    PGresult *result = statement_run(fx->conn, &sql_poll, params, 6);
    int claimed = PQntuples(result);
    PQclear(result);
    return claimed;
}

/* Tasks as many minutes old as their payloads say, in different queues and priorities; of the
 * oldest two, one runs and one is of a kind that is not served. */
static void make_old_ones(struct fixture *fx, const char *worker)
{
    test_sql(fx, "SELECT tenon.enqueue(k, to_jsonb(age), priority => p, queue => q) FROM (VALUES"
                 " ('a', 'default', 9, 50), ('a', 'default', 9, 20), ('a', 'default', 0, 60),"
                 " ('a', 'default', 0, 10), ('a', 'second', 4, 40), ('a', 'second', 4, 30),"
                 " ('a', 'second', 4, 80), ('b', 'second', 4, 70)) t (k, q, p, age)");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() - make_interval(mins => payload::int)");
    test_sql(fx, "UPDATE tenon.task SET start_time = now(), worker_id = '%s' WHERE payload = '80'",
             worker);
}

/* Look once more; the ages of all that was claimed so far. */
static void look_again(struct fixture *fx, const char *worker, int n, const char *from,
                       const char *want)
{
    (void)look(fx, worker, "{default,second}", n, from);
    char *ages = test_sql_text(fx, "SELECT string_agg(payload::text, ' ' ORDER BY payload DESC)"
                                   " FROM tenon.task WHERE claims = 1");
    assert_string_equal(ages, want);
    free(ages);
}

/* First from where the next task is the oldest, whatever its priority and queue, and on there
 * before anything is compared again. */
static void test_where_the_oldest_waits_comes_first(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    make_old_ones(fx, worker);
    look_again(fx, worker, 3, "{}", "60 50 10");
    look_again(fx, worker, 2, "{}", "60 50 40 30 10");
    look_again(fx, worker, 2, "{}", "60 50 40 30 20 10");
}

static void test_it_begins_at_the_bounds(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    make_old_ones(fx, worker);
    char *from = test_sql_text(fx,
                               "SELECT array_agg(CASE WHEN p = 0 THEN extract(epoch FROM now() -"
                               " interval '45 min') * 1000000 ELSE 0 END::bigint ORDER BY p)"
                               " FROM generate_series(0, 19) p");
    look_again(fx, worker, 2, from, "50 20");
    free(from);
}

static void test_it_does_not_look_where_the_bound_is_null(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    make_old_ones(fx, worker);
    look_again(fx, worker, 10,
               "{0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL}",
               "60 40 30 10");
    look_again(fx, worker, 10, "{}", "60 50 40 30 20 10");
}

/* Rows that one look at all queues reads, which claims so many. */
static int64_t rows_read(struct fixture *fx, int n, int claims)
{
    static const char read[] = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables"
                               " WHERE relid = 'tenon.task'::regclass";
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    char *queues = test_sql_text(fx, "SELECT array_agg(DISTINCT queue) FROM tenon.task");
    test_sql(fx, "SET enable_seqscan = off; BEGIN");
    int64_t before = test_sql_int(fx, read);
    assert_int_equal(look(fx, worker, queues, n, "{}"), claims);
    int64_t rows = test_sql_int(fx, read) - before;
    test_sql(fx, "COMMIT");
    free(queues);
    return rows;
}

static void test_it_compares_one_task_per_queue(void **state)
{
    enum { QUEUES = 50, WAITING = 100, TAKEN = 60 };
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[%d]), queue => 'q' || n)"
             " FROM generate_series(1, %d) n",
             WAITING, QUEUES);
    assert_in_range(rows_read(fx, TAKEN, TAKEN), TAKEN, QUEUES + 4 * TAKEN);
}

/* Each range is walked over once, also where nothing is found. Older tasks, of a kind that this
 * worker does not run, lie before those that it does, and fill a queue of their own. */
static void test_it_walks_once(void **state)
{
    enum { QUEUES = 50, BEFORE = 20, ALONE = 1000, WALK = QUEUES * (BEFORE + 1) + ALONE };
    struct fixture *fx = *state;
    test_sql(fx,
             "SELECT tenon.enqueue_many('b', array_fill('1'::jsonb, ARRAY[CASE n WHEN 0 THEN %d"
             " ELSE %d END]), queue => 'q' || n) FROM generate_series(0, %d) n",
             ALONE, BEFORE, QUEUES);
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'q' || n) FROM generate_series(1, %d) n",
             QUEUES);
    assert_in_range(rows_read(fx, QUEUES + 10, QUEUES), WALK, WALK + 4 * QUEUES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_where_the_oldest_waits_comes_first),
        WITH_DATABASE(test_it_begins_at_the_bounds),
        WITH_DATABASE(test_it_does_not_look_where_the_bound_is_null),
        WITH_DATABASE(test_it_compares_one_task_per_queue),
        WITH_DATABASE(test_it_walks_once),
    };
    return RUN_GROUP(tests);
}
