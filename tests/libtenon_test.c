/* label: e2e */
/* timeout: 180 */
/* libtenon on real servers: what is published when, what a caller is told, what must not hang. */
#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include "include/tenon/tenon.h"

#include "core/now.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 15000, AT_ONCE_MS = 500 };

/* A handle, and a queue that its ids arrive in. */
static tenon *make(struct fixture *fx, struct broker **ret)
{
    tenon *t = tenon_new(fx->amqp_url);
    if (!t) {
        fail_msg("%s", tenon_errmsg());
    }
    *ret = broker_open(fx->amqp_url);
    broker_declare(*ret, "default");
    return t;
}

static tenon_task task_of(const char *kind)
{
    tenon_task task = TENON_TASK_INIT;
    task.kind = kind;
    return task;
}

#define assert_code(call, code)                                                                    \
    do {                                                                                           \
        int got_code = (call);                                                                     \
        if (got_code != (code)) {                                                                  \
            fail_msg("%s: %s (%s), not %s", #call, tenon_strerror(got_code), tenon_errmsg(),       \
                     tenon_strerror(code));                                                        \
        }                                                                                          \
    } while (0)

static int64_t enqueue(tenon *t, PGconn *conn)
{
    tenon_task task = task_of("mail");
    int64_t id = 0;
    assert_code(tenon_enqueue(t, conn, &task, &id), TENON_OK);
    assert_true(id > 0);
    assert_string_equal(tenon_errmsg(), "");
    return id;
}

/* All that was published has arrived, and it is so many. */
static void assert_arrived(tenon *t, struct broker *b, int64_t n)
{
    assert_code(tenon_flush(t, LIMIT_MS), TENON_OK);
    assert_int_equal(broker_depth(b, "default"), n);
}

static int64_t tasks(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.task");
}

/* --- transactions ------------------------------------------------------------------------------- */

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

/* --- what is published --------------------------------------------------------------------------- */

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
    test_sql(fx, "INSERT INTO tenon.queue (name) VALUES ('other')");
    broker_declare(b, "other");
    task.payload = "{\"a\": \"\\\\ \\\" '\"}";
    task.queue = "other";
    task.priority = 0;
    task.max_attempts = 3;
    task.timeout_ms = 1500;
    task.unique_key = "key";
    task.trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_code(tenon_enqueue(t, fx->conn, &task, &id), TENON_OK);
    assert_true(test_sql_bool(
        fx,
        "SELECT payload = '{\"a\": \"\\\\ \\\" ''\"}' AND queue = 'other' AND priority = 0 AND max_attempts = 3"
        " AND timeout_ms = 1500 AND unique_key = 'key' AND trace LIKE '00-0af%%' FROM tenon.task"));
    assert_code(tenon_enqueue(t, fx->conn, &task, &again), TENON_OK);
    assert_int_equal(again, id); /* who holds the key */
    assert_arrived(t, b, 0);
    assert_true(broker_depth(b, "other") >= 1);
    tenon_free(t);
    broker_close(b);
}

static void test_the_queue_of_the_kind(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    test_sql(fx, "INSERT INTO tenon.queue (name) VALUES ('mails')");
    test_sql(fx, "INSERT INTO tenon.kind (name, queue) VALUES ('mail', 'mails')");
    broker_declare(b, "mails");
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 0);
    assert_int_equal(broker_depth(b, "mails"), 1);
    tenon_free(t);
    broker_close(b);
}

static void test_many(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    tenon_task task = task_of("mail");
    static const char *const payloads[] = {"{\"n\": 0}", "{\"n\": 1, \"s\": \"a,\\\\b\\\"}{\"}",
                                           NULL, "3"};
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
    static const char *payloads[TENON_TRANSACTION_IDS_MAX - 1];
    test_sql(fx, "BEGIN");
    assert_code(tenon_enqueue_many(t, fx->conn, &task, payloads, NULL,
                                   TENON_TRANSACTION_IDS_MAX - 1, NULL),
                TENON_OK);
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

/* --- bad input ----------------------------------------------------------------------------------- */

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
    tenon_task task = task_of(NULL);
    refused(t, fx->conn, &task, "no kind");
    task = task_of("ma il");
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
    task.delay_ms = 5;
    task.run_at = "2030-01-01";
    refused(t, fx->conn, &task, "given alone");
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
    for (int code = TENON_OK; code <= TENON_UNPUBLISHED; code++) {
        assert_string_not_equal(tenon_strerror(code), "unknown code");
    }
    assert_string_equal(tenon_strerror(TENON_UNPUBLISHED + 1), "unknown code");
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

/* --- a broker that is not there ------------------------------------------------------------------ */

static void assert_took(int64_t since_ms, int64_t at_most_ms)
{
    int64_t took = now_ms() - since_ms;
    if (took > at_most_ms) {
        fail_msg("it took %" PRId64 " ms, allowed were %" PRId64, took, at_most_ms);
    }
}

static void test_no_broker_at_all(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("none");
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_code(tenon_flush(t, 0), TENON_OK);
    assert_false(test_sql_bool(fx, "SELECT announced FROM tenon.task"));
    tenon_free(t);
}

static void test_a_broker_that_is_down(void **state)
{
    struct fixture *fx = *state;
    tenon *t = tenon_new("amqp://ann:secret-word@127.0.0.1:1/");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_flush(t, LIMIT_MS), TENON_UNPUBLISHED);
    assert_contains(tenon_errmsg(), "could not connect");
    assert_null(strstr(tenon_errmsg(), "secret-word"));
    (void)enqueue(t, fx->conn); /* by now it is known: the cleaner shall publish it */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE announced"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE NOT announced"), 1);
    assert_code(tenon_flush(t, 0), TENON_OK); /* no news */
    tenon_free(t);
}

