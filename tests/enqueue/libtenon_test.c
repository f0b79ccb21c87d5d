/* label: e2e */
/* timeout: 120 */
/* libtenon on real servers: what is published when, and what a caller is told. */
#include "tests/support/producer.h"

#include <inttypes.h>

/* --- transactions ----------------------------------------------------------------------------- */

static void test_commit_publishes(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "BEGIN");
    int64_t first = enqueue(t, fx->conn);
    int64_t second = enqueue(t, fx->conn);
    assert_true(second > first);
    assert_arrived(t, b, 0); /* not before the commit */
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_arrived(t, b, 2);
    assert_int_equal(tasks(fx), 2);
    assert_true(test_sql_bool(fx, "SELECT bool_and(announced) FROM tenon.task"));
    tenon_free(t);
    broker_close(b);
}

static void test_rollback_forgets(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_rollback(t, fx->conn), TENON_OK);
    test_sql(fx, "BEGIN");
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_arrived(t, b, 0);
    assert_int_equal(tasks(fx), 0);
    assert_code(tenon_rollback(t, fx->conn), TENON_OK); /* none is open: nothing to do */
    tenon_free(t);
    broker_close(b);
}

static void test_without_a_transaction(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 1);
    assert_code(tenon_commit(t, fx->conn), TENON_MISUSE);
    tenon_free(t);
    broker_close(b);
}

/* A COMMIT of a failed transaction succeeds, as far as libpq is concerned. */
static void test_a_failed_transaction(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    PQclear(PQexec(fx->conn, "SELECT 1/0"));
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_ABORTED);
    assert_code(tenon_commit(t, fx->conn), TENON_ROLLED_BACK);
    assert_arrived(t, b, 0);
    assert_int_equal(tasks(fx), 0);
    tenon_free(t);
    broker_close(b);
}

static void test_a_commit_that_fails(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "CREATE TABLE u (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    test_sql(fx, "BEGIN");
    test_sql(fx, "INSERT INTO u VALUES (1), (1)");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_commit(t, fx->conn), TENON_REFUSED);
    assert_contains(tenon_errmsg(), "duplicate key");
    assert_arrived(t, b, 0);
    assert_int_equal(tasks(fx), 0);
    tenon_free(t);
    broker_close(b);
}

static void test_savepoints(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    test_sql(fx, "SAVEPOINT s");
    (void)enqueue(t, fx->conn);
    test_sql(fx, "ROLLBACK TO s");
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_arrived(t, b, 2); /* one for nothing, as tenon.h says */
    assert_int_equal(tasks(fx), 1);
    tenon_free(t);
    broker_close(b);
}

static void test_callers_that_commit_themselves(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    test_sql(fx, "COMMIT");
    assert_arrived(t, b, 0);
    tenon_committed(t, fx->conn);
    assert_arrived(t, b, 1);
    tenon_committed(t, fx->conn); /* once is enough */
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    test_sql(fx, "ROLLBACK");
    tenon_forget(t, fx->conn);
    tenon_committed(t, fx->conn);
    assert_arrived(t, b, 1);
    /* one who forgot to say: the next call on the connection finds out that it ended */
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    test_sql(fx, "COMMIT");
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 3);
    tenon_free(t);
    broker_close(b);
}

static void test_a_lost_session(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "BEGIN");
    (void)enqueue(t, conn);
    test_sql(fx, "SELECT pg_terminate_backend(%d, 5000)", PQbackendPID(conn));
    assert_code(tenon_commit(t, conn), TENON_UNKNOWN);
    assert_arrived(t, b, 1); /* it may have committed */
    assert_code(tenon_enqueue(t, conn, &task, NULL), TENON_RETRY);
    assert_int_equal(tenon_should_retry(TENON_RETRY), 1);
    assert_int_equal(tenon_should_retry(TENON_REFUSED), 0);
    PQfinish(conn);
    tenon_free(t);
    broker_close(b);
}

