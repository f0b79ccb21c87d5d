/* label: sql */
/* The fence of a claim: its key, and the queues and kinds of the role that acts with it. */
#include "tests/support/held.h"

#include <stdio.h>

/* Everything that takes a claim, %s, in calls that work. */
static const struct {
    const char *function, *call;
} doors[] = {
    {"steps", "SELECT tenon.steps('%s')"},
    {"step", "SELECT tenon.step('%s', 's', '1')"},
    {"progress", "SELECT tenon.progress('%s', '1')"},
    {"log_message", "SELECT tenon.log_message('%s', 'm')"},
    {"extend", "SELECT tenon.extend('%s', '2 h')"},
    {"parent_results", "SELECT * FROM tenon.parent_results('%s')"},
    {"finish_many", "SELECT tenon.finish_many('{%s}', '{1}', skip_lost => true)"},
    {"finish", "SELECT tenon.finish('%s')"},
    {"wait_signal", "SELECT tenon.wait_signal('%s', 'w')"},
};
enum { DOORS = sizeof doors / sizeof *doors };

static PGconn *confined(struct fixture *fx, char role[80], const char *how)
{
    (void)snprintf(role, 80, "%s_h", fx->database);
    test_sql(fx, "CREATE ROLE %s; SELECT tenon.grant_producer('%s', %s)", role, role, how);
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "SET SESSION AUTHORIZATION %s", role);
    return conn;
}

static void take_one(struct fixture *fx, const char *worker, const char *kind, const char *queue,
                     struct held *ret)
{
    test_sql(fx, "UPDATE tenon.worker SET queues = '{default,money}'");
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('%s')", kind);
    assert_true(held_take(fx, worker, id, ret));
    test_sql(fx, "UPDATE tenon.task SET queue = '%s' WHERE id = %lld", queue, (long long)id);
}

/* With another's claim, however it came by it, it does nothing; with its own it does everything. */
static void tried_at_all_doors(struct fixture *fx, const char *how)
{
    char role[80], worker[UUID_BYTES], text[HELD_TEXT_BYTES];
    struct held other, own;
    PGconn *conn = confined(fx, role, how);
    worker_make(fx, worker);
    take_one(fx, worker, "a", "money", &other);
    held_text(&other, text);
    char *before = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    for (size_t i = 0; i < DOORS; i++) {
        sql_fails(conn, "42501", "may not run tasks of kind a of queue money|tenon.producer",
                  doors[i].call, text);
    }
    char *after = test_sql_text(fx, "SELECT t::text FROM tenon.task t");
    assert_string_equal(before, after);
    free(before);
    free(after);
    for (size_t i = 0; i < DOORS; i++) {
        take_one(fx, worker, "mail", "default", &own);
        held_text(&own, text);
        sql_run(conn, doors[i].call, text);
    }
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

static void test_a_role_confined_to_kinds_runs_those_only(void **state)
{
    tried_at_all_doors(*state, "kinds => '{mail,b}'");
}

static void test_a_role_confined_to_queues_runs_those_only(void **state)
{
    tried_at_all_doors(*state, "queues => '{default}'");
}

/* One that it may not run among many that it may: none is finished. */
static void test_one_of_many_that_is_not_allowed(void **state)
{
    struct fixture *fx = *state;
    char role[80], worker[UUID_BYTES], own_text[HELD_TEXT_BYTES], text[HELD_TEXT_BYTES];
    struct held other, own;
    PGconn *conn = confined(fx, role, "kinds => '{mail}'");
    worker_make(fx, worker);
    take_one(fx, worker, "mail", "default", &own);
    take_one(fx, worker, "a", "default", &other);
    held_text(&own, own_text);
    held_text(&other, text);
    sql_fails(conn, "42501", "may not run tasks of kind a",
              "SELECT tenon.finish_many('{%s,%s}', skip_lost => true)", own_text, text);
    assert_state(fx, own.id, "running");
    assert_state(fx, other.id, "running");
    sql_run(conn, "SELECT tenon.finish_many('{%s}')", own_text);
    assert_state(fx, own.id, "done");
    PQfinish(conn);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

/* A new function that takes claims is tried as well. */
static void test_all_doors_are_tried(void **state)
{
    struct fixture *fx = *state;
    char names[DOORS * 32] = "";
    for (size_t i = 0; i < DOORS; i++) {
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "," : "",
                       doors[i].function);
    }
    char *untried = test_sql_text(
        fx,
        "SELECT coalesce(string_agg(proname, ' '), '') FROM pg_proc WHERE pronamespace ="
        " 'tenon'::regnamespace AND proargnames && '{claim,claims}' AND prosecdef AND"
        " proname <> ALL ('{%s}')",
        names);
    assert_string_equal(untried, "");
    free(untried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_role_confined_to_kinds_runs_those_only),
        WITH_DATABASE(test_a_role_confined_to_queues_runs_those_only),
        WITH_DATABASE(test_one_of_many_that_is_not_allowed),
        WITH_DATABASE(test_all_doors_are_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
