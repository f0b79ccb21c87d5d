/* label: e2e */
/* timeout: 300 */
/* long: 300 */
/* only: all */
/* examples/php, java: enqueue in the user's transaction, and handle. A language that is
 * not there is skipped; the test says what ran, and how to install what did not. The long variant
 * is the same, for script/nightly, which lets it skip none. */
#include "tests/support/process.h"

#include <stdio.h>
#include <stdlib.h>

#define BUILD_MS 240000

/* What a shell runs, with $EXAMPLES, and $OUT for what is built. */
struct language {
    const char *name;
    const char *is_there;
    const char *build;
    const char *producer, *handler;
    const char *odd; /* the handler, into $OUT/odd, with a result that is a part of ODD */
    const char *odd_handler;
};

#define JARS "/usr/share/java/postgresql.jar:/usr/share/java/gson.jar"

static const struct language PHP = {
    "php",
    "command -v php && php -r 'exit((int)!extension_loaded(\"pdo_pgsql\"));'",
    ":",
    "php $EXAMPLES/php/producer.php",
    "php $EXAMPLES/php/handler.php",
    "sed \"s/'sent' => .to/['nan' => NAN, 'long' => str_repeat('x', 3000000),"
    " 'plain' => 1][\\$to]/\""
    " $EXAMPLES/php/handler.php > $OUT/odd",
    "php $OUT/odd",
};
static const struct language JAVA = {
    "java",
    "command -v javac && test -f /usr/share/java/postgresql.jar -a -f /usr/share/java/gson.jar",
    "javac -Xlint:all,-serial -Werror -encoding UTF-8 -cp " JARS " -d $OUT $EXAMPLES/java/*.java",
    "java -Dfile.encoding=UTF-8 -cp " JARS ":$OUT Producer",
    "java -cp " JARS ":$OUT Handler",
    "mkdir $OUT/odd && sed 's/return Map.of(\"sent\", to)/return Map.<String, Object>of(\"nan\","
    " Double.NaN, \"long\", \"x\".repeat(3000000), \"plain\", 1).get(to)/'"
    " $EXAMPLES/java/Handler.java"
    " > $OUT/odd/Handler.java && javac -encoding UTF-8 -cp " JARS
    " -d $OUT/odd $OUT/odd/Handler.java",
    "java -cp " JARS ":$OUT/odd Handler",
};

/* The exit status of a shell's words. */
static int shell(struct fixture *fx, const char *script)
{
    char examples[400], out[400];
    (void)snprintf(examples, sizeof examples, "EXAMPLES=%s/examples", repository);
    (void)snprintf(out, sizeof out, "OUT=%s", fx->dir);
    const char *const argv[] = {"sh", "-c", "IFS=; eval \"$0\"", script,
                                NULL}; /* blanks in paths */
    const char *const env[] = {examples, out, "LC_ALL=C.UTF-8", NULL};
    struct process *p = process_spawn(fx, argv, env);
    int status = process_wait(p, BUILD_MS);
    if (status != 0) {
        char *log = file_text(p->log);
        print_message("%s: exit status %d: %s\n", script, status, log);
        free(log);
    }
    return status;
}

static void skip_unless_there(struct fixture *fx, const struct language *l)
{
    if (shell(fx, l->is_there) != 0) {
        skip_missing("%s with its libraries is not there: script/bootstrap --with-languages=%s",
                     l->name, l->name);
    }
}

static int sign_up(struct fixture *fx, const struct language *l, const char *mail)
{
    char script[500];
    (void)snprintf(script, sizeof script, "%s '%s'", l->producer, mail);
    return shell(fx, script);
}

/* In the transaction of its user: a mail that is there already makes no second task. */
static void assert_enqueues(struct fixture *fx, const struct language *l)
{
    assert_int_equal(sign_up(fx, l, "zoë@example.org"), 0);
    assert_int_not_equal(sign_up(fx, l, "zoë@example.org"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.users"), 1);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM tenon.task WHERE kind = 'welcome_mail' AND"
                                  " payload->>'to' = 'zoë@example.org'"),
                     1);
}

static void run_worker(struct fixture *fx, const char *command)
{
    char script[700];
    (void)snprintf(script, sizeof script,
                   "AMQP_URL=none '%s' worker --until-empty --slots 1"
                   " --handler \"welcome_mail=pool:exec %s\"",
                   tenon_program, command);
    assert_int_equal(shell(fx, script), 0);
}

/* Many at once, long lines, other letters than English ones; what can never work is dead, and what
 * the language's library cannot read harms no other. */
static void assert_handles(struct fixture *fx, const struct language *l)
{
    test_sql(
        fx,
        "SELECT tenon.enqueue('welcome_mail', '{}');"
        "SELECT tenon.enqueue('welcome_mail', jsonb_build_object('to', repeat('x', 100000)))"
        " FROM generate_series(1, 20);"
        "SELECT tenon.enqueue('welcome_mail', concat('{\"odd\": ', odd, '}')::jsonb) FROM (VALUES"
        " (repeat('[', 1500) || repeat(']', 1500)), (repeat('[', 11000) || repeat(']', 11000)),"
        " (repeat('9', 5000))) o (odd)");
    run_worker(fx, l->handler);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"
                                      " WHERE result = jsonb_build_object('sent', payload->'to')"),
                     21);
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(last_error LIKE '%%no \"to\"') FROM tenon.dead"));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 4 AND count(last_error) = 4 AND"
                                  " bool_and(last_error NOT LIKE '%%without an answer%%')"
                                  " FROM tenon.tasks WHERE state <> 'done'"));
}

/* A result that is no JSON fails its task, one that is too long is not kept, and no other waits for
 * them: each is answered. */
static void assert_answers_each(struct fixture *fx, const struct language *l)
{
    assert_int_equal(shell(fx, l->odd), 0);
    test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.dead; DELETE FROM tenon.history");
    test_sql(fx,
             "SELECT tenon.enqueue('welcome_mail', jsonb_build_object('to', o), max_attempts => 1)"
             " FROM unnest('{nan,long,plain,plain}'::text[]) o");
    run_worker(fx, l->odd_handler);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 3);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 AND bool_and(payload->>'to' = 'nan' AND"
                                  " last_error NOT LIKE '%%without an answer%%') FROM tenon.dead"));
    assert_true(test_sql_bool(fx, "SELECT octet_length(result::text) < 200 FROM tenon.history"
                                  " WHERE payload->>'to' = 'long'"));
}

static void enqueues_and_handles(struct fixture *fx, const struct language *l)
{
    skip_unless_there(fx, l);
    test_sql(fx, "CREATE TABLE public.users (mail text PRIMARY KEY)");
    assert_int_equal(shell(fx, l->build), 0);
    assert_enqueues(fx, l);
    assert_handles(fx, l);
    assert_answers_each(fx, l);
    print_message("ran: %s: it enqueues and handles\n", l->name);
}

static void test_php(void **state)
{
    enqueues_and_handles(*state, &PHP);
}

static void test_java(void **state)
{
    enqueues_and_handles(*state, &JAVA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_php),
        WITH_DATABASE(test_java),
    };
    return RUN_GROUP(tests);
}
