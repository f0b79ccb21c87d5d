/* label: e2e */
/* timeout: 120 */
/* only: all */
/* `tenon setup`: a fresh database, a race, a dry run, rights, and schemas that do not fit. */
#include "core/db/schema.h"
#include "tests/support/broker.h"
#include "tests/support/process.h"

#include <jansson.h>
#include <stdio.h>

enum { LIMIT_MS = 30000, RACERS = 5 };

/* --- helpers -------------------------------------------------------------------------------- */

static void drop_schema(struct fixture *fx)
{
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
}

/* Run tenon and return its stderr; free(). */
static char *run_for_log(struct fixture *fx, int code, const char *const *args, const char *env)
{
    const char *const more[] = {env, NULL};
    struct process *p = tenon_spawn(fx, args, env ? more : NULL);
    char *log;
    int status = process_wait(p, LIMIT_MS);
    log = file_text(p->log);
    if (status != code) {
        fail_msg("tenon %s ended with %d, not with %d: %s", args[0], status, code, log);
    }
    return log;
}

/* Every command that works with the database must end with `code` and say `part`. */
static void every_command_says(struct fixture *fx, int code, const char *part)
{
    static const char *const commands[][5] = {
        {"status"},
        {"show", "1"},
        {"enqueue", "mail"},
        {"worker", "--handler", "mail=/bin/true"},
        {"cleaner", "--once"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *log = run_for_log(fx, code, commands[i], NULL);
        assert_contains(log, part);
        free(log);
    }
}

static int newest(void)
{
    return schema_migrations[schema_migrations_n - 1].version;
}

/* The text of a file of the repository; free(). */
static char *file_of(const char *path)
{
    char whole[1024];
    (void)snprintf(whole, sizeof whole, "%s/%s", repository, path);
    return file_text(whole);
}

/* What a script of the repository prints; free(). */
static char *printed_by(struct fixture *fx, const char *path)
{
    char whole[1024];
    (void)snprintf(whole, sizeof whole, "%s/%s", repository, path);
    const char *const argv[] = {whole, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    return file_text(p->out);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_fresh_database(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    char *out = TENON_RUN(fx, 0, "setup");
    assert_contains(out, "made schema tenon\n");
    for (size_t i = 0; i < schema_migrations_n; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "\napplied %s\n", schema_migrations[i].name);
        assert_contains(out, line);
    }
    assert_contains(out, "to give RabbitMQ's users no more rights");
    assert_contains(out, "rabbitmqctl set_permissions");
    free(out);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.migration"), schema_migrations_n);
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('mail')") > 0);
    /* the exchange is there, and no queue */
    struct broker *b = broker_open(fx->amqp_url);
    assert_int_equal(broker_depth(b, "default/mail"), -1);
    broker_publish(b, "default/mail", "1", 1);
    broker_close(b);
}

static void test_again_migrates_nothing(void **state)
{
    struct fixture *fx = *state;
    char *out = TENON_RUN(fx, 0, "setup");
    char line[128];
    (void)snprintf(line, sizeof line, "schema tenon is at version %d, nothing to migrate\n",
                   newest());
    assert_contains(out, line);
    assert_null(strstr(out, "applied"));
    free(out);
    free(TENON_RUN(fx, 0, "setup"));
}

static void test_five_at_once(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    struct process *racers[RACERS];
    /* all five wait at the same line, and then start together */
    test_sql(fx, "SELECT pg_advisory_lock(1952804463, 3)");
    for (int i = 0; i < RACERS; i++) {
        racers[i] = TENON(fx, "setup", "--amqp-url", "none");
    }
    test_await(
        fx, LIMIT_MS,
        "SELECT count(*) = %d, count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 3 "
        "AND NOT granted AND database = (SELECT oid FROM pg_database "
        "WHERE datname = current_database())",
        RACERS);
    test_sql(fx, "SELECT pg_advisory_unlock(1952804463, 3)");
    int made = 0;
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(process_wait(racers[i], LIMIT_MS), 0);
        char *out = file_text(racers[i]->out);
        made += strstr(out, "made schema tenon") != NULL;
        assert_true(strstr(out, "made schema tenon") || strstr(out, "nothing to migrate"));
        free(out);
    }
    assert_int_equal(made, 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.migration"), schema_migrations_n);
}

static void test_dry_run_changes_nothing(void **state)
{
    struct fixture *fx = *state;
    char *out = TENON_RUN(fx, 0, "setup", "--dry-run");
    assert_contains(out, "nothing to migrate");
    free(out);
    drop_schema(fx);
    out = TENON_RUN(fx, 0, "setup", "--dry-run");
    assert_contains(out, "would have made schema tenon\n");
    assert_contains(out, "would have applied tables\n");
    assert_contains(out, "CREATE TABLE tenon.task (");
    assert_contains(out, "would have declared the exchange tenon");
    assert_true(test_sql_bool(fx, "SELECT to_regnamespace('tenon') IS NULL"));
    /* the SQL that it shows is what setup would run */
    test_sql(fx, "%s", strstr(out, "-- this SQL would run"));
    free(out);
    out = TENON_RUN(fx, 0, "setup");
    assert_contains(out, "nothing to migrate");
    free(out);
}

static void test_failed_migration_leaves_nothing(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    test_sql(fx, "CREATE SCHEMA tenon; CREATE FUNCTION tenon.retry_delay(failures integer, "
                 "policy text) RETURNS text LANGUAGE sql RETURN text '1 s'");
    static const char *const args[] = {"setup", NULL};
    char *log = run_for_log(fx, 1, args, NULL);
    assert_contains(log, "could not run retry.sql of this program");
    assert_contains(log, "retry_delay");
    free(log);
    assert_true(test_sql_bool(fx, "SELECT to_regclass('tenon.task') IS NULL AND "
                                  "to_regclass('tenon.migration') IS NULL"));
}

/* It is told what to do. */
static void assert_denied(struct fixture *fx, const char *command, const char *url)
{
    const char *const args[] = {command, *command == 'p' ? "mail" : NULL, NULL};
    char *log = run_for_log(fx, 2, args, url);
    assert_contains(log, "permission denied");
    assert_contains(log, "the owner of the schema grants it: tenon setup --grant-reader ROLE, or, "
                         "to change anything, --grant-operator ROLE");
    free(log);
}

static void test_producer_may_enqueue_and_nothing_else(void **state)
{
    struct fixture *fx = *state;
    char role[80];
    (void)snprintf(role, sizeof role, "%s_shop", fx->database);
    test_sql(fx, "CREATE ROLE \"%s\"", role);
    char *out = TENON_RUN(fx, 0, "setup", "--dry-run", "--grant-producer", role);
    free(out);
    assert_false(test_sql_bool(fx, "SELECT has_schema_privilege('%s', 'tenon', 'USAGE')", role));
    out = TENON_RUN(fx, 0, "setup", "--grant-producer", role);
    assert_contains(out, "granted producer rights to ");
    free(out);
    free(TENON_RUN(fx, 0, "setup", "--grant-producer", role)); /* again */

    test_sql(fx, "SET ROLE \"%s\"", role);
    assert_true(test_sql_int(fx, "SELECT tenon.enqueue('mail', '{\"n\": 1}')") > 0);
    assert_int_equal(test_sql_int(fx, "SELECT cardinality(tenon.enqueue_many('mail', '{1,2}'))"),
                     2);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(tenon.enqueue('mail'))"));
    test_sql_fails(fx, "55000", "claim", "SELECT tenon.finish('1/1/0000000000000001')");
    static const char *const refused[] = {
        "SELECT * FROM tenon.task",
        "SELECT * FROM tenon.tasks",
        "SELECT * FROM tenon.history",
        "INSERT INTO tenon.queue (name) VALUES ('x')",
        "DELETE FROM tenon.task",
        "UPDATE tenon.setting SET payload_bytes_max = 1",
        "INSERT INTO tenon.migration (version, name, breaking) VALUES (99, 'x', true)",
        "SELECT tenon.make_partitions()",
        "SELECT tenon.grant_producer('public')",
        "SELECT tenon.requeue('{}', '{}', '{}', '{}', '{}')",
        "CREATE TABLE tenon.mine (n integer)",
        "DROP SCHEMA tenon CASCADE",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        test_sql_fails(fx, "42501", "", "%s", refused[i]);
    }
    test_sql(fx, "RESET ROLE");
    assert_int_equal(
        test_sql_int(fx,
                     "SELECT count(*) FROM pg_class WHERE relnamespace = 'tenon'::regnamespace "
                     "AND relkind IN ('r', 'p', 'v') AND has_table_privilege('%s', oid, "
                     "'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
                     role),
        1);

    char url[700];
    (void)snprintf(url, sizeof url, "DATABASE_URL=%s?options=-crole%%3D%s", fx->database_url, role);
    static const char *const args[] = {"enqueue", "mail", NULL};
    free(run_for_log(fx, 0, args, url));
    assert_denied(fx, "status", url);
    assert_denied(fx, "pause", url);
    test_sql(fx, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}

static void test_unknown_producer_is_refused(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    static const char *const args[] = {"setup", "--grant-producer", "no such role", NULL};
    char *log = run_for_log(fx, 2, args, NULL);
    assert_contains(log, "no such role");
    assert_contains(log, "--grant-producer");
    free(log);
    assert_true(test_sql_bool(fx, "SELECT to_regnamespace('tenon') IS NULL"));
}

/* Each grant is what the function of its name grants. */
static void test_every_part_has_its_grant(void **state)
{
    static const char *const parts[] = {"producer", "reader", "operator", "worker", "cleaner"};
    static const char rights[] =
        "SELECT string_agg(o || ' ' || coalesce(acl::text, ''), '; ' ORDER BY o) FROM ("
        "SELECT oid::regclass::text, relacl FROM pg_class WHERE relnamespace = "
        "'tenon'::regnamespace UNION ALL SELECT oid::regprocedure::text, proacl FROM pg_proc "
        "WHERE pronamespace = 'tenon'::regnamespace) x (o, acl)";
    struct fixture *fx = *state;
    char option[40], role[80];
    (void)snprintf(role, sizeof role, "%s_p", fx->database);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(option, sizeof option, "--grant-%s", parts[i]);
        test_sql(fx, "CREATE ROLE %s", role);
        char *out = TENON_RUN(fx, 0, "setup", "--json", option, role), want[200];
        (void)snprintf(want, sizeof want, "\"granted\": {\n    \"%s\": \"%s\"\n  }", parts[i],
                       role);
        assert_contains(out, want);
        free(out);
        char *got = test_sql_text(fx, "%s", rights);
        test_sql(fx, "DROP OWNED BY %s; SELECT tenon.grant_%s('%s')", role, parts[i], role);
        char *plain = test_sql_text(fx, "%s", rights);
        assert_string_equal(got, plain);
        test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
        free(got);
        free(plain);
    }
}

static void test_a_producer_is_confined(void **state)
{
    struct fixture *fx = *state;
    static const char confined[] =
        "SELECT format('%s %s', queues, kinds) FROM tenon.producer WHERE role ="
        " current_user::regrole";
    char *me = test_sql_text(fx, "SELECT current_user");
    free(TENON_RUN(fx, 0, "setup", "--grant-producer", me, "--queues", "a,b", "--kinds", "mail"));
    char *got = test_sql_text(fx, "%s", confined);
    assert_string_equal(got, "{a,b} {mail}");
    free(got);
    /* what is said for workers confines nobody */
    free(run_for_log(fx, 0, (const char *const[]){"setup", "--grant-producer", me, NULL},
                     "TENON_QUEUES=a"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.producer"), 0);
    static const char *const wrong[][4] = {{"setup", "--queues", "a"}, {"setup", "--kinds", "a"}};
    for (int i = 0; i < 2; i++) {
        char *log = run_for_log(fx, 2, wrong[i], NULL);
        assert_contains(log, "requires --grant-producer");
        free(log);
    }
    free(me);
}

static void test_an_encoding_that_is_not_utf8_is_refused(void **state)
{
    struct fixture *fx = *state;
    char name[80], url[600], env[620];
    (void)snprintf(name, sizeof name, "%s_latin", fx->database);
    url_with_path(fx->database_url, name, url, sizeof url);
    (void)snprintf(env, sizeof env, "DATABASE_URL=%s", url);
    sql_run(fx->maintenance, "CREATE DATABASE %s ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'",
            name);
    char *log = run_for_log(fx, 2, (const char *const[]){"setup", NULL}, env);
    assert_contains(log, "is LATIN1, but tenon needs UTF8");
    assert_contains(log, "CREATE DATABASE");
    free(log);
    PGconn *conn = sql_connect(url);
    assert_true(sql_bool(conn, "SELECT to_regnamespace('tenon') IS NULL"));
    PQfinish(conn);
    sql_run(fx->maintenance, "DROP DATABASE %s", name);
}

static void test_no_schema(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    every_command_says(fx, 2, "run tenon setup");
}

static void test_older_schema(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "DELETE FROM tenon.migration WHERE version = %d", newest());
    every_command_says(fx, 2, "run tenon setup");
}

static void test_newer_breaking_schema(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, 'future', true)",
             newest() + 1);
    every_command_says(fx, 3, "install a newer tenon");
    static const char *const args[] = {"setup", NULL};
    char *log = run_for_log(fx, 3, args, NULL);
    assert_contains(log, "install a newer tenon");
    free(log);
}

static void test_newer_schema_that_breaks_nothing(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx,
             "INSERT INTO tenon.migration (version, name, breaking) VALUES (%d, 'future', false)",
             newest() + 1);
    free(TENON_RUN(fx, 0, "status"));
    /* its functions may have other arguments: setup must not put its own beside them */
    test_sql(fx, "ALTER FUNCTION tenon.why(bigint) RENAME TO why_so");
    char *out = TENON_RUN(fx, 0, "setup");
    assert_contains(out, "its tables, functions and views were not changed");
    free(out);
    assert_true(test_sql_bool(fx, "SELECT to_regproc('tenon.why') IS NULL"));
}

