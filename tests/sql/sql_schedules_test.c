/* label: sql */
/* timeout: 240 */
/* long: 600 */
/* When schedules tick: cron expressions, zones, changes of daylight time, and what is refused. */
#include "tests/support/fixture.h"
#include "tests/support/load.h"

#include "core/base/buf.h"

#include <stdio.h>
#include <time.h>

enum { EXPRESSIONS = 20, LONG = 20, WINDOW_MINUTES = 1440, WALK_DAYS = 1100, TICKS_MAX = 600 };

/* --- tables ----------------------------------------------------------------------------------- */

struct expected {
    const char *cron, *zone, *after;
    const char *ticks; /* the next ones in UTC, separated by ", " */
};

static void check_ticks(struct fixture *fx, const struct expected *e)
{
    char *got = test_sql_text(
        fx,
        "SET timezone = 'UTC';"
        "WITH RECURSIVE t AS (SELECT 1 AS n, tenon.next_tick('%s', '%s', '%s') AS at"
        " UNION ALL SELECT n + 1, tenon.next_tick('%s', '%s', at) FROM t WHERE n < 3)"
        " SELECT string_agg(to_char(at, 'YYYY-MM-DD HH24:MI'), ', ' ORDER BY n) FROM t",
        e->cron, e->zone, e->after, e->cron, e->zone);
    if (strncmp(got, e->ticks, strlen(e->ticks)) != 0) {
        fail_msg("%s in %s after %s: %s and not %s", e->cron, e->zone, e->after, got, e->ticks);
    }
    free(got);
}

