/* label: fault */
/* timeout: 180 */
/* long: 240 */
/* only: all */
/* A standby, which holds rows of its primary; what it is once it is promoted; a copy of the data
 * directory; and, in the long variant, pg_upgrade. Two private PostgreSQL. */
#include "cli/statements.h"
#include "tests/support/held.h"
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define WITH_TWO_SERVERS(test) cmocka_unit_test_setup_teardown(test, start, end)

enum { STREAM_LIMIT_MS = 30000 };

static char data[2][300], url[2][256];

static void node_open(int n)
{
    server_use(n);
    server_open("postgres");
    (void)snprintf(url[n], sizeof url[n], "%s", test_env("DATABASE_URL"));
    (void)snprintf(data[n], sizeof data[n], "%s", test_env("TENON_PGDATA"));
}

/* Run a command with the second server stopped, as its user: "$0" is the first one's URL, "$1" and
 * "$2" the directories, "$3" that of the server's programs. */
static void replace_second(const char *script)
{
    char command[2000];
    struct stat info;
    server_use(1);
    server_do("stop");
    assert_int_equal(stat(data[1], &info), 0);
    (void)snprintf(command, sizeof command,
                   "[ $(id -u) != 0 ] || as='setpriv --reuid=%d --regid=%d --clear-groups';"
                   "cd /; $as sh -ec '%s' '%s' '%s' '%s' '%s' >&2",
                   (int)info.st_uid, (int)info.st_gid, script, url[0], data[0], data[1],
                   test_env("TENON_PGBIN"));
    assert_int_equal(system(command), 0);
    server_do("start");
}

static int start(void **state)
{
    node_open(1);
    node_open(0);
    const char *const settings = "ALTER SYSTEM SET max_prepared_transactions = 5";
    PGconn *conn = sql_connect(url[0]);
    sql_run(conn, "%s", settings);
    PQfinish(conn);
    server_do("restart");
    return fixture_setup_database(state);
}

static int end(void **state)
{
    int code = fixture_teardown(state);
    server_close();
    return code;
}

/* The same database on the second server, which has the roles of the first one. */
static void url_of_second(struct fixture *fx, char *ret, size_t size)
{
    const char *host = strchr(url[1], '@');
    assert_non_null(host);
    (void)snprintf(ret, size, "%.*s%.*s/%s", (int)strcspn(url[0], "@"), url[0],
                   (int)strcspn(host, "/"), host, fx->database);
}

/* Does doctor's statement name it, when it may be no second and no transaction old? */
static bool finds(struct fixture *fx, const char *subject, const char *words)
{
    const char *const params[] = {"0", "0", "140000"};
    PGresult *result = statement_run(fx->conn, &sql_doctor_server, params, 3);
    bool found = false;
    for (int i = 0; i < PQntuples(result); i++) {
        found = found || (strcmp(PQgetvalue(result, i, 1), subject) == 0 &&
                          strstr(PQgetvalue(result, i, 2), words));
    }
    PQclear(result);
    return found;
}

static void see_prepared(struct fixture *fx)
{
    assert_false(finds(fx, "old transaction", "prepared"));
    test_sql(fx, "BEGIN; CREATE TABLE public.held (); PREPARE TRANSACTION 'left behind'");
    assert_true(finds(fx, "old transaction", "the prepared transaction 'left behind'"));
    test_sql(fx, "ROLLBACK PREPARED 'left behind'");
}

/* What only reads works on a server that takes no writes; what writes is told so by PostgreSQL. */
static void read_from(struct fixture *fx, const char *standby, int64_t task)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%lld", (long long)task);
    const char *const reads[][3] = {{"status"},        {"list"},         {"show", id},
                                    {"why", id},       {"audit"},        {"schedule", "list"},
                                    {"limit", "list"}, {"flow", "list"}, {"queue"},
                                    {"kind"}};
    char env[600];
    (void)snprintf(env, sizeof env, "DATABASE_URL=%s", standby);
    for (size_t i = 0; i <= sizeof reads / sizeof *reads; i++) {
        bool writes = i == sizeof reads / sizeof *reads;
        const char *const args[] = {writes ? "pause" : reads[i][0], writes ? "mail" : reads[i][1],
                                    NULL};
        struct process *p = tenon_spawn(fx, args, (const char *const[]){env, NULL});
        int code = process_wait(p, LIMIT_MS);
        char *log = file_text(p->log);
        if (code != writes || (writes && !strstr(log, "read-only"))) {
            fail_msg("tenon %s: exit code %d: %s", args[0], code, log);
        }
        free(log);
    }
}

