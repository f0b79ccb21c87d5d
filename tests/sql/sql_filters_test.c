/* label: sql */
/* timeout: 120 */
/* Filters of an operator that go by flows and keys of limits; and that lists read few rows beside
 * many others. The other filters are in sql_operators_test. */
#include "tests/support/held.h"
#include "tests/support/rows.h"

#include "cli/statements.h"
#include "core/db/db.h"

#include <stdio.h>

/* Each is named by one letter, the key "n" of its payload. */
static int64_t place(struct fixture *fx, char name, const char *kind, const char *arguments)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s', '{\"n\": \"%c\", \"tags\": [\"%c\"]}'%s)",
                        kind, name, name, arguments);
}

/* It is claimed, and says that it can never work. */
static void die(struct fixture *fx, int64_t id)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, id, &c));
    free(held_requeue(fx, &c, "dead", "it broke", NULL));
}

/* p a parent, q and r its children, of which r has a key and waits for p; t and u wait at the key,
 * v has another one; of those that had it x is cancelled and y dead. */
static const struct {
    const char *filter, *names;
} together[] = {
    {"{\"flow\": 1}", "pqr"},
    {"{\"flow\": \"1\"}", "pqr"},
    {"{\"flow\": 2}", ""},
    {"{\"flow\": 1, \"state\": \"blocked\"}", "qr"},
    {"{\"flow\": 1, \"ids\": [1, 2, 4]}", "pq"},
    {"{\"flow\": 1, \"limit_key\": \"t:1\"}", "r"},
    {"{\"limit_key\": \"t:1\"}", "rtu"},
    {"{\"limit_key\": \"t:2\"}", "tv"},
    {"{\"limit_key\": \"t\"}", ""},
    {"{\"limit_key\": \"t:1\", \"kind\": \"b\"}", "u"},
    {"{\"limit_key\": \"t:1\", \"ids\": [5, 6]}", "u"},
    {"{\"limit_key\": \"t:1\", \"state\": \"dead\"}", "y"},
    {"{\"limit_key\": \"t:1\", \"state\": [\"dead\", \"cancelled\", \"ready\", \"blocked\"]}",
     "rtuxy"},
};

static void place_together(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.flow('f'), tenon.set_limit('t', max_running => 1)");
    (void)place(fx, 'p', "a", ", flow => 1");
    (void)place(fx, 'q', "a", ", flow => 1, depends_on => '{1}'");
    (void)place(fx, 'r', "a", ", flow => 1, depends_on => '{1}', limit_keys => '{t:1}'");
    (void)place(fx, 't', "a", ", limit_keys => '{t:1,t:2}'");
    (void)place(fx, 'v', "a", ", limit_keys => '{t:2}'");
    (void)place(fx, 'u', "b", ", limit_keys => '{t:1}'");
    test_sql(fx, "SELECT tenon.cancel(%lld)",
             (long long)place(fx, 'x', "a", ", limit_keys => '{t:1}'"));
    int64_t id = place(fx, 'y', "a", ", limit_keys => '{t:3}'");
    test_sql(fx, "SELECT tenon.settle()");
    die(fx, id);
    test_sql(fx, "UPDATE tenon.dead SET limit_keys = '{t:1}'");
}

static void test_filters_by_flow_and_key(void **state)
{
    struct fixture *fx = *state;
    place_together(fx);
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        char *got = rows_named(fx, together[i].filter);
        if (strcmp(got, together[i].names) != 0) {
            fail_msg("%s finds \"%s\" and not \"%s\"", together[i].filter, got, together[i].names);
        }
        free(got);
    }
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('{\"limit_key\": \"t:1\"}')"), 3);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"limit_key\": \"t:1\"}')"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('{\"flow\": 1}')"), 2);
    char *left = test_sql_text(fx, "SELECT string_agg(payload ->> 'n', '' ORDER BY payload ->> 'n')"
                                   " FROM tenon.tasks WHERE state <> 'cancelled'");
    assert_string_equal(left, "vy");
    free(left);
}

static int64_t rows_read(PGconn *conn)
{
    return sql_int(conn, "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
                         " FROM pg_stat_xact_user_tables WHERE schemaname = 'tenon'");
}