/* The kernel takes the connection, and nobody ever says a word. */
static void test_a_broker_that_hangs(void **state)
{
    struct fixture *fx = *state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    char url[100];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(url, sizeof url, "amqp://127.0.0.1:%d/", ntohs(address.sin_port));
    tenon *t = tenon_new(url);
    int64_t start = now_ms();
    for (int i = 0; i < 20; i++) {
        test_sql(fx, "BEGIN");
        (void)enqueue(t, fx->conn);
        assert_code(tenon_commit(t, fx->conn), TENON_OK);
    }
    assert_took(start, 20 * AT_ONCE_MS);
    start = now_ms();
    assert_code(tenon_flush(t, 100), TENON_UNPUBLISHED);
    assert_contains(tenon_errmsg(), "within 100 ms");
    assert_took(start, 100 + AT_ONCE_MS);
    start = now_ms();
    tenon_free(t);
    assert_took(start, TENON_FREE_LIMIT_MS + AT_ONCE_MS);
    assert_int_equal(tasks(fx), 20);
    (void)close(fd);
}

static void test_a_queue_that_is_deleted(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 1);
    broker_delete_queue(b, "default");
    (void)enqueue(t, fx->conn);
    assert_code(tenon_flush(t, LIMIT_MS), TENON_UNPUBLISHED);
    assert_int_equal(tasks(fx), 2);
    tenon_free(t);
    broker_close(b);
}

/* The default of SIGPIPE would end the process. */
static void test_signals_are_left_alone(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    struct sigaction action;
    sigset_t before, after;
    (void)signal(SIGPIPE, SIG_DFL);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &before);
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 1);
    broker_close(b);
    broker_ctl("close_all_connections --vhost %s bye", fx->vhost);
    for (int i = 0; i < 100; i++) {
        (void)enqueue(t, fx->conn);
    }
    (void)tenon_flush(t, LIMIT_MS);
    tenon_free(t);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigaction(SIGPIPE, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_DFL);
    for (int i = 1; i < 32; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
}

/* --- fork and threads ---------------------------------------------------------------------------- */

static int child_main(tenon *t, const char *url)
{
    tenon_task task = task_of("mail");
    PGconn *conn = PQconnectdb(url);
    PQclear(PQexec(conn, "BEGIN"));
    int code = tenon_enqueue(t, conn, &task, NULL);
    code = code == TENON_OK ? tenon_commit(t, conn) : code;
    code = code == TENON_OK ? tenon_flush(t, LIMIT_MS) : code;
    PQfinish(conn);
    tenon_free(t);
    return code;
}