static void test_expressions(void **state)
{
    static const struct expected table[] = {
        {"0 3 * * *", "UTC", "2026-11-23 02:59:59.9+0", "2026-11-23 03:00, 2026-11-24 03:00"},
        {"0 3 * * *", "UTC", "2026-11-23 03:00+0", "2026-11-24 03:00"},
        {"* * * * *", "UTC", "2026-12-31 23:58:30+0", "2026-12-31 23:59, 2027-01-01 00:00"},
        {"*/20 * * * *", "UTC", "2026-11-23 03:00+0", "2026-11-23 03:20, 2026-11-23 03:40"},
        {"5,50-52 7 * * *", "UTC", "2026-11-23 07:05+0", "2026-11-23 07:50, 2026-11-23 07:51"},
        {"10-40/15 5 * * *", "UTC", "2026-11-23 05:00+0", "2026-11-23 05:10, 2026-11-23 05:25"},
        {" 0\t0  1 jan,JUL * ", "UTC", "2026-11-23 00:00+0", "2027-01-01 00:00, 2027-07-01 00:00"},
        {"0 0 31 * *", "UTC", "2026-03-31 00:00+0", "2026-05-31 00:00, 2026-07-31 00:00"},
        {"0 12 * * 7", "UTC", "2026-11-23 00:00+0", "2026-11-29 12:00, 2026-12-06 12:00"},
        {"0 12 * * sat-sun", "UTC", "2026-11-23 00:00+0", "2026-11-28 12:00, 2026-11-29 12:00"},
        {"0 12 * * mon-wed,Fri", "UTC", "2026-11-25 13:00+0", "2026-11-27 12:00, 2026-11-30 12:00"},
        /* both days are restricted: one of them is enough */
        {"0 0 13 * fri", "UTC", "2026-12-05 00:00+0", "2026-12-11 00:00, 2026-12-13 00:00"},
        /* one begins with a star: both must be true */
        {"0 0 */13 * fri", "UTC", "2026-11-23 00:00+0", "2026-11-27 00:00, 2027-01-01 00:00"},
        {"0 0 29 2 *", "UTC", "2026-11-23 00:00+0", "2028-02-29 00:00, 2032-02-29 00:00"},
        {"0 0 29 2 *", "UTC", "2096-03-01 00:00+0", "2104-02-29 00:00, 2108-02-29 00:00"},
        {"0 0 29 2 */6", "UTC", "2026-11-23 00:00+0", "2032-02-29 00:00, 2048-02-29 00:00"},
        {"@hourly", "UTC", "2026-11-23 03:30+0", "2026-11-23 04:00, 2026-11-23 05:00"},
        {"@Daily", "UTC", "2026-11-23 03:30+0", "2026-11-24 00:00, 2026-11-25 00:00"},
        {"@midnight", "UTC", "2026-11-23 03:30+0", "2026-11-24 00:00, 2026-11-25 00:00"},
        {"@weekly", "UTC", "2026-11-23 03:30+0", "2026-11-29 00:00, 2026-12-06 00:00"},
        {"@monthly", "UTC", "2026-11-23 03:30+0", "2026-12-01 00:00, 2027-01-01 00:00"},
        {"@yearly", "UTC", "2026-11-23 03:30+0", "2027-01-01 00:00, 2028-01-01 00:00"},
        {"@annually", "UTC", "2026-11-23 03:30+0", "2027-01-01 00:00, 2028-01-01 00:00"},
        {"0 3 * * *", "Asia/Kathmandu", "2026-11-23 00:00+0", "2026-11-23 21:15"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        check_ticks(*state, &table[i]);
    }
}

/* Berlin: 28 March 2027 01:00 UTC on, 31 October 01:00 UTC back. New York: 14 March 07:00, 7
 * November 06:00. Lord Howe, by half an hour: 2 October 15:30 on, 3 April 15:00 back. Havana, at
 * midnight: 10 March 2024 05:00; tzdata 2026f has no more changes there. */
static void test_changes_of_daylight_time(void **state)
{
    static const char berlin[] = "Europe/Berlin", york[] = "America/New_York",
                      howe[] = "Australia/Lord_Howe";
    static const struct expected table[] = {
        {"30 2 * * *", berlin, "2027-03-27 12:00+0", "2027-03-28 01:00, 2027-03-29 00:30"},
        {"0,30 2,3 * * *", berlin, "2027-03-27 12:00+0",
         "2027-03-28 01:00, 2027-03-28 01:30, 2027-03-29 00:00"},
        {"0 2 * * *", berlin, "2027-10-30 12:00+0", "2027-10-31 00:00, 2027-11-01 01:00"},
        {"30 2 * * *", berlin, "2027-10-31 01:10+0", "2027-11-01 01:30"},
        {"0 */6 * * *", berlin, "2027-10-30 20:00+0", "2027-10-30 22:00, 2027-10-31 05:00"},
        {"30 * * * *", berlin, "2027-03-28 00:00+0", "2027-03-28 00:30, 2027-03-28 01:30"},
        {"30 * * * *", berlin, "2027-10-31 00:00+0",
         "2027-10-31 00:30, 2027-10-31 01:30, 2027-10-31 02:30"},
        {"50 * * * *", berlin, "2027-10-31 00:55+0", "2027-10-31 01:50, 2027-10-31 02:50"},
        {"30 2 * * *", york, "2027-03-14 00:00+0", "2027-03-14 07:00, 2027-03-15 06:30"},
        {"30 1 * * *", york, "2027-11-07 00:00+0", "2027-11-07 05:30, 2027-11-08 06:30"},
        {"*/30 * * * *", york, "2027-11-07 05:00+0",
         "2027-11-07 05:30, 2027-11-07 06:00, 2027-11-07 06:30"},
        {"15 2 * * *", howe, "2027-10-02 12:00+0", "2027-10-02 15:30, 2027-10-03 15:15"},
        {"45 1 * * *", howe, "2027-04-03 12:00+0", "2027-04-03 14:45, 2027-04-04 15:15"},
        {"*/30 * * * *", howe, "2027-04-03 14:00+0",
         "2027-04-03 14:30, 2027-04-03 15:00, 2027-04-03 15:30"},
        {"*/30 * * * *", howe, "2027-10-02 15:00+0", "2027-10-02 15:30, 2027-10-02 16:00"},
        {"0 0 * * *", "America/Havana", "2024-03-10 00:00+0", "2024-03-10 05:00, 2024-03-11 04:00"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        check_ticks(*state, &table[i]);
    }
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *cron, *says;
    } table[] = {
        {"0 25 * * *", "tenon: cron: hour: 25 is not 0 to 23  A cron expression is minute"},
        {"60 * * * *", "minute: 60 is not 0 to 59"},
        {"-1 * * * *", "minute: '-1' is not a number"},
        {"0 0 0 * *", "day of month: 0 is not 1 to 31"},
        {"0 0 L * *", "day of month: L is not 1 to 31"},
        {"0 0 * 13 *", "month: 13 is not 1 to 12 or jan to dec"},
        {"0 0 * foo *", "month: foo is not 1 to 12 or jan to dec"},
        {"0 0 * * 8", "day of week: 8 is not 0 to 7 or sun to sat"},
        {"0 0 * * fri#2", "day of week: fri#2 is not"},
        {"30-10 * * * *", "minute: 30-10 is a range that goes down"},
        {"*/0 * * * *", "minute: */0 has a step of 0"},
        {"5/15 * * * *", "minute: 5/15 has a step, which only * and ranges have"},
        {"1,,2 * * * *", "minute: '' is not a number"},
        {"1-2-3 * * * *", "minute: '1-2-3' is not a number"},
        {"99999999999 * * * *", "minute: 99999999999 is not 0 to 59"},
        {"*5 * * * *", "minute: '*5' is not a number"},
        {"0 0 * *", "fields: '0 0 * *' has 4, not 5"},
        {"0 0 0 * * *", "has 6, not 5"},
        {"", "has 1, not 5"},
        {"@reboot", "@reboot is not @yearly"},
        {"@daily 3 * * *", "minute: @daily is not"},
        {"0 0 30 2 *", "0 0 30 2 * never comes"},
        {"0 0 31 4,6,9,11 *", "never comes"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        test_sql_fails(fx, "22023", table[i].says, "SELECT tenon.next_tick('%s')", table[i].cron);
    }
    test_sql_fails(fx, "22023", "Mars/Phobos", "SELECT tenon.next_tick('@daily', 'Mars/Phobos')");
    test_sql_fails(fx, "22023", "after", "SELECT tenon.next_tick('@daily', after => 'infinity')");
}

/* A walk minute by minute would take seconds for each. */
static void test_far_ticks_are_calculated(void **state)
{
    struct fixture *fx = *state;
    test_sql(
        fx,
        "SET statement_timeout = '10 s';"
        "SELECT tenon.next_tick('59 23 29 2 */6', 'Europe/Berlin', now() + n * interval '1 day')"
        " FROM generate_series(1, 50) n");
}

/* --- by a walk, minute by minute -------------------------------------------------------------- */

/* A cron expression as sets, and as the text that was made with them. */
struct sets {
    bool minutes[60], hours[24], days[32], months[13], weekdays[8];
    bool star_day, star_weekday, hourly;
    char text[256];
};

static unsigned seed = 20261123;

static int pick(int low, int high)
{
    return low + rand_r(&seed) % (high - low + 1);
}

static void put(struct sets *s, const char *fmt, int a, int b, int c)
{
    size_t len = strlen(s->text);
    (void)snprintf(s->text + len, sizeof s->text - len, fmt, a, b, c); /* NOLINT */
}

static void put_item(struct sets *s, bool *set, int low, int high)
{
    int a = pick(low, high), b = pick(a, high), step = pick(1, 9);
    switch (pick(0, 2)) {
    case 0:
        put(s, "%d", a, 0, 0);
        set[a] = true;
        return;
    case 1:
        put(s, "%d-%d", a, b, 0);
        step = 1;
        break;
    default:
        put(s, "%d-%d/%d", a, b, step);
        break;
    }
    for (int n = a; n <= b; n += step) {
        set[n] = true;
    }
}

/* One field; ret: it begins with a star. */
static bool put_field(struct sets *s, bool *set, int low, int high, int stars_of_ten)
{
    put(s, *s->text ? " " : "", 0, 0, 0);
    if (pick(1, 10) <= stars_of_ten) {
        int step = pick(0, 2) ? 1 : pick(2, 7);
        put(s, step == 1 ? "*" : "*/%d", step, 0, 0);
        for (int n = low; n <= high; n += step) {
            set[n] = true;
        }
        return true;
    }
    for (int i = pick(1, 3); i > 0; i--) {
        put_item(s, set, low, high);
        put(s, i > 1 ? "," : "", 0, 0, 0);
    }
    return false;
}

static int expressions(void)
{
    return load_is_long() ? EXPRESSIONS * LONG : EXPRESSIONS;
}

static void make(struct sets *s, bool often)
{
    *s = (struct sets){.hourly = true};
    (void)put_field(s, s->minutes, 0, 59, often ? 3 : 1);
    (void)put_field(s, s->hours, 0, 23, often ? 5 : 2);
    s->star_day = put_field(s, s->days, 1, 31, often ? 9 : 5);
    (void)put_field(s, s->months, 1, 12, often ? 9 : 5);
    s->star_weekday = put_field(s, s->weekdays, 0, 7, often ? 9 : 5);
    s->weekdays[0] = s->weekdays[0] || s->weekdays[7];
    for (int hour = 0; hour < 24; hour++) {
        s->hourly = s->hourly && s->hours[hour];
    }
}

/* Does a clock that shows this tick? In seconds since 1970, as if it were UTC. */
static bool shows(const struct sets *s, int64_t wall_s)
{
    struct tm tm;
    time_t t = (time_t)wall_s;
    (void)gmtime_r(&t, &tm);
    bool day = s->days[tm.tm_mday], weekday = s->weekdays[tm.tm_wday];
    bool date = s->star_day || s->star_weekday ? day && weekday : day || weekday;
    return s->minutes[tm.tm_min] && s->hours[tm.tm_hour] && s->months[tm.tm_mon + 1] && date;
}

/* Is there a tick at a minute? The clock before it showed `before_s`, the latest before it
 * `latest_s`. */
static bool ticks(const struct sets *s, int64_t wall_s, int64_t before_s, int64_t latest_s)
{
    if (s->hourly) {
        return shows(s, wall_s);
    }
    for (int64_t gap_s = before_s + 60; gap_s < wall_s; gap_s += 60) {
        if (shows(s, gap_s)) {
            return true;
        }
    }
    return wall_s > latest_s && shows(s, wall_s);
}

/* The ticks of next_tick() from `from_s` on up to `to_s`, TICKS_MAX at most. */
static PGresult *ask(struct fixture *fx, const struct sets *s, const char *zone, int64_t from_s,
                     int64_t to_s)
{
    char sql[1024];
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE t AS (SELECT 0 AS n, to_timestamp(%lld - 1) AS at UNION ALL"
                   " SELECT n + 1, tenon.next_tick('%s', '%s', at) FROM t"
                   " WHERE n <= %d AND at < to_timestamp(%lld))"
                   " SELECT extract(epoch FROM at)::bigint FROM t WHERE n > 0 AND"
                   " at < to_timestamp(%lld) ORDER BY n LIMIT %d",
                   (long long)from_s, s->text, zone, TICKS_MAX, (long long)to_s, (long long)to_s,
                   TICKS_MAX);
    PGresult *result = PQexec(fx->conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK &&
        !strstr(PQresultErrorMessage(result), "never comes")) {
        fail_msg("%s: %s", s->text, PQresultErrorMessage(result));
    }
    return result;
}

/* The next tick that was asked for is this one, -1: there is none. */
static void check_next(const struct sets *s, const char *zone, const PGresult *asked, int *at,
                       int64_t expected_s)
{
    int64_t got_s = *at < PQntuples(asked) ? strtoll(PQgetvalue(asked, *at, 0), NULL, 10) : -1;
    if (got_s != expected_s && *at < TICKS_MAX) {
        fail_msg("%s in %s: tick %d is at %lld and not %lld", s->text, zone, *at, (long long)got_s,
                 (long long)expected_s);
    }
    ++*at;
}

/* A day around a change; `walls` has each minute and what the clocks show. */
static void walk(struct fixture *fx, const struct sets *s, const char *zone, const PGresult *walls)
{
    int64_t before_s = 0, latest_s = 0, first_s = strtoll(PQgetvalue(walls, 1, 0), NULL, 10);
    PGresult *asked = ask(fx, s, zone, first_s, first_s + (int64_t)60 * (WINDOW_MINUTES - 1));
    int at = 0;
    for (int i = 0; i < WINDOW_MINUTES; i++) {
        int64_t wall_s = strtoll(PQgetvalue(walls, i, 1), NULL, 10);
        if (i > 0 && ticks(s, wall_s, before_s, latest_s)) {
            check_next(s, zone, asked, &at, strtoll(PQgetvalue(walls, i, 0), NULL, 10));
        }
        before_s = wall_s;
        latest_s = wall_s > latest_s ? wall_s : latest_s;
    }
    check_next(s, zone, asked, &at, -1);
    PQclear(asked);
}

static void test_both_changes_minute_by_minute(void **state)
{
    static const struct {
        const char *zone, *from;
    } changes[] = {
        {"Europe/Berlin", "2027-03-27 20:00+0"},
        {"Europe/Berlin", "2027-10-30 20:00+0"},
        {"America/New_York", "2027-03-14 02:00+0"},
        {"America/New_York", "2027-11-07 01:00+0"},
        {"Australia/Lord_Howe", "2027-10-02 10:00+0"},
        {"Australia/Lord_Howe", "2027-04-03 10:00+0"},
    };
    struct fixture *fx = *state;
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        char sql[512];
        (void)snprintf(sql, sizeof sql,
                       "SELECT extract(epoch FROM t)::bigint,"
                       " extract(epoch FROM t AT TIME ZONE '%s')::bigint FROM"
                       " generate_series(0, %d) n, LATERAL (SELECT timestamptz '%s' + n * interval"
                       " '1 minute' AS t) t ORDER BY n",
                       changes[c].zone, WINDOW_MINUTES, changes[c].from);
        PGresult *walls = PQexec(fx->conn, sql);
        assert_int_equal(PQntuples(walls), WINDOW_MINUTES + 1);
        for (int i = 0; i < expressions(); i++) {
            struct sets s;
            make(&s, true);
            walk(fx, &s, changes[c].zone, walls);
        }
        PQclear(walls);
    }
}

static void test_three_years_minute_by_minute(void **state)
{
    enum { DAY_S = 86400, FROM_S = 1800000000 - 1800000000 % DAY_S }; /* in January 2027 */
    int64_t to_s = FROM_S + (int64_t)WALK_DAYS * DAY_S;
    for (int i = 0; i < expressions(); i++) {
        struct sets s;
        make(&s, false);
        PGresult *asked = ask(*state, &s, "UTC", FROM_S, to_s);
        int at = 0;
        for (int64_t t = FROM_S; t < to_s && at < TICKS_MAX; t += 60) {
            if (shows(&s, t)) {
                check_next(&s, "UTC", asked, &at, t);
            }
        }
        check_next(&s, "UTC", asked, &at, -1);
        PQclear(asked);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_expressions),
        WITH_DATABASE(test_changes_of_daylight_time),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_far_ticks_are_calculated),
        WITH_DATABASE(test_both_changes_minute_by_minute),
        WITH_DATABASE(test_three_years_minute_by_minute),
    };
    return RUN_GROUP(tests);
}
