/* label: e2e */
/* timeout: 300 */
/* only: all */
/* clients/php: its own tests (clients/php/tests), on servers of a fixture, with Debian's packages
 * of Symfony and Doctrine. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>

#define PHP_MS 120000
#define NOT_THERE 69

/* Run a file of its tests. */
static void php(struct fixture *fx, const char *test)
{
    char script[1024];
    (void)snprintf(script, sizeof script,
                   "cd '%s' && command -v phpunit >/dev/null || exit %d;"
                   " php clients/php/tests/bootstrap.php && exec phpunit --do-not-cache-result"
                   " --bootstrap clients/php/tests/bootstrap.php clients/php/tests/%s",
                   repository, NOT_THERE, test);
    const char *const argv[] = {"sh", "-c", script, NULL};
    char program[300];
    (void)snprintf(program, sizeof program, "TENON=%s", tenon_program);
    const char *const env[] = {program, "LC_ALL=C.UTF-8", NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, PHP_MS);
    if (status == NOT_THERE) {
        skip_missing("PHP with Symfony: script/bootstrap --with-languages=symfony");
    }
    if (status != 0) {
        char *said = file_text(p->out), *log = file_text(p->log);
        fail_msg("exit code %d: %s%s", status, said, log);
    }
}

static void test_conformance(void **state)
{
    php(*state, "ConformanceTest.php");
}

static void test_messenger(void **state)
{
    php(*state, "MessengerTest.php");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_conformance),
        WITH_SERVERS(test_messenger),
    };
    return RUN_GROUP(tests);
}
