/* label: e2e */
/* timeout: 240 */
/* only: all */
/* `tenon schedule`: its actions, and a file that schedules are synced from. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include <jansson.h>
#include <stdio.h>

enum { LIMIT_MS = 30000 };

/* Run it: it must end with `code` and print these parts. */
#define SCHEDULE(fx, code, out_part, log_part, ...)                                                \
    TENON_SAYS(fx, code, out_part, log_part, "schedule", __VA_ARGS__)

static json_t *json_of(struct fixture *fx, const char *const *args)
{
    char *out = tenon_run(fx, 0, args);
    json_error_t error;
    json_t *json = json_loads(out, 0, &error);
    if (!json) {
        fail_msg("%s: %s", error.text, out);
    }
    free(out);
    return json;
}

#define JSON_OF(fx, ...)                                                                           \
    json_of((fx), (const char *const[]){"schedule", __VA_ARGS__, "--json", NULL})

static void test_add_list_and_show(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 0, "no schedules", "", "list");
    SCHEDULE(fx, 0, "nightly ticks next at 20", "", "add", "nightly", "--cron", "30 3 * * *",
             "--zone", "Europe/Berlin", "--kind", "report", "--payload", "{\"days\": 1}",
             "--priority", "7", "--timeout", "5min", "--catch-up", "all");
    SCHEDULE(fx, 0, "", "", "add", "beat", "--every", "5min", "--kind", "heartbeat", "--queue",
             "low", "--overlap", "skip", "--max-attempts", "2");
    SCHEDULE(fx, 0, "SCHEDULE  WHEN", "", "list");
    SCHEDULE(fx, 0, "every 5min", "", "list");
    SCHEDULE(fx, 0, "30 3 * * *", "", "show", "nightly");
    SCHEDULE(fx, 0, "(there 03:30)", "", "show", "nightly");
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 2 AND bool_and(CASE name WHEN 'nightly' THEN cron = '30 3 * * *' AND"
            " zone = 'Europe/Berlin' AND kind = 'report' AND payload = '{\"days\": 1}' AND"
            " priority = 7 AND timeout_ms = 300000 AND catch_up = 'all' AND overlap = 'allow'"
            " ELSE every = '5 min' AND queue = 'low' AND overlap = 'skip' AND max_attempts = 2 AND"
            " catch_up = 'last' AND payload = '{}' END) FROM tenon.schedules"));
}

static void test_json(void **state)
{
    struct fixture *fx = *state;
    json_t *set = JSON_OF(fx, "add", "beat", "--every", "90s", "--kind", "heartbeat");
    assert_non_null(json_object_get(set, "next_at"));
    json_t *all = JSON_OF(fx, "list"), *one = JSON_OF(fx, "show", "beat");
    json_t *first = json_array_get(json_object_get(all, "schedules"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "every_ms")), 90000);
    assert_int_equal(json_integer_value(json_object_get(one, "every_ms")), 90000);
    assert_string_equal(json_string_value(json_object_get(one, "state")), "active");
    json_t *next = JSON_OF(fx, "next", "beat", "--count", "4");
    assert_int_equal(json_array_size(json_object_get(next, "ticks")), 4);
    json_t *act = JSON_OF(fx, "run-now", "beat");
    assert_true(json_integer_value(json_object_get(act, "task")) > 0);
    json_t *const read[] = {set, all, one, next, act};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        json_decref(read[i]);
    }
}

static void test_next(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 0, "02-29 02:30:00", "", "next", "--cron", "30 3 29 2 *", "--zone",
             "Europe/Berlin");
    SCHEDULE(fx, 0, "Europe/Berlin", "", "next", "--cron", "30 3 29 2 *", "--zone",
             "Europe/Berlin");
    SCHEDULE(fx, 2, "", "hour: 25 is not 0 to 23", "next", "--cron", "0 25 * * *");
    SCHEDULE(fx, 2, "", "either the name of a schedule or --cron", "next");
    SCHEDULE(fx, 1, "", "there is no schedule beat", "next", "beat");
    SCHEDULE(fx, 0, "", "", "add", "beat", "--every", "1h", "--kind", "a");
    test_sql(fx, "SELECT tenon.pause_schedule('beat');"
                 "UPDATE tenon.schedule SET next_at = now() - interval '90 min'");
    json_t *next = JSON_OF(fx, "next", "beat", "--count", "1");
    const char *at = json_string_value(json_array_get(json_object_get(next, "ticks"), 0));
    assert_true(test_sql_bool(fx,
                              "SELECT timestamptz '%s' = next_at + interval '2 h'"
                              " FROM tenon.schedule",
                              at));
    json_decref(next);
}

/* Whoever schedules "reprot" means "report"; a kind that a worker has, or that is set up, is known.
 */
