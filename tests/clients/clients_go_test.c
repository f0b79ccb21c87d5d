/* label: e2e */
/* timeout: 420 */
/* long: 600 */
/* only: all */
/* clients/go: its own tests, on servers of a fixture. The long variant builds them with the race
 * detector, for which Go compiles its own library once more. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GO_BUILD_MS 280000 /* Go builds its own library the first time */
#define GO_TEST_MS 120000

static char *ran(struct fixture *fx, const char *script, int *status, int64_t limit_ms)
{
    char program[300], tests[400];
    (void)snprintf(program, sizeof program, "TENON=%s", tenon_program);
    (void)snprintf(tests, sizeof tests, "GO_TESTS=%s/build/go/tests", repository);
    const char *const argv[] = {"sh", "-c", script, repository, NULL};
    const char *const env[] = {program, tests, NULL};
    struct process *p = process_spawn(fx, argv, env);
    *status = process_wait(p, limit_ms);
    char *said = file_text(p->out);
    if (*status != 0) {
        char *log = file_text(p->log);
        print_message("%s%s", said, log);
        free(log);
    }
    return said;
}

/* One program for each package; where nothing has changed, Go builds nothing. */
static void build(struct fixture *fx)
{
    int status;
    char script[200];
    (void)snprintf(script, sizeof script,
                   "cd \"$0\"/clients/go && mkdir -p \"$GO_TESTS\" &&"
                   " exec ../../script/go-env go test %s -c -o \"$GO_TESTS/\" ./...",
                   getenv("TEST_LONG") ? "-race" : "");
    char *said = ran(fx, script, &status, GO_BUILD_MS);
    free(said);
    assert_int_equal(status, 0);
}

/* The tests of a package whose names match; at least one of them runs. */
static void go_test(void **state, const char *package, const char *names)
{
    struct fixture *fx = *state;
    char script[600];
    int status;
    build(fx);
    (void)snprintf(
        script, sizeof script,
        "cd \"$0\"/clients/%s && PATH=${TENON%%/*}:$PATH && exec \"$0\"/script/go-env"
        " \"$GO_TESTS/$(basename \"$PWD\").test\" -test.v -test.timeout 110s -test.run '%s'",
        package, names);
    char *said = ran(fx, script, &status, GO_TEST_MS);
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
