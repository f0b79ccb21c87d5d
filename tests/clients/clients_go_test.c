/* label: e2e */
/* timeout: 420 */
/* long: 600 */
/* only: all */
/* clients/go: its own tests, on servers of a fixture. The long variant builds them with the race
 * detector, for which Go compiles its own library once more. */
#include "tests/support/clients.h"

#include <stdlib.h>
#include <string.h>

#define GO_BUILD_MS 280000 /* Go builds its own library the first time */
#define GO_TEST_MS 120000

/* One program for each package; where nothing has changed, Go builds nothing. */
static void build(struct fixture *fx)
{
    assert_int_equal(clients_run(fx, GO_BUILD_MS, NULL,
                                 "mkdir -p build/go/tests && cd clients/go &&"
                                 " exec ../../script/go-env go test %s -c -o ../../build/go/tests/"
                                 " ./...",
                                 getenv("TEST_LONG") ? "-race" : ""),
                     0);
}

/* The tests of a package whose names match; at least one of them runs. */
static void go_test(void **state, const char *package, const char *names)
{
    struct fixture *fx = *state;
    char *said;
    build(fx);
    int status = clients_run(
        fx, GO_TEST_MS, &said,
        "root=$PWD && cd clients/%s && PATH=${TENON%%/*}:$PATH && exec \"$root/script/go-env\""
        " \"$root/build/go/tests/$(basename \"$PWD\").test\" -test.v -test.timeout 110s"
        " -test.run '%s'",
        package, names);
    bool some = strstr(said, "--- PASS") != NULL, skipped = strstr(said, "--- SKIP") != NULL;
    free(said);
    assert_int_equal(status, 0);
    assert_true(some && !skipped);
}

static void test_child(void **state)
{
    go_test(state, "go",
            "^Test(Protocol|Env|Keys|OutcomesOf|Panics|Results|WhyIt|Extend|Progress|Suspended"
            "|Middleware|Secret|EndOf|Terminated|Broken)");
}

static void test_enqueue(void **state)
{
    go_test(
        state, "go",
        "^Test(Enqueue|Publish|Options|Payloads|Arguments|Unique|WakeUps|Flows|Schedules|Context"
        "|WaitFor|RunDue)");
}

static void test_sync(void **state)
{
    go_test(state, "go", "^TestSync");
}

static void test_many(void **state)
{
    go_test(state, "go", "^TestTwentyAtOnce$");
}

static void test_worker(void **state)
{
    go_test(state, "go", "^Test(Outcomes|Cancel|Wildcard|ParentsAndRetry)$");
}

static void test_saga(void **state)
{
    go_test(state, "go", "^TestSagaKilledAtEachStep$");
}

static void test_finish(void **state)
{
    go_test(state, "go", "^Test(FinishInThe|StepTx)");
}

static void test_drain(void **state)
{
    go_test(state, "go", "^TestDrain$");
}

static void test_waiting(void **state)
{
    go_test(state, "go/tenonpgx", ".");
}

static void test_testing(void **state)
{
    go_test(state, "go/tenontest", ".");
}

static void test_readme(void **state)
{
    go_test(state, "go", "^TestReadme");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_child),   WITH_DATABASE(test_enqueue), WITH_DATABASE(test_sync),
        WITH_DATABASE(test_many),    WITH_DATABASE(test_worker),  WITH_DATABASE(test_saga),
        WITH_DATABASE(test_finish),  WITH_DATABASE(test_drain),   WITH_DATABASE(test_waiting),
        WITH_DATABASE(test_testing), WITH_DATABASE(test_readme),
    };
    return RUN_GROUP(tests);
}