static void test_a_mistyped_kind(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 0, "typo ticks next",
             "no worker has had a handler for the kind reprot yet; if the name is wrong: tenon"
             " schedule remove typo\n",
             "add", "typo", "--every", "1h", "--kind", "reprot");
    test_sql(fx, "INSERT INTO tenon.worker (host, pid, slots, queues, kinds) VALUES ('h', 1, 1,"
                 " '{default}', '{report}'); SELECT tenon.set_kind('later', priority => 1)");
    static const char *const known[] = {"report", "later"};
    for (int i = 0; i < 2; i++) {
        struct process *p = TENON(fx, "schedule", "add", "s", "--every", "1h", "--kind", known[i]);
        assert_int_equal(process_wait(p, LIMIT_MS), 0);
        assert_int_equal(process_lines(p, "handler for the kind"), 0);
    }
}

static void test_acts(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 0, "", "", "add", "beat", "--every", "1h", "--kind", "heartbeat");
    SCHEDULE(fx, 0, "beat is paused", "", "pause", "beat", "--why", "it is late");
    SCHEDULE(fx, 0, ": it is late", "", "show", "beat");
    SCHEDULE(fx, 0, "paused", "", "list");
    SCHEDULE(fx, 0, "beat is resumed", "", "resume", "beat");
    char *id = TENON_RUN(fx, 0, "schedule", "run-now", "beat");
    assert_int_equal(test_sql_int(fx, "SELECT id FROM tenon.task WHERE kind = 'heartbeat'"),
                     strtoll(id, NULL, 10));
    free(id);
    SCHEDULE(fx, 0, "beat is removed", "", "remove", "beat");
    static const char *const acts[] = {"show", "pause", "resume", "run-now", "remove"};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        SCHEDULE(fx, 1, "", "there is no schedule beat; tenon schedule list", acts[i], "beat");
    }
    char *noted = test_sql_text(fx, "SELECT string_agg(act || ' ' || (what ->> 'schedule'), ', '"
                                    " ORDER BY id) FROM tenon.audit WHERE who = session_user");
    assert_string_equal(noted, "set_schedule beat, pause_schedule beat, resume_schedule beat,"
                               " run_schedule_now beat, remove_schedule beat");
    free(noted);
}

static void test_what_is_refused(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 2, "", "\"frob\" is not an action", "frob");
    SCHEDULE(fx, 2, "", "tenon schedule pause NAME", "pause");
    SCHEDULE(fx, 2, "", "tenon schedule sync FILE", "sync");
    SCHEDULE(fx, 2, "", "unexpected argument \"x\"", "list", "x");
    SCHEDULE(fx, 2, "", "--kind is missing", "add", "s", "--cron", "@daily");
    SCHEDULE(fx, 2, "", "month: 13 is not 1 to 12", "add", "s", "--kind", "a", "--cron",
             "0 0 1 13 *");
    SCHEDULE(fx, 2, "", "--every \"1 day\" is not allowed", "add", "s", "--kind", "a", "--every",
             "1 day");
    SCHEDULE(fx, 2, "", "json", "add", "s", "--kind", "a", "--every", "1d", "--payload", "{");
    SCHEDULE(fx, 2, "", "zone 'CET' is not allowed", "add", "s", "--kind", "a", "--cron", "@daily",
             "--zone", "CET");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.schedule"), 0);
}

/* --- a file ----------------------------------------------------------------------------------- */

