/* label: e2e */
/* `tenon setup` in a schema that is not as it left it: rows that are gone, and what belongs to
 * somebody else. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 30000 };

static void fresh(struct fixture *fx)
{
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
    free(TENON_RUN(fx, 0, "setup", "--amqp-url", "none"));
}

static void setup_says(struct fixture *fx, int code, const char *text)
{
    const char *const args[] = {"setup", "--amqp-url", "none", NULL};
    struct process *p = tenon_spawn(fx, args, NULL);
    int status = process_wait(p, LIMIT_MS);
    char *out = file_text(p->out), *log = file_text(p->log);
    if (status != code || !(strstr(out, text) || strstr(log, text))) {
        fail_msg("setup ended with %d and says\n%s%s, not\n%s", status, out, log, text);
    }
    free(out);
    free(log);
}

/* --- rows that are gone --- */

static void empty_all(struct fixture *fx)
{
    char *all = test_sql_text(fx,
                              "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class WHERE"
                              " relnamespace = 'tenon'::regnamespace AND relkind IN ('r', 'p')");
    test_sql(fx, "TRUNCATE %s", all);
    free(all);
}

static void works(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.enqueue('a'), tenon.enqueue('a', limit_keys => '{k}')");
    assert_true(test_sql_int(fx, "SELECT tenon.settle()") > 0);
    assert_true(test_sql_bool(fx, "SELECT tenon.copied() IS NULL"));
    free(TENON_RUN(fx, 0, "cleaner", "--once"));
    free(TENON_RUN(fx, 0, "status"));
}

/* As after pg_dump --schema-only into a new database, or a test helper that empties all tables. */
static void test_all_tables_are_empty(void **state)
{
    struct fixture *fx = *state;
    fresh(fx);
    empty_all(fx);
    char *dry = TENON_RUN(fx, 0, "setup", "--amqp-url", "none", "--dry-run");
    assert_contains(dry, "would have restored the rows of tenon.migration, tenon.setting, "
                         "tenon.settler, tenon.home");
    free(dry);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.setting"), 0);
    setup_says(fx, 0,
               "restored the rows of tenon.migration, tenon.setting, tenon.settler, "
               "tenon.home, which were missing");
    works(fx);
    setup_says(fx, 0, "nothing to migrate");
}

/* Without what setup had noted. */
static void test_nothing_tells_the_version(void **state)
{
    struct fixture *fx = *state;
    fresh(fx);
    empty_all(fx);
    test_sql(fx, "COMMENT ON TABLE tenon.migration IS NULL");
    setup_says(fx, 2, "tenon.migration has no rows");
    test_sql(fx, "DROP TABLE tenon.migration");
    setup_says(fx, 2, "tenon.migration has no rows");
}

static void fails_with(struct fixture *fx, const char *text, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    process_await_line(p, text, LIMIT_MS);
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
}

/* Programs that start say it, those that run live on; who was confined stays so. */
static void test_the_settings_are_empty(void **state)
{
    struct fixture *fx = *state;
    const char *const worker[] = {"worker", "--handler", "a=true", NULL};
    const char *const cleaner[] = {"cleaner", NULL};
    test_sql(fx, "CREATE ROLE %s_p; SELECT tenon.grant_producer('%s_p', kinds => '{a}')",
             fx->database, fx->database);
    struct process *running[] = {tenon_spawn(fx, worker, NULL), tenon_spawn(fx, cleaner, NULL)};
    process_await_line(running[0], "event=worker_ready", LIMIT_MS);
    process_await_line(running[1], "event=leader", LIMIT_MS);
    test_sql(fx, "DELETE FROM tenon.setting");
    process_await_line(running[1], "tenon.setting is empty", LIMIT_MS);
    fails_with(fx, "tenon.setting is empty", worker);
    fails_with(fx, "tenon.setting is empty", cleaner);
    fails_with(fx, "tenon.setting is empty", (const char *const[]){"doctor", NULL});
    setup_says(fx, 0, "restored the rows of tenon.setting, which were missing");
    assert_true(test_sql_bool(fx, "SELECT confined FROM tenon.setting"));
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.history");
    for (int i = 0; i < 2; i++) {
        process_signal(running[i], 15);
        assert_int_equal(process_wait(running[i], LIMIT_MS), 0);
    }
    test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
}

/* --- what belongs to somebody else --- */

static void test_a_schema_of_another_role_is_refused(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE;"
             "CREATE ROLE %s_m; CREATE SCHEMA tenon AUTHORIZATION %s_m",
             fx->database, fx->database);
    char want[200];
    (void)snprintf(want, sizeof want, "belongs to the role %s_m", fx->database);
    setup_says(fx, 2, "schema tenon");
    setup_says(fx, 2, want);
    assert_true(test_sql_bool(fx, "SELECT to_regclass('tenon.task') IS NULL"));
    test_sql(fx, "DROP OWNED BY %s_m; DROP ROLE %s_m", fx->database, fx->database);
}

