/* label: e2e */
/* timeout: 300 */
/* What schedules do: each tick makes one task, whoever calls, is killed, comes late or is in the
 * way. Time is given to tenon.run_schedules_at(), or the next tick is moved back. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <signal.h>
#include <stdio.h>

enum { LIMIT_MS = 60000, CLEANERS = 3, ROUNDS_MAX = 60 };

static void set(struct fixture *fx, const char *name, const char *more)
{
    test_sql(fx, "SELECT tenon.set_schedule('%s', kind => 'a', %s)", name, more);
}

/* The next tick is then. */
static void move(struct fixture *fx, const char *name, const char *next)
{
    test_sql(fx, "UPDATE tenon.schedule SET next_at = '%s', due_at = '%s' WHERE name = '%s'", next,
             next, name);
}

/* Call it as of a moment; "name outcome" of each tick. */
static void run_at(struct fixture *fx, const char *moment, const char *expected)
{
    char *got = test_sql_text(fx,
                              "SELECT coalesce(string_agg(name || ' ' || outcome, ', '), '')"
                              " FROM tenon.run_schedules_at('%s')",
                              moment);
    assert_string_equal(got, expected);
    free(got);
}

/* The ticks of the tasks there are, day and hour. */
static void check_tasks(struct fixture *fx, const char *expected)
{
    char *got = test_sql_text(fx,
                              "SELECT coalesce(string_agg(to_char((payload->>'tick')::timestamptz"
                              " AT TIME ZONE 'UTC', 'DD HH24:MI'), ', ' ORDER BY id), '')"
                              " FROM tenon.task");
    assert_string_equal(got, expected);
    free(got);
}

static void check_next(struct fixture *fx, const char *name, const char *expected)
{
    char *got = test_sql_text(fx,
                              "SELECT to_char(next_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')"
                              " FROM tenon.schedule WHERE name = '%s'",
                              name);
    assert_string_equal(got, expected);
    free(got);
}

/* --- what is set ------------------------------------------------------------------------------ */

static void test_a_tick_makes_a_task(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s",
        "cron => '0 3 * * *', payload => '{\"n\": 1}', queue => 'q', priority => 7,"
        " max_attempts => 3, timeout => '5 min'");
    move(fx, "s", "2027-01-01 03:00+0");
    run_at(fx, "2027-01-01 02:59:59+0", "");
    run_at(fx, "2027-01-01 03:00+0", "s enqueued");
    run_at(fx, "2027-01-01 03:00+0", "");
    assert_true(test_sql_bool(
        fx,
        "SELECT queue = 'q' AND kind = 'a' AND priority = 7 AND max_attempts = 3 AND"
        " timeout_ms = 300000 AND payload = '{\"n\": 1, \"tick\": \"2027-01-01T03:00:00+00:00\"}'"
        " FROM tenon.task"));
    assert_true(test_sql_bool(fx, "SELECT last_task = t.id AND last_state = 'ready' AND last_at ="
                                  " '2027-01-01 03:00+0' FROM tenon.schedules, tenon.task t"));
    check_next(fx, "s", "2027-01-02 03:00");
}

/* What is no object stays as it is, and a key of the user's own. */
static void test_payloads(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "every => '1 s', payload => '[1]'");
    set(fx, "t", "every => '1 s', payload => '{\"tick\": 1}'");
    test_sql(fx, "SELECT tenon.run_schedules_at(now() + interval '2 s', ticks => 1)");
    char *got = test_sql_text(fx, "SELECT string_agg(payload::text, ' ' ORDER BY payload)"
                                  " FROM tenon.task");
    assert_string_equal(got, "[1] {\"tick\": 1}");
    free(got);
}