/* Run a statement of a command in a session like its own; how many rows does it read? */
static int64_t cost_of(struct fixture *fx, const struct statement *st, const char *const *params,
                       int n)
{
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "%s", db_session_hot);
    sql_run(conn, "BEGIN");
    int64_t before = rows_read(conn);
    PGresult *result = statement_run(conn, st, params, n);
    assert_true(PQntuples(result) > 0);
    PQclear(result);
    int64_t rows = rows_read(conn) - before;
    PQfinish(conn);
    return rows;
}

/* Every task of them once, over pages, both ways, and beside many others few rows are read. */
static void test_pages_by_flow_and_key(void **state)
{
    struct fixture *fx = *state;
    static const char *const filters_of[] = {"{\"flow\": 1}", "{\"limit_key\": \"t:1\"}"};
    test_sql(fx, "SELECT tenon.flow('f'); SELECT tenon.enqueue_many('a', array_fill('1'::jsonb,"
                 " '{20000}'))");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{1500}'), flow => 1),"
                 " tenon.enqueue_many('a', array_fill('1'::jsonb, '{1500}'), limit_keys =>"
                 " '{t:1}')");
    test_sql(fx, "ANALYZE tenon.task, tenon.flow_task, tenon.limit_task");
    for (size_t i = 0; i < sizeof filters_of / sizeof *filters_of; i++) {
        assert_true(cost_of(fx, &sql_list,
                            (const char *const[]){filters_of[i], NULL, "50", "false"}, 4) < 6000);
        test_sql(fx, "CREATE TABLE public.seen (id bigint PRIMARY KEY)");
        for (int64_t n = 1; n > 0;) {
            n = test_sql_int(fx,
                             "WITH p AS (INSERT INTO public.seen SELECT id FROM tenon.list('%s',"
                             " (SELECT min(id) FROM public.seen), 700) RETURNING 1) "
                             "SELECT count(*) FROM p",
                             filters_of[i]);
        }
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.seen"), 1500);
        test_sql(fx, "DROP TABLE public.seen");
        assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('%s', 1400)", filters_of[i]),
                         1400);
        assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('%s', 1400)", filters_of[i]),
                         100);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 20000);
}

/* A page, a preview, and dead tasks beside many that wait. */
static void test_lists_read_few_rows(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{20000}'))");
    die(fx, place(fx, 'x', "b", ""));
    test_sql(fx, "ANALYZE tenon.task, tenon.dead, tenon.history");
    assert_true(cost_of(fx, &sql_list, (const char *const[]){"{}", NULL, "50", "false"}, 4) < 2000);
    assert_true(cost_of(fx, &sql_list,
                        (const char *const[]){"{\"state\": \"dead\"}", NULL, "50", "false"},
                        4) < 20);
    assert_true(cost_of(fx, &sql_act_preview,
                        (const char *const[]){"{\"kind\": \"b\"}", "retry", "{17,18}", NULL, "500"},
                        5) < 20);
    assert_true(
        cost_of(fx, &sql_act_preview,
                (const char *const[]){"{\"ids\": [17, 18]}", "cancel", "{17,18}", NULL, "500"},
                5) < 30);
    int64_t before = (test_sql(fx, "BEGIN"), rows_read(fx->conn));
    test_sql(fx, "SELECT * FROM tenon.list('{\"kind\": \"a\"}', most => 10)");
    assert_true(rows_read(fx->conn) - before < 2000);
    test_sql(fx, "ROLLBACK");
}

/* A few tasks of each sort, and 100,000 others that are newer. */
static void place_before_many(struct fixture *fx)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    test_sql(fx, "SELECT tenon.flow('f')");
    assert_true(held_take(fx, worker, place(fx, 'u', "b", ", flow => 1"), &c));
    assert_true(held_take(fx, worker, place(fx, 't', "b", ""), &c));
    free(held_requeue(fx, &c, "failed", "Timeout: slow", "3600000"));
    (void)place(fx, 's', "a", ", delay => '1 h'");
    (void)place(fx, 'b', "a", ", flow => 1, depends_on => '{1}'");
    (void)place(fx, 'q', "a", ", queue => 'billing', unique_key => 'k'");
    (void)place(fx, 'e', "a", ", start_before => now() + interval '1 h'");
    test_sql(fx, "UPDATE tenon.task SET start_before = now() WHERE start_before IS NOT NULL");
    test_sql(fx, "SELECT tenon.cancel(%lld)",
             (long long)place(fx, 'c', "a", ", unique_key => 'h'"));
    die(fx, place(fx, 'x', "b", ", unique_key => 'd'"));
    for (int i = 0; i < 5; i++) {
        test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{20000}'))");
    }
    test_sql(fx, "ANALYZE tenon.task, tenon.dead, tenon.history");
}

