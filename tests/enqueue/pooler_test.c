/* label: e2e */
/* Through PgBouncer: producers in transaction mode, workers' rounds in either. */
#include "tests/support/working.h"

#include "core/base/now.h"
#include "include/tenon/tenon.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READY_MS = 15000, PRODUCERS = 20, TASKS = 200, POOLED = 4 };

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

/* PgBouncer with 4 connections to the server. It refuses to run as root. ret_url: through it */
static struct process *pooler(struct fixture *fx, const char *mode, char ret_url[512])
{
    char path[300];
    int port = free_port();
    (void)snprintf(path, sizeof path, "%s/pgbouncer.ini", fx->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "[databases]\n%s = host=%s port=%s user=%s password=%s\n"
                  "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"
                  "auth_type = any\npool_mode = %s\ndefault_pool_size = %d\nmax_client_conn = 200\n"
                  "ignore_startup_parameters = extra_float_digits,options\n",
                  fx->database, PQhost(fx->conn), PQport(fx->conn), PQuser(fx->conn),
                  PQpass(fx->conn), port, mode, POOLED);
    (void)fclose(file);
    (void)chmod(fx->dir, 0755);
    const char *const argv[] = {"sh", "-c",
                                "[ $(id -u) != 0 ] || as=\"setpriv --reuid=nobody --clear-groups "
                                "--pdeathsig KILL\"; exec $as pgbouncer \"$0\"",
                                path, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    (void)snprintf(ret_url, 512, "postgresql://%s@127.0.0.1:%d/%s", PQuser(fx->conn), port,
                   fx->database);
    process_await_line(p, "process up", READY_MS);
    return p;
}

static void test_producers_in_transaction_mode(void **state)
{
    struct fixture *fx = *state;
    char url[512], h[600];
    (void)pooler(fx, "transaction", url);
    struct process *worker = TENON(fx, "worker", "--slots", "4", "--handler", "a=true");
    process_await_line(worker, "event=worker_ready", READY_MS);
    PGconn *conns[PRODUCERS]; /* more than the pooler has connections */
    for (int i = 0; i < PRODUCERS; i++) {
        conns[i] = sql_connect(url);
    }
    for (int i = 0; i < TASKS; i++) {
        PGconn *conn = conns[i % PRODUCERS];
        sql_run(conn, "BEGIN");
        assert_true(sql_int(conn, "SELECT tenon.enqueue('a')") > 0);
        sql_run(conn, i % 4 == 0 ? "ROLLBACK" : "COMMIT");
    }
    (void)snprintf(h, sizeof h, "DATABASE_URL=%s", url); /* and through libtenon */
    struct process *enqueue = tenon_spawn(fx, (const char *const[]){"enqueue", "a", NULL},
                                          (const char *const[]){h, NULL});
    assert_int_equal(process_wait(enqueue, READY_MS), 0);
    await_done(fx, TASKS * 3 / 4 + 1);
    for (int i = 0; i < PRODUCERS; i++) {
        PQfinish(conns[i]);
    }
    end_well(worker);
}

static void refuses(struct fixture *fx, const char *url, const char *command)
{
    const char *const args[] = {command, "--database-url", url, NULL};
    const char *const worker[] = {command, "--database-url", url, "--handler", "a=true", NULL};
    const char *const wait[] = {command, "--database-url", url, "1", NULL};
    struct process *p = tenon_spawn(fx,
                                    strcmp(command, "worker") == 0 ? worker
                                    : strcmp(command, "wait") == 0 ? wait
                                                                   : args,
                                    NULL);
    assert_int_equal(process_wait(p, READY_MS), 2);
    assert_int_equal(process_lines(p, "pooler"), 1);
}

/* Nothing of ours stays behind in any of the pooler's sessions, which are others' next. */
static void is_clean(const char *url)
{
    PGconn *conns[POOLED];
    for (int i = 0; i < POOLED; i++) { /* each in a session of its own */
        conns[i] = sql_connect(url);
        sql_run(conns[i], "BEGIN");
        assert_true(sql_bool(conns[i], "SELECT current_setting('search_path') LIKE '%%public%%' AND"
                                       " current_setting('statement_timeout') = '0' AND"
                                       " current_setting('lock_timeout') = '0' AND"
                                       " current_setting('enable_seqscan') = 'on' AND"
                                       " current_setting('plan_cache_mode') = 'auto' AND"
                                       " current_setting('timezone') <> 'UTC' AND"
                                       " NOT EXISTS (SELECT FROM pg_prepared_statements)"));
    }
    for (int i = 0; i < POOLED; i++) {
        sql_run(conns[i], "ROLLBACK");
        PQfinish(conns[i]);
    }
}

static void test_presence_and_cleaner_refuse(void **state)
{
    static const char *const modes[] = {"transaction", "session"};
    struct fixture *fx = *state;
    char url[512];
    test_sql(fx, "ALTER DATABASE %s SET timezone = 'Asia/Tokyo'", fx->database);
    for (int i = 0; i < 2; i++) {
        (void)pooler(fx, modes[i], url);
        refuses(fx, url, "worker");
        refuses(fx, url, "cleaner");
        refuses(fx, url, "setup");
        is_clean(url);
    }
}

/* Whoever has the pooler's session next finds it as it was. */
static void test_commands_leave_nothing_behind(void **state)
{
    struct fixture *fx = *state;
    char url[512];
    test_sql(fx, "ALTER DATABASE %s SET timezone = 'Asia/Tokyo'", fx->database);
    (void)pooler(fx, "transaction", url);
    for (int i = 0; i < 2; i++) { /* twice: the second finds what the first has left */
        free(TENON_RUN(fx, 0, "enqueue", "a", "--database-url", url));
        free(TENON_RUN(fx, 0, "show", "1", "--database-url", url));
        free(TENON_RUN(fx, 0, "status", "--database-url", url));
        free(TENON_RUN(fx, 0, "schedule", "list", "--database-url", url));
        free(TENON_RUN(fx, 0, "set", "--kind", "a", "--priority", "3", "--yes", "--database-url",
                       url));
        is_clean(url);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE"
                                      " 'idle in%%' AND datname = current_database()"),
                     0);
}

