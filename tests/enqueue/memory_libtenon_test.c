/* label: e2e */
/* timeout: 180 */
/* only: all */
/* libtenon and a database session without memory, on real servers: every allocation of ours fails
 * in its turn. What failed says so, what succeeded is there, and nothing leaks. */
#include "tests/support/nth.h"
#include "tests/support/producer.h"

#include "core/db/db.h"
#include "worker/statements.h"

enum { MANY = 3 };

static void judge(int code)
{
    if (code != TENON_OK && (code != TENON_MEMORY || !nth_struck())) {
        fail_msg("%s: %s", tenon_strerror(code), tenon_errmsg());
    }
}

/* A transaction of four tasks; returns how many must be there after its commit. */
static int64_t transact(tenon *t, PGconn *conn)
{
    static const char *const payloads[MANY] = {"1", "{\"b\": \"\\\"\"}", NULL};
    tenon_task task = task_of("mail");
    int64_t placed = 0;
    sql_run(conn, "BEGIN");
    int code = tenon_enqueue(t, conn, &task, NULL);
    judge(code);
    placed += code == TENON_OK;
    code = tenon_enqueue_many(t, conn, &task, payloads, NULL, MANY, NULL);
    judge(code);
    placed += code == TENON_OK ? MANY : 0;
    judge(tenon_commit(t, conn));
    return placed;
}

static void run_libtenon(void *arg)
{
    struct fixture *fx = arg;
    int64_t before = tasks(fx);
    tenon *t = tenon_new(fx->amqp_url);
    if (!t) {
        judge(TENON_MEMORY);
        assert_contains(tenon_errmsg(), "memory");
        return;
    }
    int64_t placed = transact(t, fx->conn);
    int code = tenon_flush(t, LIMIT_MS * PATIENCE);
    assert_true(code == TENON_OK || (code == TENON_UNPUBLISHED && nth_struck()));
    tenon_free(t);
    nth_stop();
    assert_int_equal(tasks(fx) - before, placed);
}

static void test_libtenon(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default/mail");
    broker_close(b);
    long n = nth_each(run_libtenon, fx);
    print_message("libtenon: %ld allocations failed\n", n);
    assert_true(n > 5);
}

static void run_db(void *arg)
{
    const struct fixture *fx = arg;
    struct fault f = {0};
    struct db *db = NULL;
    struct rows *rows = NULL;
    const char *const params[] = {"00000000-0000-0000-0000-000000000000"};
    bool ok = db_open(fx->database_url, DB_HOT, "test", &db, &f) &&
              db_exec(db, &sql_own, params, 1, &rows, &f);
    if (!ok && (f.code != FAULT_MEMORY || !nth_struck())) {
        fail_msg("%s: %s", fault_word(f.code), f.text);
    }
    rows_free(rows);
    db_close(db);
}

static void test_db(void **state)
{
    assert_true(nth_each(run_db, *state) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_libtenon), WITH_DATABASE(test_db)};
    return RUN_GROUP(tests);
}
