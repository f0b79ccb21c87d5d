/* label: e2e */
/* timeout: 300 */
/* long: 1800 */
/* only: all */
/* Each view of `tenon ui` in a real Chromium, which tests/browser/each_view.py drives, on a private
 * PostgreSQL that is stopped and started under it; in the long variant with 1,000 refreshes of each
 * view, else with as many as fit into 3 s. */
#include "tests/support/clients.h"
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/web.h"

#include <stdio.h>
#include <unistd.h>

enum { LIMIT_MS = 280000, LONG_LIMIT_MS = 1700000, READY_MS = 10000 };

static bool there_is_a_browser(void)
{
    return access("/usr/bin/chromium", X_OK) == 0 && access("/usr/bin/chromedriver", X_OK) == 0 &&
           access("/usr/lib/python3/dist-packages/selenium", R_OK) == 0;
}

static int start_postgres(void **state)
{
    server_open("postgres");
    return fixture_setup_database(state);
}

/* Something of everything; the first task of the first flow dies. */
static void fill(struct fixture *fx)
{
    test_sql_file(fx, "tests/browser/views.sql");
    struct process *worker = TENON(fx, "worker", "--queues", "default,flows", "--handler",
                                   "fetch=echo 'HTTP503: Service Unavailable' >&2; exit 65");
    process_await_line(worker, "event=task_dead", READY_MS);
    test_sql(fx, "SELECT tenon.settle()");
}

static void test_each_view(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char url[128], script[300], env[300], profile[300], home[320];
    if (!there_is_a_browser() && !getenv("TEST_NO_SKIP")) {
        print_message(
            "skipped: there is no browser; script/bootstrap --with-browser installs it\n");
        return;
    }
    clients_environment(fx, "script/node-env browser", env, sizeof env);
    fill(fx);
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/#token=%s", w.port, w.token);
    (void)snprintf(script, sizeof script, "%s/tests/browser/each_view.py", repository);
    (void)snprintf(profile, sizeof profile, "%s/profile", fx->dir);
    (void)snprintf(home, sizeof home, "HOME=%s", fx->dir);
    const char *const args[] = {"/usr/bin/python3", script, url, env, profile, NULL};
    struct process *p = process_spawn(fx, args, (const char *const[]){home, NULL});
    process_await_line(p, "now: stop the database", load_is_long() ? LONG_LIMIT_MS : LIMIT_MS);
    server_do("stop");
    process_await_line(p, "now: start the database", LIMIT_MS);
    server_do("start");
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log), *seen = file_text(p->out);
    print_message("%s", seen);
    if (code != 0) {
        (void)fputs(log, stderr); /* whole: fail_msg() cuts it */
        fail_msg("each_view.py ended with %d", code);
    }
    free(log);
    free(seen);
    server_reconnect(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 7);
    assert_int_equal(test_sql_int(fx, "SELECT max_running FROM tenon.limit WHERE name = 'api'"), 7);
    assert_int_equal(test_sql_int(fx, "SELECT sum(n) FROM tenon.audit WHERE act = 'retry'"), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_view, start_postgres, server_fixture_teardown)};
    return RUN_GROUP(tests);
}