static void test_doctor_names_it(void **state)
{
    struct fixture *fx = *state;
    char url[512];
    (void)pooler(fx, "transaction", url);
    char *out = TENON_RUN(fx, 1, "doctor", "--database-url", url);
    assert_contains(out, "pooler: ");
    assert_contains(out, "needs a direct connection");
    free(out);
    is_clean(url);
}

/* Behind a pooler nothing is heard: who would wait there for ever is told so, and nothing listens
 * in its sessions. What is only asked for by SQL works, and a direct connection hears the end. */
static void test_waiting(void **state)
{
    static const char *const modes[] = {"transaction", "session"};
    struct fixture *fx = *state;
    char url[512];
    for (int i = 0; i < 2; i++) {
        (void)pooler(fx, modes[i], url);
        tenon_awaited task = {.id = test_sql_int(fx, "SELECT tenon.enqueue('nobody')")};
        refuses(fx, url, "wait");
        PGconn *conn = sql_connect(url);
        assert_int_equal(tenon_wait(conn, &task, 1, READY_MS), TENON_MISUSE);
        assert_contains(tenon_errmsg(), "needs a direct connection");
        assert_int_equal(sql_int(conn, "SELECT count(*) FROM pg_listening_channels()"), 0);
        test_sql(fx, "LISTEN tenon_ended");
        assert_true(
            sql_bool(conn, "SELECT state = 'ready' FROM tenon.await(%lld)", (long long)task.id));
        sql_run(conn, "SELECT tenon.cancel(%lld)", (long long)task.id);
        assert_true(sql_bool(conn, "SELECT state = 'cancelled' FROM tenon.result(%lld)",
                             (long long)task.id));
        PQfinish(conn);
        assert_int_equal(tenon_wait(fx->conn, &task, 1, 0), TENON_OK);
        assert_int_equal(task.state, TENON_TASK_CANCELLED);
        free(task.error);
    }
}

