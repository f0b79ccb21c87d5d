/* label: e2e */
/* timeout: 420 */
/* long: 600 */
/* only: all */
/* clients/node, as it is installed: its own tests (clients/node/tests), on servers of a fixture.
 * */
#include "tests/support/clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NODE_TEST_MS 280000

/* Run one of its tests in the project that `script/node-env WHICH` makes. */
static void node_test(struct fixture *fx, const char *which, const char *test)
{
    int status = clients_run(fx, NODE_TEST_MS, NULL,
                             "env=$(script/node-env %s) && cd \"$env\" &&"
                             " exec node --test tests/%s.test.js",
                             which, test);
    assert_int_equal(status, 0);
}

static void test_enqueue(void **state)
{
    node_test(*state, "", "enqueue");
}

static void test_acts(void **state)
{
    node_test(*state, "", "acts");
}

static void test_conformance(void **state)
{
    node_test(*state, "", "conformance");
}

static void test_databases(void **state)
{
    node_test(*state, "", "databases");
}

/* Vitest and Jest: likewise only the long variant fetches them. */
static void test_runners(void **state)
{
    char packages[512];
    (void)snprintf(packages, sizeof packages, "%s/build/node-runners/packages.done", repository);
    if (!getenv("TEST_LONG") && access(packages, F_OK) != 0) {
        skip_missing("Vitest and Jest: script/node-env runners fetches them");
    }
    node_test(*state, "runners", "runners/runners");
}

/* It wants 170 MB of packages, which only the long variant fetches. */
static void test_prisma(void **state)
{
    char packages[512];
    (void)snprintf(packages, sizeof packages, "%s/build/node-prisma/packages.done", repository);
    if (!getenv("TEST_LONG") && access(packages, F_OK) != 0) {
        skip_missing("Prisma: script/node-env prisma fetches it");
    }
    node_test(*state, "prisma", "prisma/prisma");
}

static void test_child(void **state)
{
    node_test(*state, "", "child");
}

static void test_worker(void **state)
{
    node_test(*state, "", "worker");
}

static void test_waiting(void **state)
{
    node_test(*state, "", "waiting");
}

static void test_answers(void **state)
{
    node_test(*state, "", "answers");
}

static void test_lost(void **state)
{
    node_test(*state, "", "lost");
}

static void test_secrets(void **state)
{
    node_test(*state, "", "secrets");
}

static void test_testing(void **state)
{
    node_test(*state, "", "testing");
}

static void test_package(void **state)
{
    node_test(*state, "", "package");
}

static void test_readme(void **state)
{
    node_test(*state, "", "readme");
}

/* Without the package. */
static void test_example(void **state)
{
    node_test(*state, "", "example");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_enqueue), WITH_DATABASE(test_databases), WITH_DATABASE(test_prisma),
        WITH_DATABASE(test_child),   WITH_DATABASE(test_secrets),   WITH_SERVERS(test_worker),
        WITH_DATABASE(test_waiting), WITH_DATABASE(test_answers),   WITH_DATABASE(test_lost),
        WITH_DATABASE(test_testing), WITH_SERVERS(test_readme),     WITH_DATABASE(test_example),
        WITH_DATABASE(test_package), WITH_DATABASE(test_acts),      WITH_DATABASE(test_conformance),
        WITH_DATABASE(test_runners),
    };
    return RUN_GROUP(tests);
}