static void write_file(struct fixture *fx, const char *name, const char *text, char path[300])
{
    (void)snprintf(path, 300, "%s/%s", fx->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Sync a file of this text; what it says, sorted by name. */
static void sync_says(struct fixture *fx, const char *name, const char *text, const char *expected)
{
    char path[300];
    write_file(fx, name, text, path);
    char *out = TENON_RUN(fx, 0, "schedule", "sync", path);
    assert_string_equal(out, expected);
    free(out);
}

static void test_the_example(void **state)
{
    struct fixture *fx = *state;
    char path[400];
    (void)snprintf(path, sizeof path, "%s/examples/shop.schedules", repository);
    char *dry = TENON_RUN(fx, 0, "schedule", "sync", "--dry-run", path);
    assert_string_equal(dry, "would be added beat\nwould be added monthly\nwould be added nightly\n"
                             "would be added reminders\nwould be added tidy\n");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.schedule"), 0);
    free(dry);
    free(TENON_RUN(fx, 0, "schedule", "sync", path));
    char *again = TENON_RUN(fx, 0, "schedule", "sync", path);
    assert_string_equal(again, "no changes\n");
    free(again);
    assert_true(test_sql_bool(
        fx, "SELECT count(*) = 5 AND bool_and(zone = 'Europe/Berlin' AND source = 'shop.schedules')"
            " AND bool_or(name = 'nightly' AND cron = '30 3 * * mon-fri' AND kind = 'report' AND"
            " catch_up = 'all' AND payload = '{\"days\": 1}')"
            " AND bool_or(name = 'beat' AND every = '5 min' AND overlap = 'skip' AND"
            " payload = '{}') AND bool_or(name = 'tidy' AND cron = '@weekly' AND queue = 'slow' AND"
            " timeout_ms = 7200000) FROM tenon.schedules"));
}

static void test_sync_changes_and_removes(void **state)
{
    struct fixture *fx = *state;
    SCHEDULE(fx, 0, "", "", "add", "byhand", "--every", "1h", "--kind", "a");
    sync_says(fx, "one", "\xEF\xBB\xBFx @daily a\ny @daily a\nz every 1h a\n",
              "added x\nadded y\nadded z\n");
    sync_says(fx, "two", "other @daily a\n", "added other\n");
    int64_t next =
        test_sql_int(fx, "SELECT extract(epoch FROM next_at)::bigint FROM tenon.schedule WHERE"
                         " name = 'z'");
    test_sql(fx, "SELECT tenon.pause_schedule('y')");
    sync_says(fx, "one", "# y and z\n\ny 0 1 * * * a\nz every 1h b [1, 2]\nbyhand @daily a",
              "changed byhand\nremoved x\nchanged y\nchanged z\n");
    assert_true(
        test_sql_bool(fx,
                      "SELECT state = 'paused' AND cron = '0 1 * * *' FROM tenon.schedules WHERE"
                      " name = 'y'"));
    assert_true(test_sql_bool(fx,
                              "SELECT kind = 'b' AND payload = '[1, 2]' AND"
                              " extract(epoch FROM next_at)::bigint = %lld FROM tenon.schedule"
                              " WHERE name = 'z'",
                              (long long)next));
    sync_says(fx, "one", "", "removed byhand\nremoved y\nremoved z\n");
    assert_true(test_sql_bool(fx, "SELECT string_agg(name, ' ') = 'other' FROM tenon.schedule"));
}

static void test_values_for_the_lines_below(void **state)
{
    struct fixture *fx = *state;
    sync_says(fx, "one",
              "a @daily k\nzone=Asia/Tokyo catch-up=none\nb @daily k\n"
              "c @daily k zone=UTC priority=2 max-attempts=3\nzone=UTC\nd @daily k\n",
              "added a\nadded b\nadded c\nadded d\n");
    char *got = test_sql_text(fx, "SELECT string_agg(concat_ws(' ', zone, catch_up, priority,"
                                  " max_attempts), ', ' ORDER BY name) FROM tenon.schedule");
    assert_string_equal(got, "UTC last, Asia/Tokyo none, UTC none 2 3, UTC none");
    free(got);
}

static void test_what_a_file_may_not_say(void **state)
{
    static const struct {
        const char *text, *says;
    } table[] = {
        {"ok @daily a\nbad 0 25 * * * a\n", "one:2: tenon: cron: hour: 25 is not 0 to 23"},
        {"ok @daily a\nok @daily b\n", "one:1: tenon: name 'ok' is not allowed"},
        {"bad @daily\n",
         "one:1: expected NAME, a cron expression or every TIME, and KIND, got only bad"},
        {"bad 0 1 * * a\n", "one:1: expected NAME"},
        {"bad every 5 a\n", "one:1: a time must be a number and ms, s, min, h or d, not 5"},
        {"bad @daily a timeout=5\n", "one:1: a time must be"},
        {"bad @daily a colour=red\n", "one:1: the keys are zone"},
        {"bad @daily a b\n", "one:1: expected KEY=VALUE or a JSON object, got b"},
        {"\n\nzone=UTC b\n", "one:3: expected KEY=VALUE, got b"},
        {"bad @daily a {\"n\": }\n", "one:1: invalid input syntax for type json"},
        {"bad @daily a priority=high\n", "one:1: invalid input syntax for type integer"},
        {"theirs @daily a\n", "one:1: tenon: the schedule theirs is synced from 'two'"},
    };
    struct fixture *fx = *state;
    char path[300];
    sync_says(fx, "two", "theirs every 1h a\n", "added theirs\n");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        write_file(fx, "one", table[i].text, path);
        SCHEDULE(fx, 2, "", table[i].says, "sync", path);
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.schedule"), 1);
    SCHEDULE(fx, 2, "", "cannot be read", "sync", "/no/such/file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_add_list_and_show),
        WITH_DATABASE(test_json),
        WITH_DATABASE(test_next),
        WITH_DATABASE(test_a_mistyped_kind),
        WITH_DATABASE(test_acts),
        WITH_DATABASE(test_what_is_refused),
        WITH_DATABASE(test_the_example),
        WITH_DATABASE(test_sync_changes_and_removes),
        WITH_DATABASE(test_values_for_the_lines_below),
        WITH_DATABASE(test_what_a_file_may_not_say),
    };
    return RUN_GROUP(tests);
}
