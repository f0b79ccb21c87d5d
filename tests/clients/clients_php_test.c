/* label: e2e */
/* timeout: 300 */
/* only: all */
/* clients/php: its own tests (clients/php/tests), on servers of a fixture, with Debian's packages
 * of Symfony and Doctrine. */
#include "tests/support/clients.h"

#define PHP_MS 120000

/* Run a file of its tests. */
static void php(struct fixture *fx, const char *test)
{
    if (clients_run(fx, PHP_MS, NULL,
                    "command -v phpunit >/dev/null || exit %d;"
                    " php clients/php/tests/bootstrap.php && exec phpunit --do-not-cache-result"
                    " --bootstrap clients/php/tests/bootstrap.php clients/php/tests/%s",
                    CLIENTS_MISSING, test) == CLIENTS_MISSING) {
        skip_missing("PHP with Symfony: script/bootstrap --with-languages=symfony");
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
