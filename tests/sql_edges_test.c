/* label: sql */
/* Edges of the SQL: tables without their row, other settings and languages of a database. */
#include "tests/support/fixture.h"

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
        "limit_take('k')",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_without_settings_there_is_a_clear_error),
        WITH_DATABASE(test_without_the_settler_s_row_there_is_a_clear_error),
    };
    return RUN_GROUP(tests);
}