/* Known to be lost before the commit was sent: rolled back, so there is nothing to publish. */
static void test_a_session_lost_before_the_commit(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "BEGIN");
    (void)enqueue(t, conn);
    test_sql(fx, "SELECT pg_terminate_backend(%d, 5000)", PQbackendPID(conn));
    PQclear(PQexec(conn, "SELECT 1"));
    assert_code(tenon_commit(t, conn), TENON_RETRY);
    tenon_committed(t, conn); /* as if the next connection had this address */
    assert_arrived(t, b, 0);
    PQfinish(conn);
    tenon_free(t);
    broker_close(b);
}

/* --- what is published ------------------------------------------------------------------------ */

static void test_future_tasks_are_left_to_the_cleaner(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    task.delay_ms = 60000;
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_OK);
    task.delay_ms = 0;
    task.run_at = "2030-01-31 08:00+01";
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_OK);
    assert_arrived(t, b, 0);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE delayed AND NOT announced"), 2);
    tenon_free(t);
    broker_close(b);
}

static void test_every_field(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    int64_t id, again;
    broker_spy(b, "other/mail", "other/mail");
    task.payload = "{\"a\": \"\\\\ \\\" '\"}";
    task.queue = "other";
    task.priority = 0;
    task.max_attempts = 3;
    task.timeout_ms = 1500;
    task.unique_key = "key";
    task.trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_code(tenon_enqueue(t, fx->conn, &task, &id), TENON_OK);
    assert_true(test_sql_bool(
        fx, "SELECT payload = '{\"a\": \"\\\\ \\\" ''\"}' AND queue = 'other' AND priority = 0"
            " AND max_attempts = 3 AND timeout_ms = 1500 AND unique_key = 'key' AND trace LIKE "
            "'00-0af%%' FROM tenon.task"));
    assert_code(tenon_enqueue(t, fx->conn, &task, &again), TENON_OK);
    assert_int_equal(again, id); /* who holds the key */
    assert_arrived(t, b, 0);
    assert_true(broker_depth(b, "other/mail") >= 1);
    tenon_free(t);
    broker_close(b);
}

/* The last of those under a key counts, its payload joined to the first one's; the first one is
 * 80 s old by then, and so waits 10 s and not a minute. */
static void test_fields_of_a_unique_key(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    int64_t id, again;
    task.payload = "{\"a\": 1, \"b\": 1}";
    task.unique_key = "key";
    task.on_conflict = "merge";
    task.unique_for_ms = 3600000;
    task.debounce_ms = 60000;
    task.debounce_max_ms = 90000;
    task.start_before = "2099-01-31 08:00+01";
    task.retry = "constant(1 min, 1 min, 0 %)";
    assert_code(tenon_enqueue(t, fx->conn, &task, &id), TENON_OK);
    assert_true(test_sql_bool(
        fx, "SELECT start_before = '2099-01-31 07:00Z' AND retry = 'constant(1 min, 1 min, 0 %%)'"
            " AND run_at - created_at BETWEEN '59 s' AND '61 s' AND (SELECT until - t.created_at"
            " BETWEEN '59 min' AND '61 min' AND h.id = t.id FROM tenon.unique_hold h)"
            " FROM tenon.task t"));
    test_sql(fx, "UPDATE tenon.task SET created_at = created_at - interval '80 s'");
    task.payload = "{\"b\": 2}";
    assert_code(tenon_enqueue(t, fx->conn, &task, &again), TENON_OK);
    assert_int_equal(again, id);
    assert_true(test_sql_bool(fx, "SELECT payload = '{\"a\": 1, \"b\": 2}' AND"
                                  " run_at - created_at = interval '90 s' FROM tenon.task"));
    tenon_free(t);
    broker_close(b);
}