static void test_set_again(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "cron => '0 3 * * *'");
    move(fx, "s", "2027-01-01 03:00+0");
    set(fx, "s", "cron => '0 3 * * *', payload => '{\"n\": 2}', catch_up => 'all'");
    check_next(fx, "s", "2027-01-01 03:00");
    run_at(fx, "2027-01-02 03:00+0", "s enqueued, s enqueued");
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task WHERE payload @> '{\"n\": 2}'"),
                     2);
    set(fx, "s", "every => '2 h'"); /* from the last tick on, which lies ahead */
    check_next(fx, "s", "2027-01-02 05:00");
    set(fx, "s", "cron => '0 3 * * *', zone => 'europe/berlin'");
    assert_true(test_sql_bool(fx, "SELECT zone = 'Europe/Berlin' FROM tenon.schedule"));
    assert_true(test_sql_bool(fx, "SELECT tenon.remove_schedule('s')"));
    assert_false(test_sql_bool(fx, "SELECT tenon.remove_schedule('s')"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 2);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *arguments, *says;
    } table[] = {
        {"'s', cron => '0 25 * * *', kind => 'a'", "hour: 25 is not 0 to 23"},
        {"'s', cron => '@daily', every => '1 s', kind => 'a'",
         "cron and every are given together|exactly one"},
        {"'s', kind => 'a'", "neither cron nor every is given"},
        {"'s', every => '1 month', kind => 'a'", "every 1 mon|without months"},
        {"'s', every => '0.5 s', kind => 'a'", "every 00:00:00.5|1 second to 366 days"},
        {"'s s', every => '1 s', kind => 'a'", "name 's s'"},
        {"'s', every => '1 s'", "kind NULL"},
        {"'s', every => '1 s', kind => 'a', priority => 10", "priority 10"},
        {"'s', every => '1 s', kind => 'a', timeout => '0 s'", "timeout 00:00:00"},
        {"'s', every => '1 s', kind => 'a', payload => NULL::jsonb", "payload NULL"},
        {"'s', every => '1 s', kind => 'a', catch_up => 'some'",
         "catch_up 'some'|none, last or all"},
        {"'s', every => '1 s', kind => 'a', overlap => 'no'", "overlap 'no'|allow or skip"},
        {"'s', cron => '@daily', kind => 'a', zone => 'CET'", "zone 'CET'|Europe/Berlin"},
        {"'s', cron => '@daily', kind => 'a', zone => 'Europe/Berln'", "zone 'Europe/Berln'"},
        {"'s', cron => '0 0 30 2 *', kind => 'a'", "never comes"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        test_sql_fails(fx, "22023", table[i].says, "SELECT tenon.set_schedule(%s)",
                       table[i].arguments);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.schedule"), 0);
}

/* What a role may not enqueue it may not schedule, though a cleaner would enqueue it. */
static void test_a_confined_operator(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "CREATE ROLE %s_o; SELECT tenon.grant_operator('%s_o');"
             "INSERT INTO tenon.producer VALUES ('%s_o', NULL, '{mail}')",
             fx->database, fx->database, fx->database);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SET SESSION AUTHORIZATION %s_o", fx->database);
    sql_run(conn, "SELECT tenon.set_schedule('s', every => '1 s', kind => 'mail')");
    sql_fails(conn, "42501", "may not enqueue kind pay",
              "SELECT tenon.set_schedule('s', every => '1 s', kind => 'pay')");
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s_o; DROP ROLE %s_o", fx->database, fx->database);
}

/* --- late, long, paused ----------------------------------------------------------------------- */

static void test_catch_up_after_a_week(void **state)
{
    static const struct {
        const char *catch_up, *run, *tasks;
    } table[] = {
        {"none", "s missed", ""},
        {"last", "s missed, s enqueued", "07 03:00"},
        {"all",
         "s enqueued, s enqueued, s enqueued, s enqueued, s enqueued, s enqueued, s enqueued",
         "01 03:00, 02 03:00, 03 03:00, 04 03:00, 05 03:00, 06 03:00, 07 03:00"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char more[80];
        test_sql(fx, "TRUNCATE tenon.schedule, tenon.task");
        (void)snprintf(more, sizeof more, "cron => '0 3 * * *', catch_up => '%s'",
                       table[i].catch_up);
        set(fx, "s", more);
        move(fx, "s", "2027-01-01 03:00+0");
        run_at(fx, "2027-01-07 12:00+0", table[i].run);
        check_tasks(fx, table[i].tasks);
        check_next(fx, "s", "2027-01-08 03:00");
        run_at(fx, "2027-01-07 12:00+0", "");
        run_at(fx, "2027-01-08 03:00:59+0", "s enqueued"); /* is in time */
    }
}

/* The newest tick is in time, so that none of the others must be caught up. */
static void test_the_newest_is_in_time(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "cron => '* * * * *'");
    set(fx, "t", "every => '1 min'");
    move(fx, "s", "2027-01-01 03:00+0");
    move(fx, "t", "2027-01-01 03:00:20+0");
    run_at(fx, "2028-01-01 04:00:30+0", "s missed, s enqueued, t missed, t enqueued");
    check_tasks(fx, "01 04:00, 01 04:00");
    check_next(fx, "t", "2028-01-01 04:01");
}

