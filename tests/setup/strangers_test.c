/* label: e2e */
/* timeout: 180 */
/* Advisory locks are open to whoever may log in: a role that may only CONNECT takes the keys of
 * workers, of the leader and of its sleep, and hides no death, stops no task and no leader. */
#include "tests/support/process.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include "core/base/now.h"
#include "core/base/throttle.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEN_MS = 10000 };

static char stranger_url[600];

static PGconn *stranger(struct fixture *fx)
{
    test_sql(fx, "CREATE ROLE %s_s LOGIN PASSWORD 'word'", fx->database);
    (void)snprintf(stranger_url, sizeof stranger_url, "postgresql://%s_s:word@%s", fx->database,
                   strchr(fx->database_url, '@') + 1);
    return sql_connect(stranger_url);
}

static void no_stranger(struct fixture *fx, PGconn *conn)
{
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s_s; DROP ROLE %s_s", fx->database, fx->database);
}

/* Ask for this key, and wait until the session holds it or stands in line. */
static void take(struct fixture *fx, PGconn *conn, const char *key)
{
    char sql[100];
    (void)snprintf(sql, sizeof sql, "SELECT pg_advisory_lock(%s)", key);
    assert_int_equal(PQsendQuery(conn, sql), 1);
    test_await(fx, LIMIT_MS, "SELECT EXISTS (SELECT FROM tenon.lock WHERE key = %s AND pid = %d)",
               key, PQbackendPID(conn));
}

static const char asleep[] =
    "SELECT EXISTS (SELECT FROM tenon.lock JOIN tenon.setting ON key = sleeper_key WHERE counts)";

/* The worker's session ends, and the stranger has its key: another key, the same worker. */
static void test_a_key_that_is_taken_is_left(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    struct process *worker = TENON(fx, "worker", "--handler", "a=exec true");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    sql_run(conn, "SELECT pg_advisory_lock(i) FROM generate_series(1, 1000) i"); /* a flood */
    char *key = test_sql_text(fx, "SELECT lock_key FROM tenon.worker");
    take(fx, conn, key);
    test_sql(fx, "SELECT pg_terminate_backend(pid) FROM tenon.lock WHERE counts");
    test_await(fx, SEEN_MS,
               "SELECT lock_key <> %s AND EXISTS (SELECT FROM tenon.lock WHERE key = lock_key AND"
               " counts) FROM tenon.worker",
               key);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    await_done(fx, 1);
    assert_int_equal(process_lines(worker, "renewed=1"), 0);
    end_well(worker);
    free(key);
    no_stranger(fx, conn);
}

/* A dead worker whose key a stranger holds is dead. */
static void test_a_taken_key_hides_no_death(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = TENON(fx, "worker", "--handler", "a=exec sleep 100");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS, "SELECT start_time IS NOT NULL FROM tenon.task");
    char *key = test_sql_text(fx, "SELECT lock_key FROM tenon.worker");
    take(fx, conn, key);
    process_kill(worker);
    test_await(fx, LIMIT_MS, "SELECT state = 'dead' FROM tenon.worker");
    test_await(fx, LIMIT_MS, "SELECT start_time IS NULL FROM tenon.task");
    end_well(cleaner);
    free(key);
    no_stranger(fx, conn);
}

/* The leader's key is taken before any cleaner starts, and again when the leader dies. */
static void test_a_taken_key_stops_no_leader(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx), *other = sql_connect(stranger_url);
    char *key = test_sql_text(fx, "SELECT leader_key FROM tenon.setting");
    take(fx, conn, key);
    struct process *first = TENON(fx, "cleaner");
    process_await_line(first, "event=leader", SEEN_MS);
    struct process *second = TENON(fx, "cleaner");
    process_await_line(second, "event=cleaner_started", SEEN_MS);
    free(key);
    key = test_sql_text(fx, "SELECT leader_key FROM tenon.setting");
    take(fx, other, key);
    process_kill(first);
    process_await_line(second, "event=leader", SEEN_MS);
    end_well(second);
    free(key);
    PQfinish(other);
    no_stranger(fx, conn);
}

/* Held by somebody else each commit would NOTIFY. */
static void test_a_taken_key_keeps_no_leader_awake(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    test_await(fx, LIMIT_MS, asleep);
    char *key = test_sql_text(fx, "SELECT sleeper_key FROM tenon.setting");
    take(fx, conn, key); /* in line, until the leader wakes up */
    test_sql(fx, "SELECT tenon.enqueue('a')");
    PQclear(PQgetResult(conn));
    test_await(fx, SEEN_MS, "SELECT sleeper_key <> %s FROM tenon.setting", key);
    test_await(fx, SEEN_MS, asleep);
    end_well(cleaner);
    free(key);
    no_stranger(fx, conn);
}