/* A child of a task of the same transaction, and many of them; what waits is not published. */
static void test_flows(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    int64_t parent, children[3];
    tenon_task task = task_of("mail");
    test_sql(fx, "BEGIN");
    task.flow = test_sql_int(fx, "SELECT tenon.flow('one')");
    assert_code(tenon_enqueue(t, fx->conn, &task, &parent), TENON_OK);
    task.depends_on = &parent;
    task.n_depends_on = 1;
    task.on_parent_dead = "run";
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_OK);
    const char *const payloads[] = {"1", "2", "3"};
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 3, children), TENON_OK);
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_arrived(t, b, 1);
    assert_true(
        test_sql_bool(fx,
                      "SELECT count(*) = 4 AND bool_and(w.on_dead = 'run' AND w.parent ="
                      " %lld AND t.state = 'blocked' AND t.flow = %lld) FROM tenon.flow_wait"
                      " w JOIN tenon.tasks t ON t.id = w.task",
                      (long long)parent, (long long)task.flow));
    task.flow = 0;
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_REFUSED);
    assert_contains(tenon_errmsg(), "depends_on and on_parent_dead require flow");
    tenon_free(t);
    broker_close(b);
}

static void test_the_queue_of_the_kind(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    const char *const payloads[] = {"1", "2"};
    tenon_task task;
    test_sql(fx, "INSERT INTO tenon.kind (name, queue) VALUES ('mail', 'mails')");
    broker_spy(b, "mails/mail", "mails/mail");
    (void)enqueue(t, fx->conn);
    task = task_of("mail");
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 2, NULL), TENON_OK);
    assert_arrived(t, b, 0);
    assert_int_equal(broker_depth(b, "mails/mail"), 3);
    tenon_free(t);
    broker_close(b);
}

static void test_many(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    const char *payloads[] = {"{\"n\": 0}", "{\"n\": 1, \"s\": \"a,\\\\b\\\"}{\"}", NULL, "3"};
    static const char *const keys[] = {"a", "b", NULL, "a"};
    int64_t ids[4] = {0};
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 4, ids), TENON_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(test_sql_bool(fx, "SELECT payload = '%s' FROM tenon.task WHERE id = %" PRId64,
                                  payloads[i] ? payloads[i] : "{}", ids[i]));
    }
    assert_arrived(t, b, 4);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, keys, 4, ids), TENON_OK);
    assert_int_equal(ids[0], ids[3]);
    assert_int_equal(tasks(fx), 7);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, NULL, NULL, 0, NULL), TENON_OK);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, NULL, NULL, 1, NULL), TENON_MISUSE);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, TENON_BATCH_MAX + 1, NULL),
                TENON_MISUSE);
    payloads[3] = "{3";
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 4, ids), TENON_REFUSED);
    assert_contains(tenon_errmsg(), "json");
    assert_int_equal(tasks(fx), 7);
    tenon_free(t);
    broker_close(b);
}

/* What is called as what libtenon needs is the application's affair. */
static void test_hostile_search_path(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    static const char *const payloads[] = {"1", "2"};
    test_sql(fx, "CREATE SCHEMA evil; CREATE DOMAIN evil.jsonb AS text; CREATE FUNCTION"
                 " evil.unnest(text[]) RETURNS SETOF text LANGUAGE sql RETURN '0';"
                 "SET search_path = evil, pg_catalog");
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_OK);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 2, NULL), TENON_OK);
    assert_true(test_sql_bool(fx, "SELECT array_agg(payload ORDER BY id) = '{\"{}\",1,2}'"
                                  " FROM tenon.task"));
    tenon_free(t);
    broker_close(b);
}

/* Who has so much to do polls: more messages would cost RabbitMQ what PostgreSQL needs. */
static void test_few_wakeups_of_a_bulk(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    static const char *payloads[4 * TENON_BATCH_WAKEUPS_MAX];
    static int64_t ids[4 * TENON_BATCH_WAKEUPS_MAX];
    task.queue = "bulk";
    broker_spy(b, "bulk/mail", "bulk/mail");
    broker_purge(b, "bulk/mail");
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 4 * TENON_BATCH_WAKEUPS_MAX,
                                   ids),
                TENON_OK);
    assert_code(tenon_flush(t, LIMIT_MS * PATIENCE), TENON_OK);
    assert_int_equal(broker_depth(b, "bulk/mail"), TENON_BATCH_WAKEUPS_MAX);
    assert_int_equal(broker_take(b, "bulk/mail"), ids[0]);
    /* and the leader sends none in their place */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE announced"),
                     4 * TENON_BATCH_WAKEUPS_MAX);
    tenon_free(t);
    broker_close(b);
}

