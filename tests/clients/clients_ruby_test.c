/* label: e2e */
/* timeout: 600 */
/* long: 900 */
/* only: all */
/* clients/ruby: its own tests (clients/ruby/tests), on servers of a fixture, with the Rails of
 * Debian 12; the long variant with that of Debian 13, too. */
#include "tests/support/clients.h"

#include <stdlib.h>

#define RUBY_MS 280000

/* Run a file of its tests with the Rails that `script/ruby-env WHICH` prints; false: there is
 * none. */
static bool ruby(struct fixture *fx, const char *which, const char *test)
{
    return clients_run(fx, RUBY_MS, NULL,
                       "options=$(script/ruby-env %s) && IFS='\n' &&"
                       " exec ruby $options clients/ruby/tests/%s",
                       which, test) == 0;
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
