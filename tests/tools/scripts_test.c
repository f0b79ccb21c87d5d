/* label: fault */
/* The scripts where a newcomer's machine may mislead them: in a directory that the servers' users
 * cannot enter, with a blank in its name, and with a shell in which everything is set. And what
 * script/test says of a run. */
#include "tests/support/process.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A shell's words, with the copy of script/ in "$0"; its stdout, free(). */
static char *says(struct fixture *fx, int code, const char *words, const char *const *env)
{
    char clone[300];
    (void)snprintf(clone, sizeof clone, "%s/closed/a clone", fx->dir);
    const char *const argv[] = {"/bin/bash", "-p", "-c", words, clone, repository, NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, 3 * LIMIT_MS);
    char *out = file_text(p->out);
    if (status != code) {
        fail_msg("%s: exit code %d: %s%s", words, status, out, file_text(p->log));
    }
    return out;
}

static int make_clone(void **state)
{
    if (fixture_setup_database(state) != 0) {
        return -1;
    }
    free(says(
        *state, 0,
        "umask 077 && mkdir -p \"$0\" && cp -r \"$1/script\" \"$0/\" &&"
        " mkdir \"$0/evil\" && printf 'cd /\\nset -u\\numask 077\\necho evil\\n' >\"$0/evil/rc\"",
        NULL));
    return 0;
}

/* Each of them would mislead a script, a server or a client that heeds it. */
#define EVIL                                                                                       \
    "export BASH_ENV=\"$0/evil/rc\" ENV=\"$0/evil/rc\" CDPATH=/:/tmp LANG=xx_XX LC_ALL=C"          \
    " POSIXLY_CORRECT=1 GREP_OPTIONS=-v TMPDIR=/nowhere PGHOST=nowhere PGPORT=1 PGUSER=evil"       \
    " PGOPTIONS='-c evil=1' PGDATA=/nowhere PGSSLMODE=verify-full DATABASE_URL=evil AMQP_URL=evil" \
    " RABBITMQ_NODENAME=evil@nowhere RABBITMQ_CONF_ENV_FILE=/nowhere ERL_FLAGS=-evil"              \
    " TENON_SERVICES=evil TENON_ENVIRONMENT=1 CC=false CFLAGS=-evil MAKEFLAGS=-evil"               \
    " PYTHONHOME=/nowhere NODE_OPTIONS=--evil GIT_DIR=/nowhere;"                                   \
    " grep() { echo evil; }; cd() { echo evil; }; export -f grep cd; umask 077\n"

static void test_services_start_anywhere(void **state)
{
    struct fixture *fx = *state;
    char *out = says(fx, 0,
                     EVIL
                     "\"$0/script/services\" start postgres >&2 && eval"
                     " \"$(\"$0/script/services\" env)\" && env -u PGHOST -u PGPORT -u PGUSER"
                     " -u PGOPTIONS -u PGDATA -u PGSSLMODE \"$TENON_PGBIN/psql\" -XAtq"
                     " -d \"$DATABASE_URL\" -c 'SELECT 17' && kept=$(dirname \"$TENON_PGDATA\") &&"
                     " test -d \"$kept\" && case $kept in *' '*) false ;; esac"
                     " && eval \"$TENON_SERVICES wipe\" && test ! -e \"$kept\"",
                     NULL);
    assert_string_equal(out, "17\n");
    free(out);
    out = says(fx, 0, "ls -A \"$0\"", NULL);
    assert_string_equal(out, "evil\nscript\n");
    free(out);
}

/* The data of a test's servers; where memory has no room, it is on the disk. */
static void test_services_in_memory(void **state)
{
    struct fixture *fx = *state;
    char *out = says(fx, 0,
                     "\"$0/script/services\" start --in-memory postgres >&2 && eval"
                     " \"$(\"$0/script/services\" env)\" && kept=$(dirname \"$TENON_PGDATA\") &&"
                     " free=$(df --output=avail -BM /dev/shm | tail -1 | tr -dc 0-9) &&"
                     " case $kept in /dev/shm/tenon-services.*) test $free -gt 7000 ;;"
                     " *) echo disk >&2 ;; esac && \"$TENON_PGBIN/psql\" -XAtq"
                     " -d \"$DATABASE_URL\" -c 'SELECT 17' &&"
                     " eval \"$TENON_SERVICES wipe\" && test ! -e \"$kept\"",
                     NULL);
    assert_string_equal(out, "17\n");
    free(out);
}

static void test_the_environment_is_clean(void **state)
{
    struct fixture *fx = *state;
    char *out = says(fx, 0,
                     "printf '%s\\n' '#!/bin/bash -p' '. \"$(dirname \"$0\")/environment\"'"
                     " 'echo \"$1|$(umask)|${CC-no}|${DATABASE_URL-no}|$https_proxy\"'"
                     " >\"$0/script/shows\" && chmod +x \"$0/script/shows\"\n" EVIL
                     "export https_proxy=mine; \"$0/script/shows\" 'a b'",
                     NULL);
    assert_string_equal(out, "a b|0022|no|no|mine\n");
    free(out);
}

/* What ctest prints, in the order in which tests end. */
static const char run[] = "  Test  #1: again_test\n  Test  #2: sql_dead_test\nTotal Tests: 2\n"
                          "      Start  1: again_test\n"
                          " 1/2 Test  #2: sql_dead_test ....   Passed    0.40 sec\n"
                          " 2/2 Test  #1: again_test .......***Failed   12.30 sec\n"
                          "[  FAILED  ] test_expired\n";

static void test_a_run_says_how_far_it_is(void **state)
{
    struct fixture *fx = *state;
    char words[1000];
    (void)snprintf(words, sizeof words, "\"$1/tests/progress\" <<'END'\n%sEND\n", run);
    char *out = says(fx, 1, words, NULL);
    assert_contains(out, "[1/2] ");
    assert_contains(out, " %, about ");
    assert_contains(out, "left: sql_dead_test passed (0 s)\n");
    assert_contains(out, "[2/2] 100 %, done: again_test failed (12 s)\n");
    assert_contains(out, "again_test failed: test_expired\n  promise 1: ");
    assert_null(strstr(out, "sql_dead_test failed"));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_services_start_anywhere, make_clone, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_services_in_memory, make_clone, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_environment_is_clean, make_clone,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_run_says_how_far_it_is, make_clone,
                                        fixture_teardown),
    };
    return RUN_GROUP(tests);
}
