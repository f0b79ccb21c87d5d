/* label: fault */
/* timeout: 150 */
/* long: 300 */
/* only: all */
/* What becomes of tasks when PostgreSQL's primary is killed and a streaming standby takes over; the
 * database URL names both. Two private PostgreSQL, which take turns; two workers, a cleaner and two
 * producers go on through all of it. A standby that has everything loses and doubles nothing; one
 * that lags behind loses what it never got, and nothing but that. With TEST_LONG set it takes 30 s
 * until the standby is promoted. */
#include "tests/support/fleet.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum {
    COMMITS = 50, /* before a fault */
    STREAM_LIMIT_MS = 20000,
    RECOVERY_MS = 15000,
    CHECK_LIMIT_MS = 40000,
};

static struct node {
    char host[64];  /* and port */
    char data[300]; /* directory */
} nodes[2];

static struct fleet all;
static char login[128];
static int primary;

/* --- two servers --- */

static void node_open(int n)
{
    server_use(n);
    server_open("postgres");
    const char *url = test_env("DATABASE_URL");
    const char *host = strchr(url, '@');
    assert_non_null(host);
    (void)snprintf(nodes[n].host, sizeof nodes[n].host, "%.*s", (int)strcspn(host + 1, "/"),
                   host + 1);
    (void)snprintf(nodes[n].data, sizeof nodes[n].data, "%s", test_env("TENON_PGDATA"));
    if (n == 0) { /* the other will be its copy */
        (void)snprintf(login, sizeof login, "%.*s", (int)(host - url), url);
    }
}

static PGconn *node_connect(int n, const char *database)
{
    char url[512];
    (void)snprintf(url, sizeof url, "%s@%s/%s", login, nodes[n].host, database);
    return sql_connect(url);
}

/* The shared memory of a server that was killed, which only its successor on the same data would
 * give back. */
static void remove_shared_memory(const struct node *node)
{
    char path[400], line[300];
    int id = -1;
    (void)snprintf(path, sizeof path, "%s/postmaster.pid", node->data);
    FILE *file = fopen(path, "re");
    for (int i = 1; file && fgets(line, sizeof line, file); i++) {
        if (i == 7 && sscanf(line, "%*u %d", &id) == 1) {
            (void)shmctl(id, IPC_RMID, NULL);
        }
    }
    if (file) {
        (void)fclose(file);
    }
}

/* Make the server that is not the primary its standby, from nothing. */
static void follow(void)
{
    char command[1600];
    struct stat info;
    int n = 1 - primary;
    const struct node *node = &nodes[n];
    server_use(n);
    server_do("stop");
    remove_shared_memory(node);
    assert_int_equal(stat(node->data, &info), 0);
    (void)snprintf(command, sizeof command,
                   "rm -rf '%s' && '%s/pg_basebackup' -d '%s@%s/tenon' -D '%s' -R -X stream -c fast"
                   " && chown -R %d:%d '%s'",
                   node->data, test_env("TENON_PGBIN"), login, nodes[primary].host, node->data,
                   (int)info.st_uid, (int)info.st_gid, node->data);
    assert_int_equal(system(command), 0);
    server_do("start");
    test_await(
        all.fx, STREAM_LIMIT_MS,
        "SELECT count(*) = 1, min(state) FROM pg_stat_replication WHERE state = 'streaming'");
}

static void both_url(const char *database, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s@%s,%s/%s?target_session_attrs=read-write", login, nodes[0].host,
                   nodes[1].host, database);
}

/* --- start and end --- */

static struct fixture *make_fixture(void)
{
    void *fixture = NULL;
    char url[512];
    node_open(1);
    node_open(0);
    assert_int_equal(fixture_setup_database(&fixture), 0);
    struct fixture *fx = fixture;
    both_url(fx->database, fx->database_url, sizeof fx->database_url);
    both_url("tenon", url, sizeof url);
    (void)setenv("DATABASE_URL", url, 1);
    server_vhost(fx, "fault_failover");
    declare(fx);
    return fx;
}

static int start_all(void **state)
{
    struct fixture *fx = all.fx = make_fixture();
    follow();
    fleet_start(&all, fx);
    *state = &all;
    return 0;
}

/* --- the fault and the verdict --- */

static void kill_primary(void)
{
    server_use(primary);
    server_do("kill");
}

/* ret: when the standby was the primary */
static int64_t promote(void)
{
    (void)poll(NULL, 0, load_is_long() ? 30000 : 0); /* until somebody decides to */
    primary = 1 - primary;
    PGconn *conn = node_connect(primary, "tenon");
    assert_true(sql_bool(conn, "SELECT pg_promote(true, 30)"));
    PQfinish(conn);
    int64_t up_ns = load_now_ns();
    server_reconnect(all.fx);
    return up_ns;
}

static void nobody_died(void)
{
    assert_int_equal(process_lines(all.cleaner, "event=worker_dead"), 0);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.worker WHERE state = 'dead'"),
                     0);
    assert_int_equal(test_sql_int(all.fx, "SELECT count(*) FROM tenon.tasks WHERE failures > 0"),
                     0);
}

