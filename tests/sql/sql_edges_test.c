/* label: sql */
/* Edges of the SQL: tables without their row, other settings and languages of a database. */
#include "tests/support/fixture.h"
#include "tests/support/template.h"

#include <stdio.h>

/* As after a dump without data. What needs the settings says so, and does not lose the task. */
static void test_without_settings_there_is_a_clear_error(void **state)
{
    static const char *const doors[] = {
        "enqueue('a')",
        "enqueue('a', limit_keys => '{k}')",
        "enqueue('a', unique_key => 'k')",
        "enqueue_routed('a')",
        "enqueue_many('a', '{1}')",
        "enqueue_many('a', '{1}', unique_keys => '{k}')",
        "route_of('a')",
        "batch(on_end => 'a')",
        "flow('{\"tasks\": [{\"kind\": \"a\"}]}')",
        "cancel(1)",
        "signal('s')",
        "take_limit('k')",
        "set_schedule('s', '@daily', kind => 'a')",
        "pause(everything => true)",
        "resume(everything => true)",
        "set_settings('{\"on_dead\": \"a\"}')",
        "settle()",
        "purge(1)",
        "drop_history()",
        "copied()",
        "why(tenon.settle())",
        "grant_producer(current_user::text, kinds => '{a}')",
    };
    struct fixture *fx = *state;
    test_sql(fx, "DELETE FROM tenon.setting");
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
        test_sql_fails(fx, "3F000", "tenon.setting is empty|Run tenon setup", "SELECT tenon.%s",
                       doors[i]);
    }
    assert_true(test_sql_bool(fx, "SELECT tenon.paused_kinds('{a}') = '*'")); /* it may be */
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.ready"), 0);
}

static void test_without_the_settler_s_row_there_is_a_clear_error(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "DELETE FROM tenon.settler; SELECT tenon.enqueue('a', flow => tenon.flow())");
    test_sql(fx, "SELECT tenon.cancel(1)");
    test_sql_fails(fx, "3F000", "tenon.settler is empty|tenon setup", "SELECT tenon.settle()");
}

/* What reads a regular expression, a path, a number or a zone. */
static void calls_that_read_words(PGconn *conn)
{
    static const char *const calls[] = {
        "enqueue('MIDI.I', queue => 'i', retry => 'linear(1 s, 1 min, 10 %)')",
        "enqueue('a', retry => 'polynomial(1 day, 10 %)', trace => "
        "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')",
        "enqueue('a', limit_keys => '{tenant:I}')",
        "enqueue_many('a', '{1}', unique_keys => '{I}', retry => 'constant(1 s)')",
        "next_tick('30 3 * * MON-FRI')",
        "next_tick('0 0 * JUN,Jul fri')",
        "next_tick('@MIDNIGHT')",
        "set_schedule('s', '@Daily', kind => 'a', zone => 'ASIA/ISTANBUL')",
        "set_schedule('t', '15 * * * *', kind => 'a', zone => 'America/indiana/INDIANAPOLIS')",
        "set_queue('i', retry => 'linear(1 s, 2 s, 5 %)', timeout => '1 MIN')",
        "set_limit('tenant:I', 1)",
        "set_settings('{\"exchange\": \"i-i\"}')",
        "list('{\"payload\": \"$.a == 1\"}')",
        "error_class('failed', E'exit status 1: Traceback\\nValueError: I\\n')",
        "flow('{\"name\": \"I\", \"tasks\": [{\"kind\": \"I\", \"timeout\": \"1 MIN\"}]}')",
        "flow(' {\"tasks\": [{\"kind\": \"I\"}]}')",
        "finish('0/0/0000000000000000')",
        "why(1)",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        sql_run(conn, "SELECT tenon.%s", calls[i]);
    }
    char *class =
        sql_text(conn, "SELECT tenon.error_class('failed', E'exit status 1: x\\nValueError: I')");
    assert_string_equal(class, "ValueError");
    free(class);
}

static void test_backslashes_of_old_settings(void **state)
{
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SET standard_conforming_strings = off; SET escape_string_warning = off");
    calls_that_read_words(conn);
    PQfinish(conn);
}

