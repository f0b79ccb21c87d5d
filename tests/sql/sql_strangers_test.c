/* label: sql */
/* What a role with few rights could make the schema's owner do: values of its own types reach no
 * function of the owner's, and what functions mean does not depend on the caller's settings. */
#include "tests/support/fixture.h"

#include <stdio.h>

static PGconn *log_in(struct fixture *fx, char role[80], const char *name, const char *grant)
{
    (void)snprintf(role, 80, "%s_%s", fx->database, name);
    test_sql(fx, "CREATE ROLE %s", role);
    test_sql(fx, grant, role);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SET SESSION AUTHORIZATION %s", role);
    return conn;
}

static void log_out(struct fixture *fx, PGconn *conn, const char *role)
{
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s CASCADE; DROP ROLE %s", role, role);
}

/* --- values of the caller's types --- */

/* A type of its own, whose conversion to jsonb says as whom it runs. */
static const char trap[] =
    "CREATE TYPE pg_temp.e AS (q text);"
    "CREATE FUNCTION pg_temp.f(e pg_temp.e) RETURNS jsonb LANGUAGE plpgsql AS"
    " $$ BEGIN RETURN to_jsonb(current_user); END $$;"
    "CREATE CAST (pg_temp.e AS jsonb) WITH FUNCTION pg_temp.f(pg_temp.e) AS ASSIGNMENT";

static void runs_as(struct fixture *fx, PGconn *conn, const char *call, const char *role)
{
    sql_run(conn, "SELECT tenon.%s", call);
    char *as = test_sql_text(fx, "SELECT payload #>> '{}' FROM tenon.task"
                                 " UNION ALL SELECT payload #>> '{}' FROM tenon.schedule");
    if (strcmp(as, role) != 0) {
        fail_msg("%s converts its payload as %s", call, as);
    }
    free(as);
    test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.schedule");
}

static void test_the_caller_s_casts_run_as_the_caller(void **state)
{
    static const char *const calls[] = {
        "enqueue('a', ROW('x')::pg_temp.e)",
        "enqueue(kind => 'a', payload => ROW('x')::pg_temp.e, priority => 1)",
        "enqueue_routed('a', ROW('x')::pg_temp.e)",
        "enqueue_many('a', ARRAY[ROW('x')::pg_temp.e])",
        "enqueue_many('a', ARRAY[ROW('x')::pg_temp.e], unique_keys => '{k}')",
        "set_schedule('s', '@daily', kind => 'a', payload => ROW('x')::pg_temp.e)",
    };
    struct fixture *fx = *state;
    char role[80];
    PGconn *conn = log_in(fx, role, "o", "SELECT tenon.grant_operator('%s')");
    sql_run(conn, trap);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        runs_as(fx, conn, calls[i], role);
    }
    log_out(fx, conn, role);
}

#define NULLS_17                                                                                   \
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "   \
    "NULL, NULL"

/* What casts for the caller leads to a function that asks all again. */
static void test_the_functions_behind_ask_again(void **state)
{
    static const char *const calls[] = {"enqueue_jsonb('pay', '1', NULL, NULL, " NULLS_17
                                        ", true, false)",
                                        "enqueue_many_jsonb('pay', '{1}', NULL, NULL, " NULLS_17
                                        ", true, false, NULL, NULL, NULL, NULL)"};
    struct fixture *fx = *state;
    char role[80];
    PGconn *conn = log_in(fx, role, "p", "SELECT tenon.grant_producer('%s', kinds => '{mail}')");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        sql_fails(conn, "42501", "may not enqueue kind pay", "SELECT tenon.%s", calls[i]);
    }
    sql_fails(conn, "22023", "payload NULL",
              "SELECT tenon.enqueue_jsonb('mail', NULL, NULL, NULL, " NULLS_17 ", true, false)");
    sql_fails(conn, "42501", "permission denied",
              "SELECT tenon.set_schedule_jsonb('s', '@daily', NULL, 'mail', '1', 'UTC', 'last',"
              " 'allow', NULL, NULL, NULL, NULL, NULL)");
    sql_run(conn, "SELECT tenon.enqueue_jsonb('mail', '1', NULL, NULL, " NULLS_17 ", true, false)");
    log_out(fx, conn, role);
}

static void assert_none(struct fixture *fx, const char *what, const char *sql)
{
    char *found = test_sql_text(fx, "SELECT string_agg(found, E'\\n' ORDER BY found) FROM (%s) f",
                                sql);
    if (found) {
        fail_msg("%s:\n%s", what, found);
    }
}

/* Polymorphic, composite, a domain, a range, or an array of them; or of a type that is not
 * PostgreSQL's own. */
static void test_what_runs_as_the_owner_takes_base_types(void **state)
{
    struct fixture *fx = *state;
    assert_none(fx, "SECURITY DEFINER functions with an argument that is not of a base type",
                "SELECT format('%s: %s', p.oid::regprocedure, a.type::regtype) AS found"
                " FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes) a (type)"
                " JOIN pg_type t ON t.oid = a.type LEFT JOIN pg_type e ON e.oid = t.typelem AND"
                " t.typcategory = 'A'"
                " WHERE p.pronamespace = 'tenon'::regnamespace AND p.prosecdef AND ("
                " p.provariadic <> 0 OR t.typnamespace <> 'pg_catalog'::regnamespace OR"
                " t.typtype <> 'b' OR e.typtype <> 'b')");
}

/* --- settings of the caller --- */

/* With standard_conforming_strings = off a backslash in a text means something else, and the body
 * of a function is read by the setting that holds when it is called. A function either pins what
 * its words mean, or is called only by those that do, or has no backslash. */
