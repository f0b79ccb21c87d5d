/* label: e2e */
/* timeout: 120 */
/* libtenon when the broker is away, hangs or forgets; in forked children and threads; as a file. */
#include "tests/support/producer.h"
#include "tests/support/silent.h"

#include "core/base/now.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE_MS = 500 };

/* --- a broker that is not there --------------------------------------------------------------- */

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
    assert_code(tenon_flush(t, LIMIT_MS * PATIENCE), TENON_UNPUBLISHED);
    assert_contains(tenon_errmsg(), "could not connect");
    assert_null(strstr(tenon_errmsg(), "secret-word"));
    (void)enqueue(t, fx->conn); /* by now it is known: the cleaner shall publish it */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE announced"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE NOT announced"), 1);
    assert_code(tenon_flush(t, 0), TENON_OK); /* no news */
    tenon_free(t);
}

static void test_a_broker_that_hangs(void **state)
{
    struct fixture *fx = *state;
    struct silent silent;
    silent_open(&silent, true);
    tenon *t = tenon_new(silent.url);
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
    silent_close(&silent);
}

static void test_a_queue_that_is_deleted(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 1);
    broker_delete_queue(b, "default/mail");
    (void)enqueue(t, fx->conn); /* nobody serves it: RabbitMQ drops its wake-up, and all is well */
    assert_code(tenon_flush(t, LIMIT_MS * PATIENCE), TENON_OK);
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
    (void)tenon_flush(t, LIMIT_MS * PATIENCE);
    tenon_free(t);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigaction(SIGPIPE, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_DFL);
    for (int i = 1; i < 32; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
}

/* --- fork and threads ------------------------------------------------------------------------- */

static int child_main(tenon *t, const char *url)
{
    tenon_task task = task_of("mail");
    PGconn *conn = PQconnectdb(url);
    PQclear(PQexec(conn, "BEGIN"));
    int code = tenon_enqueue(t, conn, &task, NULL);
    code = code == TENON_OK ? tenon_commit(t, conn) : code;
    code = code == TENON_OK ? tenon_flush(t, LIMIT_MS * PATIENCE) : code;
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
    assert_code(tenon_flush(t, LIMIT_MS * PATIENCE), TENON_OK);
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

/* --- the library as a file -------------------------------------------------------------------- */

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

/* Each with a version, so that a program that was built with one release runs with the next. */
static void test_exports_the_functions_of_its_headers(void **state)
{
    (void)state;
    char self[400], command[800];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 2; up++) {
        *strrchr(self, '/') = '\0';
    }
    (void)snprintf(
        command, sizeof command,
        "nm -D --defined-only '%s/libtenon.so' |"
        " sed -E 's/.* //; /^TENON_[0-9.]+(@@|$)/d; s/@@TENON_[0-9.]+$/ has a version/' | sort",
        self);
    char *exported = output_of(command);
    char *declared = output_of(
        "sed -nE 's/^TENON_EXPORT[^(]*[ *](tenon_[a-z_]+)\\(.*/\\1 has a version/p' " REPOSITORY
        "/include/tenon/*.h | sort");
    assert_string_equal(exported, declared);
    free(exported);
    free(declared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_no_broker_at_all),
        WITH_DATABASE(test_a_broker_that_is_down),
        WITH_DATABASE(test_a_broker_that_hangs),
        WITH_SERVERS(test_a_queue_that_is_deleted),
        WITH_SERVERS(test_signals_are_left_alone),
        WITH_SERVERS(test_fork),
        WITH_SERVERS(test_threads),
        cmocka_unit_test(test_exports_the_functions_of_its_headers),
    };
    return RUN_GROUP(tests);
}