/* A week of ticks of one is no long transaction, and the others do not wait for it. */
static void test_catching_up_is_bounded(void **state)
{
    struct fixture *fx = *state;
    set(fx, "long", "every => '1 min', catch_up => 'all'");
    set(fx, "short", "every => '1 min', catch_up => 'all'");
    move(fx, "long", "2027-01-01 00:00+0");
    move(fx, "short", "2027-01-08 00:00+0");
    static const char run[] = "SELECT string_agg(name, ' ') FROM (SELECT name, count(*) FROM"
                              " tenon.run_schedules_at('2027-01-08 00:00+0', 1) GROUP BY name) r";
    for (int i = 0; i < 2; i++) { /* one schedule in each call: both have their turn */
        char *got = test_sql_text(fx, "%s", run);
        assert_string_equal(got, i ? "short" : "long");
        free(got);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 11);
    int calls = 0;
    while (test_sql_int(fx, "SELECT count(*) FROM"
                            " tenon.run_schedules_at('2027-01-08 00:00+0')") > 0) {
        calls++;
    }
    assert_int_equal(calls, (7 * 1440 + 1 - 10 + 9) / 10);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 7 * 1440 + 2 AND count(DISTINCT payload) ="
                                  " 7 * 1440 + 1 FROM tenon.task"));
}

static void test_overlap_is_skipped(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "every => '1 h', overlap => 'skip'");
    move(fx, "s", "2027-01-01 00:00+0");
    run_at(fx, "2027-01-01 00:00+0", "s enqueued");
    run_at(fx, "2027-01-01 01:00+0", "s skipped");
    run_at(fx, "2027-01-01 02:00+0", "s skipped");
    assert_int_equal(test_sql_int(fx, "SELECT skipped FROM tenon.schedules"), 2);
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.task");
    run_at(fx, "2027-01-01 03:00+0", "s enqueued");
    check_tasks(fx, "01 03:00");
}

static void test_paused_and_resumed(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "cron => '0 3 * * *', catch_up => 'all'");
    assert_true(test_sql_bool(fx, "SELECT tenon.pause_schedule('s', why => 'late')"));
    set(fx, "s", "cron => '0 4 * * *', catch_up => 'all'"); /* stays paused */
    run_at(fx, "2037-01-01 00:00+0", "");
    assert_true(test_sql_bool(fx, "SELECT state = 'paused' AND next_at IS NULL AND paused_by ="
                                  " session_user AND paused_why = 'late' FROM tenon.schedules"));
    test_sql(fx, "UPDATE tenon.schedule SET next_at = now() - interval '9 days'");
    assert_true(test_sql_bool(fx, "SELECT tenon.resume_schedule('s')"));
    assert_true(test_sql_bool(fx, "SELECT state = 'active' AND next_at BETWEEN now() AND"
                                  " now() + interval '1 day' FROM tenon.schedules"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.run_schedules()"), 0);
    assert_false(
        test_sql_bool(fx, "SELECT tenon.pause_schedule('t') OR tenon.resume_schedule('t')"));
}

static void test_run_now(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "cron => '0 3 * * *', overlap => 'skip'");
    move(fx, "s", "2027-01-01 03:00+0");
    test_sql(fx, "SELECT tenon.pause_schedule('s')");
    int64_t id = test_sql_int(fx, "SELECT tenon.run_schedule_now('s')");
    assert_int_equal(test_sql_int(fx, "SELECT id FROM tenon.task WHERE kind = 'a'"), id);
    assert_true(test_sql_bool(fx, "SELECT (payload->>'tick')::timestamptz <= clock_timestamp()"
                                  " FROM tenon.task"));
    check_next(fx, "s", "2027-01-01 03:00");
    test_sql(fx, "SELECT tenon.resume_schedule('s')");
    move(fx, "s", "2027-01-01 03:00+0");
    run_at(fx, "2027-01-01 03:00+0", "s skipped"); /* it has not ended */
    assert_true(test_sql_bool(fx, "SELECT tenon.run_schedule_now('t') IS NULL"));
}

/* --- once, and only once ---------------------------------------------------------------------- */

static void test_no_tick_comes_twice(void **state)
{
    struct fixture *fx = *state;
    set(fx, "s", "cron => '0 3 * * *'");
    move(fx, "s", "2027-01-01 03:00+0");
    run_at(fx, "2027-01-01 03:00+0", "s enqueued");
    test_sql_fails(fx, "23514", "schedule_check",
                   "UPDATE tenon.schedule SET next_at = '2027-01-01 03:00+0'");
    /* a clock that is behind, as after a failover */
    run_at(fx, "2026-12-31 03:00+0", "");
    test_sql(fx, "SELECT tenon.pause_schedule('s'), tenon.resume_schedule('s')");
    check_next(fx, "s", "2027-01-02 03:00");
}