/* What is over the limit is not announced, so that the cleaner publishes it. */
static void test_too_many_in_one_transaction(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    static const char *payloads[TENON_BATCH_WAKEUPS_MAX];
    test_sql(fx, "BEGIN");
    for (int left = TENON_TRANSACTION_IDS_MAX - 1; left > 0; left -= TENON_BATCH_WAKEUPS_MAX) {
        size_t n = left < TENON_BATCH_WAKEUPS_MAX ? (size_t)left : TENON_BATCH_WAKEUPS_MAX;
        assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, n, NULL), TENON_OK);
    }
    (void)enqueue(t, fx->conn);
    (void)enqueue(t, fx->conn);
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE announced"),
                     TENON_TRANSACTION_IDS_MAX);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE NOT announced"), 1);
    assert_false(test_sql_bool(fx, "SELECT announced FROM tenon.task ORDER BY id DESC LIMIT 1"));
    tenon_free(t);
    broker_close(b);
}

/* --- bad input -------------------------------------------------------------------------------- */

static void refused(tenon *t, PGconn *conn, const tenon_task *task, const char *text)
{
    assert_code(tenon_enqueue(t, conn, task, NULL), TENON_REFUSED);
    assert_contains(tenon_errmsg(), text);
    assert_null(strchr(tenon_errmsg(), '\n'));
}

static void test_bad_tasks(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("ma il");
    refused(t, fx->conn, &task, "kind 'ma il' is not allowed");
    task = task_of("mail");
    task.queue = "A b";
    refused(t, fx->conn, &task, "queue 'A b' is not allowed");
    task.queue = NULL;
    task.priority = 12;
    refused(t, fx->conn, &task, "priority 12 is not allowed");
    task.priority = -1;
    task.payload = "{bad\nnews";
    refused(t, fx->conn, &task, "json");
    task.payload = NULL;
    task.delay_ms = -5;
    refused(t, fx->conn, &task, "delay");
    task.delay_ms = INT64_MAX;
    refused(t, fx->conn, &task, "delay is 0 to 10 years");
    task.delay_ms = 0;
    task.timeout_ms = INT64_MIN;
    refused(t, fx->conn, &task, "timeout is 1 millisecond to 30 days");
    task.timeout_ms = 0;
    task.delay_ms = 5;
    task.run_at = "2030-01-01";
    refused(t, fx->conn, &task, "given together");
    assert_int_equal(tasks(fx), 0);
    (void)enqueue(t, fx->conn); /* and none of it did any harm */
    tenon_free(t);
    broker_close(b);
}

static void test_misuse(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    assert_code(tenon_enqueue(NULL, fx->conn, &task, NULL), TENON_MISUSE);
    assert_code(tenon_enqueue(t, NULL, &task, NULL), TENON_MISUSE);
    assert_code(tenon_enqueue(t, fx->conn, NULL, NULL), TENON_MISUSE);
    task = task_of(NULL);
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_MISUSE);
    assert_contains(tenon_errmsg(), "no kind");
    task.struct_size = 3;
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_MISUSE);
    assert_contains(tenon_errmsg(), "TENON_TASK_INIT");
    task = task_of("mail");
    task.struct_size = offsetof(tenon_task, prepared); /* of an older, shorter header */
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_OK);
    task = task_of("mail");
    assert_int_equal(PQenterPipelineMode(fx->conn), 1);
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_MISUSE);
    assert_contains(tenon_errmsg(), "pipeline");
    assert_int_equal(PQexitPipelineMode(fx->conn), 1);
    assert_int_equal(PQsendQuery(fx->conn, "SELECT pg_sleep(0)"), 1);
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_MISUSE);
    PGresult *result;
    while ((result = PQgetResult(fx->conn))) {
        PQclear(result);
    }
    assert_code(tenon_flush(NULL, 1), TENON_MISUSE);
    tenon_committed(NULL, fx->conn);
    tenon_free(NULL);
    tenon_free(t);
    broker_close(b);
}

