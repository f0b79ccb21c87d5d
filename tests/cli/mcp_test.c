/* label: e2e */
/* timeout: 120 */
/* only: all */
/* `tenon mcp`, by the lines of tests/support/mcp_lines.py and by the official SDK for Python
 * (mcp_client.py): each answers what its client asked, changes nothing unless it may, and then says
 * in the audit who it was and why. */
#include "tests/support/clients.h"

#include <stdio.h>

enum { LIMIT_MS = 100000 };

/* Task 1 waits, 2 has a payload of 1,000,000 bytes, 3 is dead and has logged; and
 * flow 1. */
static void fill(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.enqueue('a')");
    test_sql(fx, "SELECT tenon.enqueue('a', jsonb_build_object('long', repeat('x', 1000000)))");
    test_sql(fx, "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
                 " failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
                 " last_error, error_class) SELECT now(), nextval('tenon.task_id_seq'), now(),"
                 " now(), 1000, 1, 1, 0, 1, 4, 'failures', 'mail', 'mail', '{}', 'Boom: it',"
                 " 'Boom'");
    test_sql(fx, "INSERT INTO tenon.log_line (task_id, attempt, level, message) SELECT 3, 1, CASE"
                 " WHEN mod(n, 10) = 0 THEN 'warning' ELSE 'info' END, 'line ' || n"
                 " FROM generate_series(1, 3000) n");
    test_sql(fx, "SELECT tenon.flow('f')");
}

static void run(struct fixture *fx, const char *python, const char *name)
{
    char script[300];
    (void)snprintf(script, sizeof script, "%s/tests/support/%s", repository, name);
    const char *const args[] = {python, script, tenon_program, NULL};
    struct process *p = process_spawn(fx, args, NULL);
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (code != 0) {
        (void)fputs(log, stderr);
        fail_msg("%s ended with %d", name, code);
    }
    free(log);
}

static void test_lines(void **state)
{
    struct fixture *fx = *state;
    fill(fx);
    run(fx, "/usr/bin/python3", "mcp_lines.py");
    char *acts = test_sql_text(fx, "SELECT string_agg(act || ' ' || (what ->> 'why'), ', ' ORDER"
                                   " BY id) FROM tenon.audit WHERE what ->> 'web_user' ="
                                   " 'mcp:my_client__x_1'");
    assert_string_equal(acts, "retry it's back, pause the provider is down, resume it is back,"
                              " cancel wrong");
    free(acts);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE what ->> 'web_user'"
                                      " IS NULL"),
                     0);
}

static void test_the_official_sdk(void **state)
{
    struct fixture *fx = *state;
    char env[300], python[330];
    clients_environment(fx, "script/tests-env", env, sizeof env);
    fill(fx);
    (void)snprintf(python, sizeof python, "%s/bin/python", env);
    run(fx, python, "mcp_client.py");
    char *who = test_sql_text(fx, "SELECT string_agg(what ->> 'web_user', ' ' ORDER BY id) FROM"
                                  " tenon.audit");
    assert_string_equal(who, "mcp:sdk-auto mcp:sdk-legacy");
    free(who);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_lines),
        WITH_DATABASE(test_the_official_sdk),
    };
    return RUN_GROUP(tests);
}