static void test_callers_share_the_work(void **state)
{
    struct fixture *fx = *state;
    static const char run[] = "SELECT count(*) FROM"
                              " tenon.run_schedules_at('2027-01-01 03:00+0', %d)";
    PGconn *other = sql_connect(fx->database_url);
    for (char name[] = "a"; *name <= 'f'; ++*name) {
        set(fx, name, "cron => '0 3 * * *'");
        move(fx, name, "2027-01-01 03:00+0");
    }
    sql_run(other, "SET lock_timeout = '5 s'; BEGIN");
    assert_int_equal(sql_int(other, run, 4), 4);
    test_sql(fx, "SET lock_timeout = '5 s'");
    assert_int_equal(test_sql_int(fx, run, 100), 2);
    sql_run(other, "ROLLBACK; BEGIN");
    assert_int_equal(sql_int(other, run, 3), 3);
    assert_int_equal(test_sql_int(fx, run, 100), 1);
    sql_run(other, "COMMIT");
    assert_int_equal(test_sql_int(fx, run, 100), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 6);
    PQfinish(other);
}

/* It cannot enqueue: its kind wants a longer timeout by now. */
static void set_bad(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.set_schedule('bad', cron => '0 3 * * *', kind => 'pay',"
                 " timeout => '1 s'); INSERT INTO tenon.kind (name, timeout_min_ms)"
                 " VALUES ('pay', 2000)");
}

static void test_one_that_fails(void **state)
{
    struct fixture *fx = *state;
    set_bad(fx);
    set(fx, "good", "cron => '0 3 * * *'");
    move(fx, "bad", "2027-01-01 03:00+0");
    move(fx, "good", "2027-01-01 03:00+0");
    char *why = test_sql_text(fx, "SELECT string_agg(concat_ws(' ', name, outcome, error), ', '"
                                  " ORDER BY name) FROM"
                                  " tenon.run_schedules_at('2027-01-01 03:00+0')");
    assert_string_equal(why, "bad failed tenon: timeout 00:00:01 is not allowed, good enqueued");
    free(why);
    run_at(fx, "2027-01-01 03:00:59+0", ""); /* not at once again */
    run_at(fx, "2027-01-01 03:01+0", "bad failed");
    assert_true(test_sql_bool(fx, "SELECT state = 'failing' AND last_error ~ 'timeout' FROM"
                                  " tenon.schedules WHERE name = 'bad'"));
    test_sql(fx, "DELETE FROM tenon.kind");
    run_at(fx, "2027-01-01 03:05+0", "bad enqueued");
    assert_true(test_sql_bool(fx, "SELECT state = 'active' AND last_error IS NULL FROM"
                                  " tenon.schedules WHERE name = 'bad'"));
    check_tasks(fx, "01 03:00, 01 03:00");
}

/* --- cleaners --------------------------------------------------------------------------------- */

/* Fifteen seconds are less than the minute after which a cleaner would look by itself. */
static void test_a_cleaner_ticks_in_time(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "cleaner");
    process_await_line(p, "event=leader", LIMIT_MS);
    set(fx, "s", "every => '1 s'");
    test_await(fx, 15000, "SELECT count(*) >= 3 FROM tenon.task");
    test_sql(fx, "SELECT tenon.pause_schedule('s')");
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_true(test_sql_bool(fx, "SELECT count(*) = count(DISTINCT payload) FROM tenon.task"));
}

static void test_what_the_log_says(void **state)
{
    struct fixture *fx = *state;
    set(fx, "none", "cron => '0 3 * * *', catch_up => 'none'");
    set_bad(fx);
    move(fx, "none", "2026-01-01 03:00+0");
    move(fx, "bad", "2026-01-01 03:00+0");
    struct process *p = TENON(fx, "cleaner", "--once");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "event=tick_left_out schedule=none tick=\"2026-01-01 "
                                      "03:00:00+00\" why=missed"),
                     1);
    assert_int_equal(process_lines(p, "event=schedule_failed schedule=bad"), 1);
}

