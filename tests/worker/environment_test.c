/* label: unit */
/* What of the worker's environment a handler gets: all but what the worker connects with. */
#include "tests/support/test.h"

#include "worker/environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of a variable in an environment, or NULL. */
static const char *variable(char **env, const char *name)
{
    size_t bytes = strlen(name);
    for (; *env; env++) {
        if (strncmp(*env, name, bytes) == 0 && (*env)[bytes] == '=') {
            return *env + bytes + 1;
        }
    }
    return NULL;
}

/* What a handler of a worker gets in this environment, each "NAME=value". */
static char **given(char **own, char *const *names, const char *more)
{
    char *argv[] = {"worker", "--handler=a=b", (char *)(uintptr_t)more, NULL};
    struct options *o = NULL;
    struct fault f = {0};
    environ = own;
    if (!options_read(COMMAND_WORKER, more ? 3 : 2, argv, &o, &f)) {
        fail_msg("%s", f.text);
    }
    char **env = environment_of(o, names, NULL, &(char *){NULL});
    assert_non_null(env);
    options_free(o);
    return env;
}

static void test_what_it_connects_with_is_withheld(void **state)
{
    (void)state;
    static char *own[] = {"PATH=/bin",
                          "DATABASE_URL=postgresql:///",
                          "AMQP_URL=none",
                          "PGPASSWORD=w",
                          "PGPASSFILE=f",
                          "PGSERVICE=s",
                          "TENON_SLOTS=3",
                          "TENON_TASK_ID=9",
                          "TENON_PRESENCE_URL=p",
                          "DATABASE_URL2=x",
                          NULL};
    char **env = given(own, NULL, NULL);
    assert_string_equal(variable(env, "PATH"), "/bin");
    assert_string_equal(variable(env, "TENON_SLOTS"), "3");
    assert_string_equal(variable(env, "DATABASE_URL2"), "x");
    static const char *const withheld[] = {"DATABASE_URL",      "AMQP_URL",  "PGPASSWORD",
                                           "PGPASSFILE",        "PGSERVICE", "TENON_TASK_ID",
                                           "TENON_PRESENCE_URL"};
    for (size_t i = 0; i < sizeof withheld / sizeof *withheld; i++) {
        assert_null(variable(env, withheld[i]));
    }
    free(env);
}

/* So a handler gets a role of its own. */
static void test_what_it_does_not_connect_with_is_given(void **state)
{
    (void)state;
    static char *own[] = {"TENON_DATABASE_URL=worker", "DATABASE_URL=handler",
                          "TENON_AMQP_URL=none", "AMQP_URL=handler", NULL};
    char **env = given(own, NULL, NULL);
    assert_string_equal(variable(env, "DATABASE_URL"), "handler");
    assert_string_equal(variable(env, "AMQP_URL"), "handler");
    assert_null(variable(env, "TENON_DATABASE_URL"));
    assert_null(variable(env, "TENON_AMQP_URL"));
    free(env);
    static char *flag[] = {"DATABASE_URL=handler", "AMQP_URL=none", NULL};
    env = given(flag, NULL, "--database-url=worker");
    assert_string_equal(variable(env, "DATABASE_URL"), "handler");
    assert_null(variable(env, "AMQP_URL"));
    free(env);
}

static void test_what_is_named_is_given(void **state)
{
    (void)state;
    static char *own[] = {"DATABASE_URL=postgresql:///",
                          "AMQP_URL=none",
                          "PGSSLROOTCERT=c",
                          "PGHOST=h",
                          "PGPASSWORD=w",
                          "TENON_TASK_ID=9",
                          NULL};
    static char *names[] = {"PGHOST", "TENON_TASK_ID", NULL};
    char **env = given(own, names, "--pass-env=DATABASE_URL,PGSSLROOTCERT");
    assert_string_equal(variable(env, "DATABASE_URL"), "postgresql:///");
    assert_string_equal(variable(env, "PGSSLROOTCERT"), "c");
    assert_string_equal(variable(env, "PGHOST"), "h");
    assert_null(variable(env, "AMQP_URL"));
    assert_null(variable(env, "PGPASSWORD"));
    assert_null(variable(env, "TENON_TASK_ID"));
    free(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_connects_with_is_withheld),
        cmocka_unit_test(test_what_it_does_not_connect_with_is_given),
        cmocka_unit_test(test_what_is_named_is_given),
    };
    return RUN_GROUP(tests);
}