/* Nobody can become the leader: told in the log, by the status and the metrics. */
static void test_no_leader_is_told(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "BEGIN; SELECT FROM tenon.setting FOR UPDATE");
    struct process *cleaner = TENON(fx, "cleaner", "--http", "127.0.0.1:0");
    struct web w = scrape_at(cleaner);
    process_await_line(cleaner, "level=error prog=cleaner", LIMIT_MS);
    process_await_line(cleaner, "event=no_leader", LIMIT_MS);
    scrape_await(&w, "tenon_leader_present", 0, LIMIT_MS);
    char *out = tenon_run(fx, 0, (const char *const[]){"status", NULL});
    assert_non_null(strstr(out, "no cleaner leads"));
    free(out);
    out = tenon_run(fx, 0, (const char *const[]){"status", "--json", NULL});
    assert_non_null(strstr(out, "\"leader\": {\"led\":false}"));
    free(out);
    test_sql(fx, "ROLLBACK");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    scrape_await(&w, "tenon_leader_present", 1, LIMIT_MS);
    assert_int_equal(process_lines(cleaner, "event=no_leader"), 1);
    out = tenon_run(fx, 0, (const char *const[]){"status", NULL});
    assert_null(strstr(out, "no cleaner leads"));
    free(out);
    end_well(cleaner);
}

static void fails_with(struct fixture *fx, const char *program, const char *text)
{
    const char *const worker[] = {"worker",    "--database-url", stranger_url,
                                  "--handler", "a=true",         NULL};
    const char *const cleaner[] = {"cleaner", "--database-url", stranger_url, NULL};
    struct process *p = tenon_spawn(fx, *program == 'w' ? worker : cleaner, NULL);
    process_await_line(p, text, SEEN_MS);
    assert_int_not_equal(process_wait(p, SEEN_MS), 0);
}

/* A lock that would not count is not taken for one. */
static void test_who_may_not_register_says_so(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    fails_with(fx, "worker", "permission denied");
    test_sql(fx, "SELECT tenon.grant_reader('%s_s')", fx->database);
    fails_with(fx, "worker", "permission denied");
    fails_with(fx, "cleaner", "permission denied");
    /* Its rights are those of a role that it becomes: pg_stat_activity shows who logged in. Since
     * PostgreSQL 16 NOINHERIT holds for what is granted after it. */
    test_sql(fx, "ALTER ROLE %s_s NOINHERIT; GRANT %s TO %s_s; ALTER ROLE %s_s SET role = %s",
             fx->database, PQuser(fx->conn), fx->database, fx->database, PQuser(fx->conn));
    fails_with(fx, "worker", "may not register a worker");
    fails_with(fx, "cleaner", "may not run a cleaner");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker"), 0);
    no_stranger(fx, conn);
}

/* Old makers of partitions waited for a lock that anybody could hold. */
static void test_no_lock_stops_the_history(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    sql_run(conn, "SELECT pg_advisory_lock(1952804463, i) FROM generate_series(0, 9) i");
    test_sql(fx, "SET lock_timeout = '2 s'");
    test_sql(fx, "DROP TABLE tenon.history_2, tenon.attempt_2");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.make_partitions()"), 2);
    no_stranger(fx, conn);
}

/* How often the leader settles, and the worker asks what is paused. */
static void count_calls(struct fixture *fx)
{
    test_sql(
        fx,
        "CREATE SEQUENCE settles; CREATE SEQUENCE pings;"
        "ALTER FUNCTION tenon.settle_all RENAME TO settle_really;"
        "CREATE FUNCTION tenon.settle_all(most integer, few integer, settled bigint, OUT n integer,"
        " OUT freed bigint[], OUT due_ms bigint, OUT slow text, OUT first_note bigint)"
        " LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM nextval('public.settles');"
        " SELECT * INTO n, freed, due_ms, slow, first_note"
        " FROM tenon.settle_really(most, few, settled); END $$");
    test_sql(fx, "CREATE OR REPLACE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text"
                 " LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.pings'); RETURN (SELECT"
                 " string_agg(name, ',') FROM tenon.paused WHERE what = 'kind'); END $$");
}

/* NOTIFY asks for no right. What comes of it is bounded, and what others say is heard. */
static void test_notifications_are_heeded_within_bounds(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = stranger(fx);
    count_calls(fx);
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *worker = TENON(fx, "worker", "--handler", "a=exec true");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    int64_t begun_ms = now_ms();
    while (now_ms() < begun_ms + 1000) {
        sql_run(conn, "NOTIFY tenon, 'settle'; NOTIFY tenon_wakeup, 'pause';"
                      "NOTIFY tenon_wakeup, 'default/a'");
    }
    int64_t most = (now_ms() - begun_ms) / THROTTLE_REST_MS + THROTTLE_AHEAD_MS / THROTTLE_REST_MS +
                   30;
    assert_in_range(test_sql_int(fx, "SELECT last_value FROM settles"), 8, most);
    assert_in_range(test_sql_int(fx, "SELECT last_value FROM pings"), 8, most);
    test_sql(fx, "SELECT tenon.enqueue('a', unique_key => i::text, limit_keys => '{one}')"
                 " FROM generate_series(1, 3) i");
    await_done(fx, 3);
    test_sql(fx, "SELECT tenon.pause(NULL, 'a')");
    process_await_line(worker, "event=kinds_paused kinds=a", SEEN_MS);
    end_well(worker);
    end_well(cleaner);
    no_stranger(fx, conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_key_that_is_taken_is_left),
        WITH_DATABASE(test_a_taken_key_hides_no_death),
        WITH_DATABASE(test_a_taken_key_stops_no_leader),
        WITH_DATABASE(test_a_taken_key_keeps_no_leader_awake),
        WITH_DATABASE(test_no_leader_is_told),
        WITH_DATABASE(test_notifications_are_heeded_within_bounds),
        WITH_DATABASE(test_who_may_not_register_says_so),
        WITH_DATABASE(test_no_lock_stops_the_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
