/* label: sql */
/* The ground that the other tests stand on: databases, virtual hosts, processes, the journal. */
#include "tests/support/broker.h"
#include "tests/support/fixture.h"
#include "tests/support/journal.h"
#include "tests/support/process.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void test_database_is_own_and_has_the_schema(void **state)
{
    struct fixture *fx = *state;
    char *name = test_sql_text(fx, "SELECT current_database()");
    assert_string_equal(name, fx->database);
    free(name);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.tasks"), 0);
    test_sql_fails(fx, "22023", "kind|NULL|1 to 100", "SELECT tenon.enqueue(NULL)");
}

static void test_vhost_is_own_and_empty(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    assert_non_null(b);
    assert_int_equal(broker_depth(b, "default/a"), -1);
    broker_declare(b, "default/a");
    broker_publish(b, "default/a", "17", 2);
    assert_int_equal(broker_depth(b, "default/a"), 1);
    broker_purge(b, "default/a");
    assert_int_equal(broker_depth(b, "default/a"), 0);
    broker_close(b);
}

static void test_await_sees_another_session(void **state)
{
    struct fixture *fx = *state;
    const char *const argv[] = {"psql", fx->database_url, "-c", "SELECT tenon.enqueue('late')",
                                NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    test_await(fx, 10000, "SELECT count(*) = 1, count(*) FROM tenon.ready");
    assert_int_equal(process_wait(p, 10000), 0);
}

static void test_process_lines_and_ends(void **state)
{
    struct fixture *fx = *state;
    const char *const argv[] = {"sh", "-c", "echo event=up x=$X >&2; sleep 60", NULL};
    const char *const env[] = {"X=17", NULL};
    struct process *p = process_spawn(fx, argv, env);
    process_await_line(p, "event=up x=17", 10000);
    assert_false(process_is_gone(p));
    process_kill(p);
    assert_int_equal(p->status, 128 + SIGKILL);
}

static void test_orphans_are_found_at_the_end(void **state)
{
    struct fixture *fx = *state;
    const char *const argv[] = {"sh", "-c", "setsid sleep 60 & echo orphan=$! >&2", NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    assert_int_equal(process_wait(p, 10000), 0);
    char *log = file_text(p->log);
    pid_t orphan = (pid_t)strtol(strchr(log, '=') + 1, NULL, 10);
    free(log);
    assert_int_equal(kill(orphan, 0), 0);
    processes_end(fx);
    assert_int_not_equal(kill(orphan, 0), 0);
}

static void test_journal(void **state)
{
    struct fixture *fx = *state;
    char script[256];
    handler_path("journal.sh", script, sizeof script);
    const char *const env[] = {"TENON_TASK_ID=7", "TENON_TASK_CLAIM=x/1", NULL};
    const char *const slow[] = {script, "sleep", "60", NULL};
    const char *const die[] = {script, "die", "KILL", NULL};
    const char *const code[] = {script, "exit", "75", NULL};
    assert_int_equal(process_wait(process_spawn(fx, code, env), 10000), 75);
    assert_int_equal(process_wait(process_spawn(fx, die, env), 10000), 128 + SIGKILL);
    (void)process_spawn(fx, slow, env);
    journal_await_started(fx, 3, 10000);
    journal_await_ended(fx, 1, 10000);
    struct journal j;
    journal_read(fx, &j);
    assert_int_equal(journal_runs(&j, 7), 3);
    assert_int_equal(journal_ended(&j, 7), 1);
    assert_int_equal(journal_tasks(&j), 1);
    assert_int_equal(journal_overlaps(&j), 0);
    journal_clear(&j);
}

static void test_journal_overlaps(void **state)
{
    struct fixture *fx = *state;
    FILE *file = fopen(fx->journal, "w");
    fputs("1 1 10 start 100\n2 1 11 start 110\n1 2 12 start 150\n1 1 10 end 200\n1 2 12 end 250\n"
          "2 1 11 end 300\n2 2 10 start 300\n2 2 10 end 400\n",
          file);
    fclose(file);
    struct journal j;
    journal_read(fx, &j);
    assert_int_equal(journal_overlaps(&j), 1);
    assert_int_equal(journal_most_at_once(&j, 0), 3);
    assert_int_equal(journal_most_at_once(&j, 10), 1);
    journal_clear(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_database_is_own_and_has_the_schema),
        WITH_SERVERS(test_vhost_is_own_and_empty),
        WITH_DATABASE(test_await_sees_another_session),
        WITH_DATABASE(test_process_lines_and_ends),
        WITH_DATABASE(test_orphans_are_found_at_the_end),
        WITH_DATABASE(test_journal),
        WITH_DATABASE(test_journal_overlaps),
    };
    return RUN_GROUP(tests);
}