/* His own overload is what a call would find first. */
static void test_an_object_of_another_role_is_refused(void **state)
{
    static const struct {
        const char *made, *named;
    } things[] = {
        {"FUNCTION tenon.note_audit(text, jsonb, integer) RETURNS bigint LANGUAGE sql AS 'SELECT "
         "1::bigint'",
         "function tenon.note_audit(text,jsonb,integer)"},
        {"TABLE tenon.extra (n integer)", "table tenon.extra"},
        {"VIEW tenon.extra AS SELECT 1", "view tenon.extra"},
        {"SEQUENCE tenon.extra", "sequence tenon.extra"},
        {"TYPE tenon.extra AS ENUM ('a')", "type tenon.extra"},
        {"DOMAIN tenon.extra AS integer", "type tenon.extra"},
        {"COLLATION tenon.extra (provider = libc, locale = 'C')", "collation tenon.extra"},
        {"OPERATOR tenon.### (leftarg = integer, rightarg = integer, function = int4pl)",
         "operator tenon.###(integer,integer)"},
    };
    struct fixture *fx = *state;
    test_sql(fx, "CREATE ROLE %s_m; GRANT CREATE, USAGE ON SCHEMA tenon TO %s_m", fx->database,
             fx->database);
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        test_sql(fx, "SET ROLE %s_m; CREATE %s; RESET ROLE", fx->database, things[i].made);
        setup_says(fx, 2, things[i].named);
        test_sql(fx, "REASSIGN OWNED BY %s_m TO CURRENT_USER", fx->database);
        setup_says(fx, 0, "nothing to migrate");
        char *kind = strndup(things[i].made, strcspn(things[i].made, " "));
        test_sql(fx, "DROP %s %s", kind,
                 strstr(things[i].named, "tenon.extra") ? "tenon.extra"
                                                        : strstr(things[i].named, "tenon."));
        free(kind);
    }
    test_sql(fx, "DROP OWNED BY %s_m; DROP ROLE %s_m", fx->database, fx->database);
}

/* --- functions and views --- */

/* Setup undoes changes made by hand, and keeps what roles were granted. */
static void test_functions_and_views_are_replaced(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE ROLE %1$s_r; SELECT tenon.grant_reader('%1$s_r')", fx->database);
    test_sql(fx, "CREATE OR REPLACE FUNCTION tenon.why(id bigint) RETURNS text LANGUAGE sql"
                 " AS 'SELECT ''by hand'''; GRANT EXECUTE ON FUNCTION tenon.why TO PUBLIC;"
                 " DROP VIEW tenon.failing; CREATE VIEW mine AS SELECT id FROM tenon.tasks");
    setup_says(fx, 0, "updated functions, views and rights");
    assert_true(test_sql_bool(fx, "SELECT tenon.why(1) <> 'by hand' AND NOT EXISTS (SELECT FROM"
                                  " tenon.failing) AND NOT EXISTS (SELECT FROM mine)"));
    assert_true(test_sql_bool(fx,
                              "SELECT has_function_privilege('%s_r', 'tenon.why(bigint)',"
                              " 'EXECUTE') AND NOT EXISTS (SELECT FROM pg_proc p, "
                              "aclexplode(p.proacl) a WHERE p.proname = 'why' AND a.grantee = 0)",
                              fx->database));
    test_sql(fx, "DROP OWNED BY %1$s_r; DROP ROLE %1$s_r", fx->database);
}

/* Setup cannot replace a view that a long transaction has read, and must not block its readers. */
static void test_a_reader_in_the_way(void **state)
{
    struct fixture *fx = *state;
    PGconn *reader = sql_connect(fx->database_url);
    sql_run(reader, "BEGIN; SELECT FROM tenon.tasks");
    setup_says(fx, 1,
               "end the transaction that uses tables or views of tenon, or run setup again later");
    sql_run(reader, "COMMIT");
    PQfinish(reader);
    setup_says(fx, 0, "nothing to migrate");
}

static void test_a_publisher_may_be_confined(void **state)
{
    struct fixture *fx = *state;
    char role[100];
    (void)snprintf(role, sizeof role, "%s_p", fx->database);
    test_sql(fx, "CREATE ROLE %s", role);
    free(TENON_RUN(fx, 0, "setup", "--grant-publisher", role, "--exchanges", "orders,pay"));
    assert_true(test_sql_bool(fx, "SELECT exchanges = '{orders,pay}' FROM tenon.publisher"));
    free(TENON_RUN(fx, 0, "setup", "--grant-publisher", role));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.publisher"), 0);
    free(TENON_RUN(fx, 2, "setup", "--exchanges", "orders"));
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_all_tables_are_empty),
        WITH_DATABASE(test_nothing_tells_the_version),
        WITH_DATABASE(test_the_settings_are_empty),
        WITH_DATABASE(test_a_schema_of_another_role_is_refused),
        WITH_DATABASE(test_an_object_of_another_role_is_refused),
        WITH_DATABASE(test_functions_and_views_are_replaced),
        WITH_DATABASE(test_a_reader_in_the_way),
        WITH_DATABASE(test_a_publisher_may_be_confined),
    };
    return RUN_GROUP(tests);
}
