/* label: sql */
/* What a producer sees of the tasks that its own role enqueued: results, progress, lists, why. And
 * of no others. */
#include "tests/support/held.h"

#include "worker/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_lists_and_why(void **state)
{
    struct fixture *fx = *state;
    static const char *const grants[] = {"producer", "producer", "reader"};
    PGconn *conns[3];
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "CREATE ROLE %s_%d; SELECT tenon.grant_%s('%s_%d')", fx->database, i,
                 grants[i], fx->database, i);
        conns[i] = sql_connect(fx->database_url);
        sql_run(conns[i], "SET SESSION AUTHORIZATION %s_%d", fx->database, i);
    }
    long long a = sql_int(conns[0], "SELECT tenon.enqueue('a')");
    long long b = sql_int(conns[1], "SELECT tenon.enqueue('a')");
    assert_true(sql_bool(conns[0], "SELECT tenon.why(%lld) LIKE 'No living worker%%'", a));
    sql_fails(conns[1], "42501", "permission denied for task|a reader", "SELECT tenon.why(%lld)",
              a);
    assert_true(sql_bool(conns[2], "SELECT tenon.why(%lld) IS NOT NULL", a));
    assert_int_equal(sql_int(conns[0], "SELECT sum(id) FROM tenon.list()"), a);
    assert_int_equal(sql_int(conns[1], "SELECT sum(id) FROM tenon.list()"), b);
    assert_int_equal(sql_int(conns[2], "SELECT count(*) FROM tenon.list()"), 2);
    assert_int_equal(sql_int(conns[1], "SELECT n FROM tenon.count_tasks()"), 1);
    assert_int_equal(sql_int(conns[1],
                             "SELECT count(*) FROM tenon.list('{\"enqueued_by\": \"%s_0\", "
                             "\"ids\": %lld}')",
                             fx->database, a),
                     0);
    assert_int_equal(sql_int(conns[1], "SELECT count(*) FROM tenon.list('{\"ids\": %lld}')", a), 0);
    sql_run(conns[1], "SELECT tenon.cancel(%lld)", b);
    assert_true(sql_bool(conns[1], "SELECT tenon.why(%lld) LIKE 'It was cancelled%%'", b));
    sql_fails(conns[0], "42501", "permission denied for task", "SELECT tenon.why(%lld)", b);
    for (int i = 0; i < 3; i++) {
        PQfinish(conns[i]);
        test_sql(fx, "DROP OWNED BY %s_%d; DROP ROLE %s_%d", fx->database, i, fx->database, i);
    }
}

/* How often its progress was announced since the last call. */
static int told(PGconn *conn, long long id)
{
    int n = 0;
    sql_run(conn, "SELECT 1");
    for (PGnotify *notify; (notify = PQnotifies(conn)); PQfreemem(notify)) {
        n += strcmp(notify->relname, "tenon_progress") == 0 &&
             strtoll(notify->extra, NULL, 10) == id;
    }
    return n;
}

/* As a worker writes it, and as a handler does by SQL. */
static void write_progress(struct fixture *fx, const struct held *c, const char *value)
{
    char ids[32], keys[32], lines[128];
    (void)snprintf(ids, sizeof ids, "{%lld}", (long long)c->id);
    (void)snprintf(keys, sizeof keys, "{%lld}", (long long)c->key);
    (void)snprintf(lines, sizeof lines, "{\"{\\\"progress\\\": %s}\"}", value);
    const char *const params[] = {ids, keys, lines, "{NULL}"};
    PGresult *r = statement_run(fx->conn, &sql_progress, params, 4);
    assert_string_equal(PQgetvalue(r, 0, 1), "t");
    PQclear(r);
}

static void test_progress_is_announced(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    PGconn *watcher = sql_connect(fx->database_url);
    sql_run(watcher, "LISTEN tenon_progress");
    held_new(fx, &c);
    write_progress(fx, &c, "1");
    sql_run(watcher, "SELECT tenon.await(%lld)", (long long)c.id);
    write_progress(fx, &c, "2");
    assert_int_equal(told(watcher, c.id), 0); /* nobody watches it */
    assert_true(sql_bool(watcher,
                         "SELECT progress = '2' AND state = 'running' FROM "
                         "tenon.await(%lld, watch => true)",
                         (long long)c.id));
    write_progress(fx, &c, "3");
    assert_int_equal(told(watcher, c.id), 1);
    assert_true(
        sql_bool(watcher, "SELECT progress = '3' FROM tenon.result(%lld)", (long long)c.id));
    char claim[HELD_TEXT_BYTES];
    held_text(&c, claim);
    test_sql(fx, "SELECT tenon.progress('%s', '4')", claim);
    assert_int_equal(told(watcher, c.id), 1);
    assert_true(held_finish(fx, &sql_finish, &c, "{\"result\": 5}"));
    assert_true(sql_bool(watcher,
                         "SELECT progress IS NULL AND result = '5' FROM tenon.result(%lld)",
                         (long long)c.id));
    PQfinish(watcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_lists_and_why),
        WITH_DATABASE(test_progress_is_announced),
    };
    return RUN_GROUP(tests);
}