/* A query on the standby, with a slot that tells the primary of it. */
static void see_standby(struct fixture *fx, const char *second)
{
    int64_t task = test_sql_int(fx, "SELECT tenon.enqueue('b')");
    replace_second("find \"$2\" -mindepth 1 -delete;"
                   " \"$3/pg_basebackup\" -d \"$0\" -D \"$2\" -R -X stream -c fast -C -S away;"
                   " echo hot_standby_feedback = on >>\"$2/postgresql.conf\"");
    test_await(fx, STREAM_LIMIT_MS,
               "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'");
    read_from(fx, second, task);
    PGconn *reader = sql_connect(second);
    sql_run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    test_await(fx, STREAM_LIMIT_MS, "SELECT xmin IS NOT NULL FROM pg_replication_slots");
    test_sql(fx, "SELECT tenon.enqueue('b')");
    assert_true(finds(fx, "standby", "the replication slot away holds a snapshot"));
    PQfinish(reader);
}

/* What was a standby runs tasks at once, as after a failover; and with no name, so does a copy. */
static void promote(struct fixture *fx, const char *second)
{
    PGconn *conn = sql_connect(second);
    assert_true(sql_bool(conn, "SELECT pg_promote(true, 30)"));
    assert_true(sql_bool(conn, "SELECT tenon.copied() IS NULL"));
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true",
                   "--handler", "b=true", "--database-url", second));
    assert_true(sql_int(conn, "SELECT count(*) FROM tenon.history") > 0);
    PQfinish(conn);
}

static void refuses(struct fixture *fx, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, "named staging");
    assert_contains(log, "tenon adopt");
    free(log);
}

/* The same data directory, whose server has a name: nothing runs until somebody says so. */
static void name_it(struct fixture *fx, const char *second)
{
    replace_second("echo \"tenon.home = staging\" >>\"$2/postgresql.conf\"");
    const char *const worker[] = {"worker", "--amqp-url",     "none", "--handler",
                                  "a=true", "--database-url", second, NULL};
    const char *const cleaner[] = {"cleaner", "--amqp-url", "none", "--database-url", second, NULL};
    refuses(fx, worker);
    refuses(fx, cleaner);
    free(TENON_RUN(fx, 0, "adopt", "--yes", "--database-url", second));
    free(TENON_RUN(fx, 0, "cleaner", "--amqp-url", "none", "--once", "--database-url", second));
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true",
                   "--database-url", second));
}

static void test_standby_and_copy(void **state)
{
    struct fixture *fx = *state;
    char second[512];
    url_of_second(fx, second, sizeof second);
    see_prepared(fx);
    see_standby(fx, second);
    promote(fx, second);
    test_await(fx, STREAM_LIMIT_MS, "SELECT NOT active FROM pg_replication_slots");
    assert_true(finds(fx, "replication slot", "the slot away is inactive"));
    name_it(fx, second);
    server_use(0);
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    test_sql(fx, "SELECT pg_drop_replication_slot('away')");
}

/* Another system identifier and the same OIDs: it is at home, and says who it was. */
static void test_pg_upgrade(void **state)
{
    struct fixture *fx = *state;
    char second[512], password[64] = "";
    if (!load_is_long()) {
        return;
    }
    url_of_second(fx, second, sizeof second);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_sql(fx, "UPDATE pg_database SET datallowconn = true WHERE datname <> 'template0'");
    assert_int_equal(sscanf(url[0], "postgresql://tenon:%63[^@]", password), 1);
    (void)setenv("PGPASSWORD", password, 1);
    (void)setenv("PGUSER", "tenon", 1);
    server_use(0);
    server_do("stop");
    replace_second(
        "umask 077; find \"$2\" -mindepth 1 -delete; cd \"$(TMPDIR= mktemp -d)\";"
        " echo \"$PGPASSWORD\" >password;"
        " \"$3/initdb\" -N -D \"$2\" -U tenon --pwfile=password -A scram-sha-256"
        " -E UTF8 --locale=C.UTF-8;"
        " \"$3/pg_upgrade\" -N -b \"$3\" -B \"$3\" -d \"$1\" -D \"$2\" -U tenon;"
        " rm -r \"$PWD\";"
        " printf \"include_if_exists = \\047tenon.conf\\047\\n\" >>\"$2/postgresql.conf\"");
    (void)unsetenv("PGPASSWORD");
    (void)unsetenv("PGUSER");
    server_use(0);
    server_do("start");
    server_reconnect(fx);
    PGconn *conn = sql_connect(second);
    assert_true(sql_bool(conn, "SELECT h.system <> (tenon.home_here()).system FROM tenon.home h"));
    assert_true(sql_bool(conn, "SELECT tenon.copied() IS NULL"));
    PQfinish(conn);
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handler", "a=true",
                   "--database-url", second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TWO_SERVERS(test_standby_and_copy),
        WITH_TWO_SERVERS(test_pg_upgrade),
    };
    return RUN_GROUP(tests);
}