/* 24 schedules, ten days behind: some 2,500 ticks, 10 of each at a time. */
static void ten_days_behind(struct fixture *fx)
{
    test_sql(
        fx,
        "SELECT tenon.set_schedule('cron-' || n, cron => (ARRAY['0 * * * *', '30 1-23/2 * * *',"
        " '15 */4 * * *', '30 2 * * *', '0 9-17 * * mon-fri', '*/20 8 * * *'])[1 + n %% 6],"
        " zone => (ARRAY['Europe/Berlin', 'America/New_York', 'UTC'])[1 + n %% 3],"
        " kind => 'a', payload => jsonb_build_object('of', 'cron-' || n), catch_up => 'all')"
        " FROM generate_series(1, 18) n;"
        "SELECT tenon.set_schedule('every-' || n, every => n * interval '71 min', kind => 'a',"
        " payload => jsonb_build_object('of', 'every-' || n), catch_up => 'all')"
        " FROM generate_series(1, 6) n;"
        "UPDATE tenon.schedule SET next_at = CASE WHEN cron IS NULL THEN now() - interval '10 d'"
        " ELSE tenon.next_tick(cron, zone, now() - interval '10 d') END;"
        "UPDATE tenon.schedule SET due_at = next_at;"
        "CREATE TABLE public.begun AS SELECT name, cron, zone, every_ms, next_at"
        " FROM tenon.schedule");
}

/* Each kills itself after its Nth statement was sent, and may be killed before that. */
static struct process *start_armed(struct fixture *fx, int nth)
{
    char point[64];
    const char *const args[] = {"cleaner", NULL};
    const char *const env[] = {point, NULL};
    (void)snprintf(point, sizeof point, "TENON_POINT=hot_sent:%d:kill", nth);
    return tenon_spawn(fx, args, env);
}

static bool is_behind(struct fixture *fx)
{
    return test_sql_bool(fx, "SELECT bool_or(next_at < now()) FROM tenon.schedule");
}

static void check_ten_days(struct fixture *fx)
{
    char *wrong = test_sql_text(
        fx,
        "WITH RECURSIVE due AS (SELECT * FROM public.begun UNION ALL SELECT name, cron, zone,"
        " every_ms, CASE WHEN cron IS NULL THEN next_at + every_ms * interval '1 ms'"
        " ELSE tenon.next_tick(cron, zone, next_at) END FROM due d WHERE next_at <="
        " (SELECT s.last_at FROM tenon.schedule s WHERE s.name = d.name)),"
        " expected AS (SELECT d.name, d.next_at AS at FROM due d JOIN tenon.schedule s"
        " ON s.name = d.name AND d.next_at <= s.last_at),"
        " got AS (SELECT payload->>'of' AS name, (payload->>'tick')::timestamptz AS at, count(*)"
        " AS n FROM tenon.task GROUP BY 1, 2)"
        " SELECT string_agg(format('%%s %%s %%s', name, at, coalesce(n, 0)), ', ')"
        " FROM expected FULL JOIN got USING (name, at) WHERE n IS DISTINCT FROM 1"
        " OR NOT EXISTS (SELECT FROM expected e WHERE e.name = got.name AND e.at = got.at)");
    if (wrong) {
        fail_msg("ticks that have not one task: %s", wrong);
    }
    assert_in_range(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1500, 4000);
}

static void test_ten_days_and_kills(void **state)
{
    struct fixture *fx = *state;
    int kills = 0, round = 0;
    ten_days_behind(fx);
    for (; is_behind(fx) && round < ROUNDS_MAX; round++) {
        struct process *p[CLEANERS];
        for (int i = 0; i < CLEANERS; i++) {
            p[i] = start_armed(fx, 3 + (5 * round + 3 * i) % 11);
        }
        (void)process_wait(p[0], LIMIT_MS);
        process_kill(p[1]);
        (void)process_wait(p[2], LIMIT_MS);
        kills += CLEANERS;
    }
    print_message("%d cleaners killed\n", kills);
    assert_true(kills >= 10);
    while (is_behind(fx)) {
        free(TENON_RUN(fx, 0, "cleaner", "--once"));
    }
    check_ten_days(fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_tick_makes_a_task),
        WITH_DATABASE(test_payloads),
        WITH_DATABASE(test_set_again),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_a_confined_operator),
        WITH_DATABASE(test_catch_up_after_a_week),
        WITH_DATABASE(test_the_newest_is_in_time),
        WITH_DATABASE(test_catching_up_is_bounded),
        WITH_DATABASE(test_overlap_is_skipped),
        WITH_DATABASE(test_paused_and_resumed),
        WITH_DATABASE(test_run_now),
        WITH_DATABASE(test_no_tick_comes_twice),
        WITH_DATABASE(test_callers_share_the_work),
        WITH_DATABASE(test_one_that_fails),
        WITH_DATABASE(test_a_cleaner_ticks_in_time),
        WITH_DATABASE(test_what_the_log_says),
        WITH_DATABASE(test_ten_days_and_kills),
    };
    return RUN_GROUP(tests);
}
