/* label: e2e */
/* timeout: 600 */
/* only: nightly */
/* clients/java: its own tests (clients/java/src/test), on servers of a fixture. */
#include "tests/support/clients.h"

#define COMPILE_MS 240000
#define TEST_MS 150000

/* Run a class of its tests. */
static void java(struct fixture *fx, const char *test)
{
    static int environment = -1;
    if (environment < 0) {
        environment = clients_run(fx, COMPILE_MS, NULL, "script/java-env");
    }
    if (environment == CLIENTS_MISSING) {
        skip_missing("Java with Maven: script/bootstrap --with-languages=java");
    }
    assert_int_equal(clients_run(fx, TEST_MS, NULL, "exec script/java-env surefire:test -Dtest=%s",
                                 test),
                     0);
}

static void test_conformance(void **state)
{
    java(*state, "ConformanceTest");
}

static void test_spring(void **state)
{
    java(*state, "SpringTest");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_conformance),
        WITH_SERVERS(test_spring),
    };
    return RUN_GROUP(tests);
}