/* Where lower('I') is not i. */
static void test_a_turkish_database(void **state)
{
    struct fixture *fx = *state;
    char url[600];
    if (PQserverVersion(fx->conn) < 150000) {
        return; // no database has a locale of ICU's there
    }
    test_sql(fx, "CREATE DATABASE %s_tr TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr'",
             fx->database);
    (void)snprintf(url, sizeof url, "%s_tr", fx->database_url);
    PGconn *conn = sql_connect(url);
    assert_true(sql_bool(conn, "SELECT lower('I') <> 'i'"));
    template_migrate(conn);
    calls_that_read_words(conn);
    PQfinish(conn);
    test_sql(fx, "DROP DATABASE %s_tr", fx->database);
}

/* --- a transaction that will be prepared --- */

static int told(PGconn *conn)
{
    int n = 0;
    sql_run(conn, "SELECT 1"); /* brings what notifications there are */
    for (PGnotify *notify = PQnotifies(conn); notify; notify = PQnotifies(conn)) {
        PQfreemem(notify);
        n++;
    }
    return n;
}

/* Of what a producer does in its transaction each may be told not to NOTIFY, with which a
 * transaction cannot be prepared. While the leader is awake no task and no note is notified, as
 * commits that NOTIFY wait for each other. */
static void test_a_transaction_that_notifies_nobody(void **state)
{
    static const struct {
        const char *call;
        bool only_asleep;
    } calls[] = {
        {"signal('%s', '1', %s)", false},
        {"flow('{\"name\": \"%s\", \"tasks\": [{\"kind\": \"a\", \"limit_keys\": [\"k\"]}]}',"
         " notify => %s)",
         true},
        {"flow('{\"name\": \"%s\", \"tasks\": [{\"kind\": \"a\"}]}'::jsonb, %s)", true},
        {"close(tenon.batch(on_end => 'a', name => '%s'), %s)", true},
        {"enqueue('a', limit_keys => '{%s}', notify => %s)", true},
        {"enqueue_many('a', '{1,2}'::jsonb[], limit_keys => '{%s}', notify => %s)", true},
    };
    struct fixture *fx = *state;
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "LISTEN tenon; LISTEN tenon_wakeup");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char call[300];
        sql_run(conn, "SELECT pg_advisory_lock(sleeper_key) FROM tenon.setting");
        (void)snprintf(call, sizeof call, calls[i].call, "x", "false");
        test_sql(fx, "SELECT tenon.%s", call);
        assert_int_equal(told(conn), 0);
        (void)snprintf(call, sizeof call, calls[i].call, "y", "true");
        test_sql(fx, "SELECT tenon.%s", call);
        assert_true(told(conn) > 0);
        sql_run(conn, "SELECT pg_advisory_unlock_all()");
        (void)snprintf(call, sizeof call, calls[i].call, "z", "true");
        test_sql(fx, "SELECT tenon.%s", call);
        assert_int_equal(told(conn) == 0, calls[i].only_asleep);
    }
    PQfinish(conn);
}

/* --- days --- */

/* A delay is so much time, whatever clocks do meanwhile where the producer's session is. */
static void test_a_delay_is_so_much_time(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SET timezone = 'Europe/Berlin'");
    test_sql(fx, "SELECT tenon.enqueue('a', to_jsonb(i), delay => i * interval '30 days'),"
                 " tenon.enqueue_many('a', ARRAY[to_jsonb(i)], delay => i * interval '30 days')"
                 " FROM generate_series(1, 12) i");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task WHERE round(extract(epoch FROM"
                                  " run_at - created_at)) = payload::int * 2592000"),
                     24);
    test_sql_fails(fx, "22023", "delay|0 to 10 years",
                   "SELECT tenon.enqueue('a', delay => '3653 days')");
    test_sql(fx, "SELECT tenon.enqueue('a', delay => '10 years')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_without_settings_there_is_a_clear_error),
        WITH_DATABASE(test_without_the_settler_s_row_there_is_a_clear_error),
        WITH_DATABASE(test_backslashes_of_old_settings),
        WITH_DATABASE(test_a_turkish_database),
        WITH_DATABASE(test_a_transaction_that_notifies_nobody),
        WITH_DATABASE(test_a_delay_is_so_much_time),
    };
    return RUN_GROUP(tests);
}