static void test_fork(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    test_sql(fx, "BEGIN");
    (void)enqueue(t, fx->conn); /* stays with the parent */
    assert_code(tenon_flush(t, LIMIT_MS), TENON_OK);
    pid_t child = fork();
    if (child == 0) {
        _exit(child_main(t, fx->database_url));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_arrived(t, b, 2);
    assert_code(tenon_commit(t, fx->conn), TENON_OK);
    assert_arrived(t, b, 3);
    child = fork(); /* one that only frees */
    if (child == 0) {
        tenon_free(t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 4);
    tenon_free(t);
    broker_close(b);
}

enum { THREADS = 4, TRANSACTIONS = 50 };

struct producer {
    tenon *t;
    const char *url;
    int failed;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    tenon_task task = task_of("mail");
    PGconn *conn = PQconnectdb(p->url);
    for (int i = 0; i < TRANSACTIONS; i++) {
        PQclear(PQexec(conn, "BEGIN"));
        p->failed += tenon_enqueue(p->t, conn, &task, NULL) != TENON_OK;
        p->failed += (i % 5 == 0 ? tenon_rollback(p->t, conn) : tenon_commit(p->t, conn)) !=
                     TENON_OK;
    }
    PQfinish(conn);
    return NULL;
}

static void test_threads(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    pthread_t ids[THREADS];
    struct producer producers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        producers[i] = (struct producer){.t = t, .url = fx->database_url};
        assert_int_equal(pthread_create(&ids[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(producers[i].failed, 0);
    }
    assert_arrived(t, b, THREADS * TRANSACTIONS * 4 / 5);
    assert_int_equal(tasks(fx), THREADS * TRANSACTIONS * 4 / 5);
    tenon_free(t);
    broker_close(b);
}

/* --- the library as a file ----------------------------------------------------------------------- */

/* Run a command; its output, free(). */
static char *output_of(const char *command)
{
    char *text = calloc(1, 65536);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, 65535, f);
    text[n] = '\0';
    if (pclose(f) != 0) {
        fail_msg("%s failed: %s", command, text);
    }
    return text;
}

static void test_exports_only_its_names(void **state)
{
    (void)state;
    char self[400], command[600];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 2; up++) {
        *strrchr(self, '/') = '\0';
    }
    (void)snprintf(command, sizeof command, "nm -D --defined-only '%s/libtenon.so'", self);
    char *names = output_of(command);
    int exported = 0;
    for (char *line = strtok(names, "\n"); line; line = strtok(NULL, "\n")) {
        const char *name = strrchr(line, ' ');
        if (!name || strncmp(name + 1, "tenon_", 6) != 0) {
            fail_msg("libtenon.so exports %s", line);
        }
        exported++;
    }
    assert_int_equal(exported, 13);
    free(names);
}

/* --- tenon enqueue ------------------------------------------------------------------------------- */

static void test_command(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    char *out = TENON_RUN(fx, 0, "enqueue", "mail", "{\"to\": \"x\"}", "--priority", "9",
                          "--unique-key", "k", "--max-attempts", "2", "--timeout", "90s");
    int64_t id = strtoll(out, NULL, 10);
    free(out);
    assert_true(test_sql_bool(
        fx,
        "SELECT payload->>'to' = 'x' AND priority = 9 AND unique_key = 'k' AND announced"
        " AND max_attempts = 2 AND timeout_ms = 90000 FROM tenon.task WHERE id = %" PRId64,
        id));
    assert_int_equal(broker_depth(b, "default"), 1);
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--delay", "1h"));
    assert_int_equal(broker_depth(b, "default"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE delayed"), 1);
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--queue", "nowhere")); /* no such queue: a warning */
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--amqp-url", "none"));
    free(TENON_RUN(fx, 0, "enqueue", "mail", "--amqp-url", "amqp://127.0.0.1:1/"));
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{bad"));
    free(TENON_RUN(fx, 2, "enqueue", "ma il"));
    free(TENON_RUN(fx, 2, "enqueue"));
    free(TENON_RUN(fx, 2, "enqueue", "mail", "{}", "--priority", "12"));
    assert_int_equal(tasks(fx), 5);
    tenon_free(t);
    broker_close(b);
}

/* The program's own words about a payload on stdin. */
static char *from_stdin(struct fixture *fx, const char *printf_args, int code)
{
    char script[200];
    (void)snprintf(script, sizeof script, "printf %s | \"$0\" enqueue mail - 2>&1", printf_args);
    char program[400];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 7);
    assert_true(n > 0);
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    (void)strcpy(strrchr(program, '/'), "/tenon");
    const char *const argv[] = {"sh", "-c", script, program, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), code);
    return file_text(p->out);
}

static void test_command_reads_stdin(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    char *out = from_stdin(fx, "'{\"n\": 12}'", 0);
    assert_true(
        test_sql_bool(fx, "SELECT payload->>'n' = '12' FROM tenon.task WHERE id = %s", out));
    free(out);
    out = from_stdin(fx, "''", 2);
    assert_contains(out, "empty");
    free(out);
    out = from_stdin(fx, "'1\\0002'", 2);
    assert_contains(out, "NUL byte, at offset 1");
    free(out);
    assert_int_equal(tasks(fx), 1);
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
        WITH_SERVERS(test_future_tasks_are_left_to_the_cleaner),
        WITH_SERVERS(test_every_field),
        WITH_SERVERS(test_the_queue_of_the_kind),
        WITH_SERVERS(test_many),
        WITH_SERVERS(test_too_many_in_one_transaction),
        WITH_SERVERS(test_bad_tasks),
        WITH_SERVERS(test_misuse),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_codes_have_texts),
        WITH_SERVERS(test_a_producers_role),
        WITH_DATABASE(test_no_broker_at_all),
        WITH_DATABASE(test_a_broker_that_is_down),
        WITH_DATABASE(test_a_broker_that_hangs),
        WITH_SERVERS(test_a_queue_that_is_deleted),
        WITH_SERVERS(test_signals_are_left_alone),
        WITH_SERVERS(test_fork),
        WITH_SERVERS(test_threads),
        cmocka_unit_test(test_exports_only_its_names),
        WITH_SERVERS(test_command),
        WITH_SERVERS(test_command_reads_stdin),
    };
    return RUN_GROUP(tests);
}
