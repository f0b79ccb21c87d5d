/* label: e2e */
/* timeout: 600 */
/* long: 900 */
/* only: all */
/* clients/python, as it is installed: its own tests (clients/python/tests), on servers of a
 * fixture.
 * */
#include "tests/support/clients.h"

#include <stdlib.h>
#include <string.h>

#define PYTEST_MS 280000

/* Run these of its tests in the environment that `script/python-env WHICH` makes; false: there is
 * no such Python. */
static bool pytest(struct fixture *fx, const char *which, const char *tests)
{
    char *said;
    int status = clients_run(
        fx, PYTEST_MS, &said,
        "export TMPDIR='%s' && env=$(script/python-env %s) && cd clients/python/tests &&"
        " exec \"$env/bin/python\" -m pytest --basetemp=\"$TMPDIR/pytest\" -x --tb=short %s",
        fx->dir, which, tests);
    const char *line = strstr(said, "ran: ");
    if (line) {
        print_message("%.*s\n", (int)strcspn(line, "\n"), line);
    }
    free(said);
    return status == 0;
}

static void test_client(void **state)
{
    assert_true(pytest(
        *state, "",
        "test_acts.py test_answers.py test_child.py test_conformance.py test_enqueue.py"
        " test_finish.py test_middleware.py test_payload.py test_publisher.py test_secrets.py"
        " test_steps.py test_testing.py test_waiter.py test_waiting.py test_worker.py"));
}

static void test_readme(void **state)
{
    assert_true(pytest(*state, "", "test_readme.py"));
}

/* From pip install on: its packages are fetched. */
static void test_fresh_environment(void **state)
{
    assert_true(pytest(*state, "", "-s test_fresh.py"));
}

/* The Tasks framework of the package django-tasks, which is for older ones. */
static void test_django_tasks(void **state)
{
    assert_true(pytest(*state, "", "test_django.py"));
}

/* A project's own tests, with pytest-django and with Django's runner. */
static void test_tests_of_a_project(void **state)
{
    assert_true(pytest(*state, "", "test_django_testing.py test_django_admin.py"));
}

/* With the newest Python, if that is new enough; else the output says what was skipped. */
static void run_newest(struct fixture *fx, const char *tests, const char *what)
{
    if (!pytest(fx, "newest", tests)) {
        skip_missing("%s: it wants Python 3.12 or newer, which script/python-env newest does not"
                     " find",
                     what);
    }
    print_message("ran: %s\n", what);
}

/* Django's own, where there is a Python for it: what differs, and with TEST_LONG=1 all. */
static void test_django_6(void **state)
{
    const char *which =
        getenv("TEST_LONG") != NULL
            ? "test_django.py"
            : "test_django.py -k 'flags or failures or validation or results or checks or commit'";
    run_newest(*state, which, "Django's own Tasks framework");
}

/* And its own tests of that, with the backend in place of its own. */
static void test_djangos_own_tests(void **state)
{
    if (getenv("TEST_LONG") == NULL) {
        print_message("skipped: runs with TEST_LONG=1, as in script/nightly\n");
        skip();
    }
    run_newest(*state, "django_own.py", "Django's own tests of its Tasks framework");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_client),
        WITH_SERVERS(test_readme),
        WITH_SERVERS(test_fresh_environment),
        WITH_SERVERS(test_django_tasks),
        WITH_SERVERS(test_tests_of_a_project),
        WITH_SERVERS(test_django_6),
        WITH_DATABASE(test_djangos_own_tests),
    };
    return RUN_GROUP(tests);
}
