/* label: e2e */
/* timeout: 600 */
/* long: 900 */
/* only: all */
/* clients/ruby: its own tests (clients/ruby/tests), on servers of a fixture, with the Rails of
 * Debian 12; the long variant with that of Debian 13, too. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>

#define RUBY_MS 280000

/* Run a file of its tests with the Rails that `script/ruby-env WHICH` prints; false: there is
 * none.
 * */
static bool ruby(struct fixture *fx, const char *which, const char *test)
{
    char script[1024];
    (void)snprintf(script, sizeof script,
                   "cd '%s' && options=$(script/ruby-env %s) && IFS='\n' &&"
                   " exec ruby $options clients/ruby/tests/%s",
                   repository, which, test);
    const char *const argv[] = {"sh", "-c", script, NULL};
    char program[300];
    (void)snprintf(program, sizeof program, "TENON=%s", tenon_program);
    const char *const env[] = {program, "LC_ALL=C.UTF-8", NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, RUBY_MS);
    if (status != 0 && status != 69) {
        char *said = file_text(p->out), *log = file_text(p->log);
        fail_msg("exit code %d: %s%s", status, said, log);
    }
    return status == 0;
}

static void test_conformance(void **state)
{
    assert_true(ruby(*state, "", "conformance_test.rb"));
}

static void test_client(void **state)
{
    assert_true(ruby(*state, "", "client_test.rb"));
}

static void test_acts(void **state)
{
    assert_true(ruby(*state, "", "acts_test.rb"));
}

static void test_active_job(void **state)
{
    assert_true(ruby(*state, "", "active_job_test.rb"));
}

static void test_rails(void **state)
{
    assert_true(ruby(*state, "", "rails_test.rb"));
}

static void test_rails_7(void **state)
{
    if (!getenv("TEST_LONG") || !ruby(*state, "trixie", "active_job_test.rb") ||
        !ruby(*state, "trixie", "rails_test.rb")) {
        skip_missing("Rails 7.2: the long variant fetches it");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_conformance), WITH_SERVERS(test_client), WITH_SERVERS(test_acts),
        WITH_SERVERS(test_active_job),  WITH_SERVERS(test_rails),  WITH_SERVERS(test_rails_7),
    };
    return RUN_GROUP(tests);
}