static void test_broker_away(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    static const char *const args[] = {"setup", NULL};
    char *log = run_for_log(fx, 1, args, "AMQP_URL=amqp://u:geheim@127.0.0.1:1/x");
    assert_contains(log, "could not set up RabbitMQ");
    assert_contains(log, "host=127.0.0.1 port=1");
    assert_null(strstr(log, "geheim"));
    free(log);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.migration"), schema_migrations_n);
    drop_schema(fx);
    log = run_for_log(fx, 2, args, "AMQP_URL=amqp://127.0.0.1:port/x");
    free(log);
    assert_true(test_sql_bool(fx, "SELECT to_regnamespace('tenon') IS NULL"));
}

static void test_broker_left_alone(void **state)
{
    struct fixture *fx = *state;
    char *out = TENON_RUN(fx, 0, "setup"); /* AMQP_URL is "none" here */
    assert_contains(out, "RabbitMQ was not changed");
    free(out);
}

static void test_json(void **state)
{
    struct fixture *fx = *state;
    drop_schema(fx);
    for (int run = 0; run < 2; run++) {
        char *out = TENON_RUN(fx, 0, "setup", "--json");
        json_error_t error;
        json_t *o = json_loads(out, 0, &error);
        assert_non_null(o);
        assert_int_equal(json_integer_value(json_object_get(o, "schema_version")), newest());
        assert_int_equal(json_array_size(json_object_get(o, "applied")),
                         run == 0 ? schema_migrations_n : 0);
        json_t *rabbitmq = json_object_get(o, "rabbitmq");
        assert_true(json_is_true(json_object_get(rabbitmq, "declared")));
        assert_int_equal(json_array_size(json_object_get(rabbitmq, "rabbitmqctl")), 3);
        json_decref(o);
        free(out);
    }
}

