/* label: e2e */
/* After each code that enqueueing can return: can the caller's transaction go on, or must it be
 * rolled back? As include/tenon/tenon.h says. */
#include "tests/support/producer.h"

struct stage {
    struct fixture *fx;
    tenon *t;
    PGconn *other; /* holds a lock on the table of tasks where one is needed */
};

/* One row of the caller's own, one call, and what it left behind. */
static void call(struct stage *g, const char *before, const char *kind, int code, bool goes_on)
{
    PGconn *conn = g->fx->conn;
    tenon_task task = task_of(kind);
    static const char *const payloads[] = {"1", "2"};
    for (int many = 0; many < 2; many++) {
        sql_run(conn, "BEGIN; INSERT INTO public.own VALUES (1); SAVEPOINT s; %s", before);
        int got = many ? tenon_enqueue_many(g->t, conn, &task, payloads, NULL, 2, NULL)
                       : tenon_enqueue(g->t, conn, &task, NULL);
        if (got != code) {
            fail_msg("%s, not %s: %s", tenon_strerror(got), tenon_strerror(code), tenon_errmsg());
        }
        assert_int_equal(PQtransactionStatus(conn), goes_on ? PQTRANS_INTRANS : PQTRANS_INERROR);
        sql_run(conn,
                "ROLLBACK TO s; INSERT INTO public.own VALUES (1)"); /* a savepoint always helps */
        if (goes_on) {
            assert_code(tenon_commit(g->t, conn), TENON_OK);
        } else {
            assert_code(tenon_rollback(g->t, conn), TENON_OK);
        }
        assert_int_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
        assert_int_equal(sql_int(conn, "SELECT count(*) FROM public.own"), goes_on ? 2 : 0);
        sql_run(conn, "DELETE FROM public.own");
    }
}

static void test_what_each_code_leaves(void **state)
{
    struct stage g = {.fx = *state};
    struct fixture *fx = g.fx;
    g.t = tenon_new("none");
    g.other = sql_connect(fx->database_url);
    test_sql(fx, "CREATE TABLE public.own (n integer)");
    test_sql(fx, "CREATE FUNCTION public.raise() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN RAISE EXCEPTION 'no'; END $$");
    call(&g, "SELECT 1", NULL, TENON_MISUSE, true);
    call(&g, "SELECT 1", "ma il", TENON_REFUSED, false);
    call(&g, "DROP SCHEMA tenon CASCADE", "mail", TENON_SCHEMA, false);
    call(&g, "CREATE TRIGGER raise BEFORE INSERT ON tenon.task EXECUTE FUNCTION public.raise()",
         "mail", TENON_FAILED, false);
    sql_run(g.other, "BEGIN; LOCK TABLE tenon.task");
    call(&g, "SET LOCAL lock_timeout = 20", "mail", TENON_RETRY, false);
    sql_run(g.other, "ROLLBACK");
    tenon_free(g.t);
    PQfinish(g.other);
}

/* A call in a transaction that has failed already. */
static void test_aborted(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    tenon_task task = task_of("mail");
    test_sql(fx, "BEGIN");
    test_sql_fails(fx, "22012", "zero", "SELECT 1 / 0");
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_ABORTED);
    assert_int_equal(PQtransactionStatus(fx->conn), PQTRANS_INERROR);
    assert_code(tenon_commit(t, fx->conn), TENON_ROLLED_BACK);
    assert_int_equal(PQtransactionStatus(fx->conn), PQTRANS_IDLE);
    tenon_free(t);
}

/* A role that may not. */
static void test_denied(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    tenon_task task = task_of("mail");
    test_sql(fx, "BEGIN; CREATE ROLE nobody_of_tenon; SET LOCAL ROLE nobody_of_tenon");
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_DENIED);
    assert_int_equal(PQtransactionStatus(fx->conn), PQTRANS_INERROR);
    assert_code(tenon_rollback(t, fx->conn), TENON_OK);
    tenon_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_each_code_leaves),
        WITH_DATABASE(test_aborted),
        WITH_DATABASE(test_denied),
    };
    return RUN_GROUP(tests);
}