static void test_bad_urls(void **state)
{
    (void)state;
    assert_null(tenon_new("http://localhost"));
    assert_contains(tenon_errmsg(), "AMQP URL");
    char *kept = getenv("AMQP_URL") ? strdup(getenv("AMQP_URL")) : NULL;
    (void)unsetenv("AMQP_URL");
    assert_null(tenon_new(NULL));
    assert_contains(tenon_errmsg(), "AMQP_URL is not set");
    (void)setenv("AMQP_URL", "none", 1);
    tenon *t = tenon_new(NULL);
    assert_non_null(t);
    tenon_free(t);
    if (kept) {
        (void)setenv("AMQP_URL", kept, 1);
        free(kept);
    }
}

static void test_codes_have_texts(void **state)
{
    (void)state;
    for (int code = TENON_OK; code <= TENON_NOT_YET; code++) {
        assert_string_not_equal(tenon_strerror(code), "unknown code");
    }
    assert_string_equal(tenon_strerror(TENON_NOT_YET + 1), "unknown code");
    assert_string_equal(tenon_strerror(-1), "unknown code");
    assert_string_equal(tenon_version(), TENON_VERSION);
}

/* An application's role may call the functions, and cannot read a table. */
static void test_a_producers_role(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    static const char *const payloads[] = {"1"};
    test_sql(fx, "CREATE ROLE producer_%s", fx->database);
    test_sql(fx, "SET ROLE producer_%s", fx->database);
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_DENIED);
    test_sql(fx, "RESET ROLE");
    test_sql(fx, "SELECT tenon.grant_producer('producer_%s')", fx->database);
    test_sql(fx, "SET ROLE producer_%s", fx->database);
    (void)enqueue(t, fx->conn);
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL, 1, NULL), TENON_OK);
    sql_fails(fx->conn, "42501", "permission denied", "SELECT * FROM tenon.task");
    test_sql(fx, "RESET ROLE");
    assert_arrived(t, b, 2);
    test_sql(fx, "DROP OWNED BY producer_%s", fx->database);
    test_sql(fx, "DROP ROLE producer_%s", fx->database);
    test_sql(fx, "DROP SCHEMA tenon CASCADE");
    assert_code(tenon_enqueue(t, fx->conn, &task, NULL), TENON_SCHEMA);
    test_sql(fx, "CREATE SCHEMA tenon");
    test_sql(fx, "CREATE TABLE tenon.task (queue text)");
    test_sql(fx, "CREATE TABLE tenon.tasks (queue text)");
    test_sql(fx, "CREATE TABLE tenon.queue (name text)");
    test_sql(fx, "CREATE TABLE tenon.worker (queues text[])");
    tenon_free(t);
    broker_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_commit_publishes),
        WITH_SERVERS(test_rollback_forgets),
        WITH_SERVERS(test_without_a_transaction),
        WITH_SERVERS(test_a_failed_transaction),
        WITH_SERVERS(test_a_commit_that_fails),
        WITH_SERVERS(test_savepoints),
        WITH_SERVERS(test_callers_that_commit_themselves),
        WITH_SERVERS(test_a_lost_session),
        WITH_SERVERS(test_a_session_lost_before_the_commit),
        WITH_SERVERS(test_future_tasks_are_left_to_the_cleaner),
        WITH_SERVERS(test_every_field),
        WITH_SERVERS(test_fields_of_a_unique_key),
        WITH_SERVERS(test_flows),
        WITH_SERVERS(test_the_queue_of_the_kind),
        WITH_SERVERS(test_many),
        WITH_SERVERS(test_hostile_search_path),
        WITH_SERVERS(test_few_wakeups_of_a_bulk),
        WITH_SERVERS(test_too_many_in_one_transaction),
        WITH_SERVERS(test_bad_tasks),
        WITH_SERVERS(test_misuse),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_codes_have_texts),
        WITH_SERVERS(test_a_producers_role),
    };
    return RUN_GROUP(tests);
}
