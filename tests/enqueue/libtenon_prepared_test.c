/* label: e2e */
/* tenon_prepare_statement(): the statement is used, and a session that lost it harms nobody. */
#include "tests/support/producer.h"

static int64_t executions(PGconn *conn)
{
    return sql_int(conn, "SELECT coalesce(sum(generic_plans + custom_plans), -1) FROM "
                         "pg_prepared_statements WHERE name = 'tenon.enqueue'");
}

static void enqueue_in_transaction(tenon *t, PGconn *conn)
{
    sql_run(conn, "BEGIN");
    (void)enqueue(t, conn);
    assert_code(tenon_commit(t, conn), TENON_OK);
}

static void test_it_is_used(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    (void)enqueue(t, fx->conn);
    assert_int_equal(executions(fx->conn), -1);
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK); /* it is there */
    (void)enqueue(t, fx->conn);
    enqueue_in_transaction(t, fx->conn);
    assert_int_equal(executions(fx->conn), 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 3);
    tenon_free(t);
}

static void test_it_outlives_a_rollback(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    sql_run(fx->conn, "BEGIN");
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    assert_code(tenon_rollback(t, fx->conn), TENON_OK);
    enqueue_in_transaction(t, fx->conn);
    assert_int_equal(executions(fx->conn), 1);
    tenon_free(t);
}

static void test_a_connection_that_is_reset(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    PQreset(fx->conn);
    enqueue_in_transaction(t, fx->conn);
    assert_int_equal(executions(fx->conn), -1);
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    enqueue_in_transaction(t, fx->conn);
    assert_int_equal(executions(fx->conn), 1);
    tenon_free(t);
}

static void test_a_session_that_loses_it(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    tenon_task task = task_of("mail");
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    sql_run(fx->conn, "DISCARD ALL");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_OK);
    sql_run(fx->conn, "DEALLOCATE ALL; BEGIN");
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_RETRY);
    assert_int_equal(PQtransactionStatus(fx->conn), PQTRANS_INERROR);
    assert_contains(tenon_errmsg(), "tenon.enqueue");
    assert_code(tenon_rollback(t, fx->conn), TENON_OK);
    enqueue_in_transaction(t, fx->conn);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 2);
    tenon_free(t);
}

static void test_a_session_that_has_such_a_name(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    sql_run(fx->conn, "PREPARE \"tenon.enqueue\" AS SELECT 1");
    assert_code(tenon_prepare_statement(t, fx->conn), TENON_FAILED);
    assert_contains(tenon_errmsg(), "already exists");
    enqueue_in_transaction(t, fx->conn);
    assert_code(tenon_prepare_statement(t, NULL), TENON_MISUSE);
    assert_code(tenon_prepare_statement(NULL, fx->conn), TENON_MISUSE);
    tenon_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_it_is_used),
        WITH_DATABASE(test_it_outlives_a_rollback),
        WITH_DATABASE(test_a_connection_that_is_reset),
        WITH_DATABASE(test_a_session_that_loses_it),
        WITH_DATABASE(test_a_session_that_has_such_a_name),
    };
    return RUN_GROUP(tests);
}