static void check(const char *fault, int64_t killed_ns, int64_t up_ns)
{
    struct load_counts counts;
    int64_t recovery_ms = load_await_start(all.fx, up_ns, RECOVERY_MS);
    load_check(all.fx, CHECK_LIMIT_MS, 0, &counts);
    nobody_died();
    print_message("%s: promoted after %lld ms, %lld ms more to the next start; %lld placed, lost "
                  "0, rolled back 0, doubled 0\n",
                  fault, (long long)((up_ns - killed_ns) / 1000000), (long long)recovery_ms,
                  (long long)counts.placed);
}

static void await_commits(int64_t n)
{
    int64_t first = all.load.shared->commits, deadline_ms = patience_end_ms(STREAM_LIMIT_MS);
    while (all.load.shared->commits < first + n) {
        if (now_ms() > deadline_ms) {
            fail_msg("producers did not commit %lld within %d ms", (long long)n, STREAM_LIMIT_MS);
        }
        (void)poll(NULL, 0, 5);
    }
}

/* --- the standby has everything --- */

static void test_synchronous_standby(void **state)
{
    (void)state;
    test_sql(all.fx, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    test_sql(all.fx, "SELECT pg_reload_conf()");
    test_await(all.fx, STREAM_LIMIT_MS,
               "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
    await_commits(COMMITS);
    load_await_running(all.fx, 2);
    int64_t killed_ns = load_now_ns();
    kill_primary();
    check("failover to a synchronous standby", killed_ns, promote());
}

/* Frozen clients commit nothing, so the standby comes to have it all; handlers run on meanwhile. */
static void test_asynchronous_standby_in_sync(void **state)
{
    (void)state;
    follow();
    fleet_await_judge(&all);
    nobody_died();
    load_await_running(all.fx, 2);
    fleet_signal_all(&all, SIGSTOP);
    test_await(all.fx, STREAM_LIMIT_MS,
               "SELECT (SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND "
               "backend_type = 'client backend' AND pid <> pg_backend_pid()) = 0 AND "
               "(SELECT bool_and(flush_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication)");
    int64_t killed_ns = load_now_ns();
    kill_primary();
    fleet_signal_all(&all, SIGCONT);
    check("failover to an asynchronous standby in sync", killed_ns, promote());
}

/* --- the standby lags behind --- */

/* From now on the standby gets nothing. ret: what it has, as the last task placed */
static int64_t lag_behind(void)
{
    int64_t sender = test_sql_int(all.fx, "SELECT pid FROM pg_stat_replication");
    assert_true(sender > 0 && kill((pid_t)sender, SIGSTOP) == 0);
    await_commits(COMMITS);
    load_await_running(all.fx, 2);
    kill_primary();
    PGconn *conn = node_connect(1 - primary, all.fx->database);
    sql_await(conn, STREAM_LIMIT_MS,
              "SELECT pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn()");
    int64_t last = sql_int(conn, "SELECT max(task) FROM public.placed");
    PQfinish(conn);
    return last;
}

/* The tasks whose run began after that moment and has ended, as an array. */
static char *run_since(int64_t since_ns)
{
    struct journal j;
    char *text = NULL;
    size_t n = 0;
    journal_read(all.fx, &j);
    FILE *file = open_memstream(&text, &n);
    (void)fputs("{0", file);
    for (size_t i = 0; i < j.n; i++) {
        if (j.runs[i].start_ns >= since_ns && j.runs[i].end_ns) {
            (void)fprintf(file, ",%lld", (long long)j.runs[i].id);
        }
    }
    (void)fputs("}", file);
    (void)fclose(file);
    journal_clear(&j);
    return text;
}

/* Tasks after `last` were placed after that moment; ids of lost ones may be used again. */
static int64_t lost(int64_t last, int64_t since_ns)
{
    char *ever = run_since(0), *since = run_since(since_ns);
    int64_t n = test_sql_int(all.fx,
                             "SELECT count(*) FROM public.placed WHERE NOT task = ANY (CASE WHEN "
                             "task > %lld THEN '%s'::bigint[] ELSE '%s'::bigint[] END)",
                             (long long)last, since, ever);
    free(ever);
    free(since);
    return n;
}

static void test_asynchronous_standby_behind(void **state)
{
    (void)state;
    follow();
    load_await_running(all.fx, 2);
    int64_t last = lag_behind(), killed_ns = load_now_ns();
    int64_t up_ns = promote();
    int64_t recovery_ms = load_await_start(all.fx, up_ns, RECOVERY_MS);
    load_stop(&all.load);
    test_await(all.fx, CHECK_LIMIT_MS, "SELECT count(*) = 0, count(*), min(id) FROM tenon.task");
    int64_t gone = all.load.shared->commits - test_sql_int(all.fx, "SELECT count(*) FROM placed");
    assert_true(gone > 0); /* or the fault met nothing */
    assert_int_equal(lost(last, killed_ns), 0);
    nobody_died();
    print_message("failover to an asynchronous standby behind: %lld ms to the next start; %lld "
                  "transactions gone with the primary, of what is left lost 0\n",
                  (long long)recovery_ms, (long long)gone);
}

/* --- and in the end --- */

static void test_all_ends_well(void **state)
{
    (void)state;
    if (load_is_long()) {
        fleet_await_judge(&all); /* whoever lost his lock in the last failover would be dead now */
    }
    nobody_died();
    fleet_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synchronous_standby),
        cmocka_unit_test(test_asynchronous_standby_in_sync),
        cmocka_unit_test(test_asynchronous_standby_behind),
        cmocka_unit_test(test_all_ends_well),
    };
    return cmocka_run_group_tests(tests, start_all, fleet_close);
}