/* With its presence direct a worker may send its rounds through sessions of the pooler. */
static struct process *rounds_through(struct fixture *fx, const char *url, const char *slots)
{
    struct process *worker = TENON(fx, "worker", "--database-url", url, "--presence-url",
                                   fx->database_url, "--slots", slots, "--drain-limit", "1s",
                                   "--handler", "a=echo '[1e2]'");
    process_await_line(worker, "event=worker_ready", READY_MS);
    return worker;
}

/* Each of its own statements is in a session that a worker may have had before, or has next. */
static void enqueue_as_a_stranger(PGconn *stranger, int n)
{
    for (int i = 0; i < n; i++) {
        sql_run(stranger, "BEGIN");
        assert_true(sql_bool(stranger, "SELECT current_setting('timezone') = 'Asia/Tokyo'"));
        sql_run(stranger, "SELECT tenon.enqueue('a')");
        sql_run(stranger, "COMMIT");
    }
}

enum { FAILING = 200 }; /* more than one worker takes, so that this one gets some */

/* A round that fails is rolled back, and its session given back. */
static void fail_a_round(struct fixture *fx, struct process *worker)
{
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN; LOCK TABLE tenon.history IN SHARE MODE");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, %d)", FAILING);
    process_await_line(worker, "event=round_failed", READY_MS);
    sql_run(other, "COMMIT");
    PQfinish(other);
}

static void test_rounds_in_transaction_mode(void **state)
{
    struct fixture *fx = *state;
    char url[512];
    test_sql(fx, "ALTER DATABASE %s SET timezone = 'Asia/Tokyo'", fx->database);
    test_sql(fx, "ALTER DATABASE %s SET array_nulls = off", fx->database);
    test_sql(fx, "ALTER DATABASE %s SET default_transaction_isolation = serializable",
             fx->database);
    (void)pooler(fx, "transaction", url);
    struct process *workers[] = {rounds_through(fx, url, "4"), rounds_through(fx, url, "4")};
    PGconn *stranger = sql_connect(url);
    enqueue_as_a_stranger(stranger, TASKS);
    await_done(fx, TASKS);
    fail_a_round(fx, workers[0]);
    await_done(fx, TASKS + FAILING);
    assert_true(test_sql_bool(fx,
                              "SELECT count(*) = %d AND sum(failures + crashes) = 0 AND"
                              " bool_and(result = '[100]') FROM tenon.history",
                              TASKS + FAILING));
    PQfinish(stranger);
    is_clean(url);
    end_well(workers[0]);
    end_well(workers[1]);
}

/* The pooler dies. */
static void test_rounds_in_session_mode(void **state)
{
    struct fixture *fx = *state;
    char url[512];
    struct process *p = pooler(fx, "session", url);
    struct process *worker = rounds_through(fx, url, "1");
    test_sql(fx, "SELECT tenon.enqueue('a') FROM generate_series(1, 20)");
    await_done(fx, 20);
    process_kill(p);
    process_await_line(worker, "event=round_failed", READY_MS);
    process_signal(worker, SIGTERM);
    assert_int_equal(process_wait(worker, READY_MS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_producers_in_transaction_mode),
        WITH_DATABASE(test_presence_and_cleaner_refuse),
        WITH_DATABASE(test_commands_leave_nothing_behind),
        WITH_DATABASE(test_doctor_names_it),
        WITH_DATABASE(test_waiting),
        WITH_SERVERS(test_rounds_in_transaction_mode),
        WITH_SERVERS(test_rounds_in_session_mode),
    };
    return RUN_GROUP(tests);
}
