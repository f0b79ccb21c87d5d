/* label: e2e */
/* timeout: 600 */
/* only: nightly */
/* clients/java: its own tests (clients/java/src/test), on servers of a fixture. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>

#define COMPILE_MS 240000
#define TEST_MS 150000
#define NOT_THERE 69

static int shell(struct fixture *fx, const char *command, int64_t limit_ms)
{
    char script[1024];
    (void)snprintf(script, sizeof script, "cd '%s' && %s", repository, command);
    const char *const argv[] = {"sh", "-c", script, NULL};
    char program[300];
    (void)snprintf(program, sizeof program, "TENON=%s", tenon_program);
    const char *const env[] = {program, "LC_ALL=C.UTF-8", NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, limit_ms);
    if (status != 0 && status != NOT_THERE) {
        char *said = file_text(p->out), *log = file_text(p->log);
        fail_msg("exit code %d: %s%s", status, said, log);
    }
    return status;
}

/* Run a class of its tests. */
static void java(struct fixture *fx, const char *test)
{
    static int environment = -1;
    if (environment < 0) {
        environment = shell(fx, "script/java-env", COMPILE_MS);
    }
    if (environment == NOT_THERE) {
        skip_missing("Java with Maven: script/bootstrap --with-languages=java");
    }
    char command[256];
    (void)snprintf(command, sizeof command, "exec script/java-env surefire:test -Dtest=%s", test);
    assert_int_equal(shell(fx, command, TEST_MS), 0);
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