static const struct {
    const char *filter, *names;
} by_index[] = {
    {"{\"state\": \"retrying\"}", "t"},
    {"{\"state\": \"scheduled\"}", "s"},
    {"{\"state\": [\"scheduled\", \"retrying\"], \"kind\": \"b\"}", "t"},
    {"{\"state\": \"blocked\"}", "b"},
    {"{\"state\": [\"blocked\", \"scheduled\", \"dead\"]}", "bsx"},
    {"{\"state\": \"cancelled\"}", "c"},
    {"{\"state\": \"expired\"}", "e"},
    {"{\"state\": \"dead\", \"kind\": \"b\"}", "x"},
    {"{\"state\": [\"ready\", \"running\"], \"queue\": \"billing\"}", "q"},
    {"{\"error\": \"Timeout\"}", "t"},
    {"{\"error\": [\"Timeout\", \"it\"]}", "tx"},
    {"{\"unique_key\": \"k\"}", "q"},
    {"{\"unique_key\": \"h\"}", "c"},
    {"{\"unique_key\": \"d\", \"kind\": \"b\"}", "x"},
    {"{\"unique_key\": \"none\"}", ""},
};

/* What few tasks fit is found by an index, whatever stands before it. */
static void test_lists_find_by_index(void **state)
{
    struct fixture *fx = *state;
    place_before_many(fx);
    for (size_t i = 0; i < sizeof by_index / sizeof *by_index; i++) {
        const char *filter = by_index[i].filter;
        char *got = rows_named(fx, filter);
        int64_t rows = cost_of(fx, &sql_list, (const char *const[]){filter, NULL, "50", "false"},
                               4);
        if (strcmp(got, by_index[i].names) != 0 || rows > 100) {
            fail_msg("%s finds \"%s\" and not \"%s\", reading %lld rows", filter, got,
                     by_index[i].names, (long long)rows);
        }
        free(got);
    }
}

/* One answer is what a piece of reading finds; with all of them nothing is missing, each has come
 * further than the one before, and the first of them has the oldest where they are asked for. */
static void test_a_search_comes_to_its_end(void **state)
{
    static const char *const filters_of[] = {"{\"state\": \"running\"}",
                                             "{\"kind\": \"b\", \"state\": \"running\"}",
                                             "{\"payload\": \"$.n == \\\"u\\\"\"}"};
    struct fixture *fx = *state;
    place_before_many(fx);
    for (size_t i = 0; i < sizeof filters_of / sizeof *filters_of; i++) {
        char next[24] = "NULL";
        double share = 0;
        int64_t found = 0, answers = 0;
        while (*next) {
            char *answer = test_sql_text(fx,
                                         "SELECT format('%%s %%s %%s', cardinality(ids), share,"
                                         " next) FROM tenon.find('%s', NULL, %s, 50, 0)",
                                         filters_of[i], next);
            double before = share;
            long long n;
            next[0] = '\0';
            assert_true(sscanf(answer, "%lld %lf %23s", &n, &share, next) >= 2);
            assert_true(share > before);
            found += n;
            answers++;
            free(answer);
        }
        assert_int_equal(found, 1);
        assert_true(share == 1 && answers > 50);
        assert_true(test_sql_bool(fx,
                                  "SELECT ids = '{1}' AND share < 0.1 FROM tenon.find('%s',"
                                  " limit_ms => 0, oldest => true)",
                                  filters_of[i]));
    }
    assert_true(test_sql_bool(fx, "SELECT array_agg(id) = '{1,2,3}' FROM (SELECT id FROM"
                                  " tenon.list(most => 3, oldest => true)) l"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_filters_by_flow_and_key),   WITH_DATABASE(test_pages_by_flow_and_key),
        WITH_DATABASE(test_lists_read_few_rows),       WITH_DATABASE(test_lists_find_by_index),
        WITH_DATABASE(test_a_search_comes_to_its_end),
    };
    return RUN_GROUP(tests);
}