static void test_what_functions_mean_is_pinned(void **state)
{
    struct fixture *fx = *state;
    assert_none(fx,
                "functions that run as the owner and do not pin search_path and "
                "standard_conforming_strings",
                "SELECT p.oid::regprocedure::text AS found FROM pg_proc p"
                " WHERE p.pronamespace = 'tenon'::regnamespace AND p.prosecdef AND NOT"
                " coalesce(p.proconfig @> '{\"search_path=pg_catalog, pg_temp\","
                " standard_conforming_strings=on}', false)");
    assert_none(
        fx, "functions that pin search_path and not standard_conforming_strings",
        "SELECT p.oid::regprocedure::text AS found FROM pg_proc p"
        " WHERE p.pronamespace = 'tenon'::regnamespace AND array_to_string(p.proconfig, ' ')"
        " LIKE '%search_path%' AND NOT 'standard_conforming_strings=on' = ANY"
        " (p.proconfig)");
    char role[80];
    static const char *const parts[] = {"producer", "operator", "worker", "cleaner"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char grant[80], sql[600];
        (void)snprintf(grant, sizeof grant, "SELECT tenon.grant_%s('%%s')", parts[i]);
        PGconn *conn = log_in(fx, role, parts[i], grant);
        (void)
            snprintf(sql, sizeof sql,
                     "SELECT p.oid::regprocedure::text AS found FROM pg_proc p WHERE"
                     " p.pronamespace = 'tenon'::regnamespace AND p.prosqlbody IS NULL AND"
                     " has_function_privilege('%s', p.oid, 'EXECUTE') AND p.prosrc LIKE E'%%\\\\%%'"
                     " AND p.proconfig IS NULL",
                     role);
        assert_none(fx, "functions that a role may call, with a backslash and without settings",
                    sql);
        log_out(fx, conn, role);
    }
}

/* --- what an operator does --- */

static int audited(struct fixture *fx, const char *act, const char *role)
{
    return (int)test_sql_int(
        fx, "SELECT count(*) FROM tenon.audit WHERE act = '%s' AND who = '%s' AND n = 1", act,
        role);
}

/* It has no right to write a table, and each of its acts on what is not its own leaves a row. */
static void test_what_an_operator_does_is_audited(void **state)
{
    static const struct {
        const char *call, *act;
    } acts[] = {
        {"cancel(1)", "cancel"},
        {"close(1)", "close"},
        {"set_settings('{\"history_keep\": \"0\"}')", "set_settings"},
        {"set_queue('q', priority => 1)", "set_queue"},
        {"set_kind('k', priority => 1)", "set_kind"},
        {"pause('q')", "pause"},
        {"delete(1)", "delete"},
    };
    struct fixture *fx = *state;
    char role[80];
    test_sql(fx, "SELECT tenon.enqueue('a'), tenon.batch(on_end => 'a')");
    PGconn *conn = log_in(fx, role, "o", "SELECT tenon.grant_operator('%s')");
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        sql_run(conn, "SELECT tenon.%s", acts[i].call);
        if (audited(fx, acts[i].act, role) != 1) {
            fail_msg("tenon.%s leaves no row in tenon.audit", acts[i].call);
        }
    }
    sql_run(conn, "SELECT tenon.cancel(tenon.enqueue('a')), tenon.close(tenon.batch(on_end => "
                  "'a'))"); /* its own */
    assert_int_equal(audited(fx, "cancel", role) + audited(fx, "close", role), 2);
    log_out(fx, conn, role);
}

static void test_settings_are_checked(void **state)
{
    static const struct {
        const char *changes, *words;
    } bad[] = {
        {"{\"history_keep\": \"1 min\"}", "history_keep 1 min|0, or 1 hour to 1000 years"},
        {"{\"history_keep\": \"x\"}", "history_keep x"},
        {"{\"dead_keep\": null}", "dead_keep NULL"},
        {"{\"payload_bytes_max\": 0}", "payload_bytes_max 0|at least 1"},
        {"{\"exchange\": \"A B\"}", "exchange A B|1 to 63 of a-z 0-9 _ -"},
        {"{\"cancel_own_only\": 7}", "cancel_own_only 7|true or false"},
        {"{\"on_dead\": \"a b\"}", "on_dead a b|a kind"},
        {"{\"audit_keep\": \"1 s\"}", "changes|on_dead"},
        {"{}", "changes"},
    };
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_sql_fails(fx, "22023", bad[i].words, "SELECT tenon.set_settings('%s')",
                       bad[i].changes);
    }
    test_sql(fx, "SELECT tenon.set_settings('{\"on_dead\": \"a\", \"history_keep\": \"2 days\","
                 " \"cancel_own_only\": false}')");
    assert_true(test_sql_bool(fx, "SELECT on_dead = 'a' AND history_keep = '2 days' AND NOT"
                                  " cancel_own_only AND exchange = 'tenon' FROM tenon.setting"));
    test_sql(fx, "SELECT tenon.set_settings('{\"on_dead\": null}')");
    assert_true(test_sql_bool(fx, "SELECT on_dead IS NULL FROM tenon.setting"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_the_caller_s_casts_run_as_the_caller),
        WITH_DATABASE(test_the_functions_behind_ask_again),
        WITH_DATABASE(test_what_runs_as_the_owner_takes_base_types),
        WITH_DATABASE(test_what_functions_mean_is_pinned),
        WITH_DATABASE(test_what_an_operator_does_is_audited),
        WITH_DATABASE(test_settings_are_checked),
    };
    return RUN_GROUP(tests);
}