/* docs/sql.md is printed from the comments of the migrations, and nothing is without one that
 * applications may use. */
static void test_sql_reference_is_what_comments_say(void **state)
{
    struct fixture *fx = *state;
    char *page = printed_by(fx, "script/dump-sql-reference");
    char *file = file_of("docs/sql.md");
    if (strcmp(page, file) != 0) {
        fail_msg("docs/sql.md is not what the migrations say; run tenon setup on an empty database "
                 "and script/dump-sql-reference > docs/sql.md");
    }
    free(page);
    free(file);
    test_sql(fx, "BEGIN; CREATE ROLE %s_app; SELECT tenon.grant_producer('%s_app')", fx->database,
             fx->database);
    char *functions =
        test_sql_text(fx,
                      "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = "
                      "'tenon'::regnamespace AND has_function_privilege('%s_app', oid, 'EXECUTE') "
                      "AND obj_description(oid, 'pg_proc') IS NULL",
                      fx->database);
    test_sql(fx, "ROLLBACK");
    char *columns = test_sql_text(
        fx, "SELECT string_agg(c.relname || '.' || a.attname, ' ') FROM pg_class c JOIN "
            "pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relnamespace = "
            "'tenon'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT "
            "c.relispartition AND c.relname <> 'migration' AND "
            "col_description(c.oid, a.attnum) IS NULL");
    if (functions || columns) {
        fail_msg("without a comment: %s %s", functions ? functions : "", columns ? columns : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_fresh_database),
        WITH_SERVERS(test_again_migrates_nothing),
        WITH_DATABASE(test_five_at_once),
        WITH_SERVERS(test_dry_run_changes_nothing),
        WITH_DATABASE(test_failed_migration_leaves_nothing),
        WITH_DATABASE(test_producer_may_enqueue_and_nothing_else),
        WITH_DATABASE(test_unknown_producer_is_refused),
        WITH_DATABASE(test_every_part_has_its_grant),
        WITH_DATABASE(test_a_producer_is_confined),
        WITH_DATABASE(test_an_encoding_that_is_not_utf8_is_refused),
        WITH_DATABASE(test_no_schema),
        WITH_DATABASE(test_older_schema),
        WITH_DATABASE(test_newer_breaking_schema),
        WITH_DATABASE(test_newer_schema_that_breaks_nothing),
        WITH_DATABASE(test_broker_away),
        WITH_DATABASE(test_broker_left_alone),
        WITH_SERVERS(test_json),
        WITH_DATABASE(test_sql_reference_is_what_comments_say),
    };
    return RUN_GROUP(tests);
}
