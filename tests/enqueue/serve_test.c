/* label: e2e */
/* only: all */
/* tenon_serve() under a worker: handlers in C, in threads; the example, against an installed
 * tenon. */
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char kinds[] = "echo,garbage,fail,dead,snooze,odd,crash,stopped,meet,prints,unknown";

static struct process *start(struct fixture *fx, const char *threads)
{
    char path[192], file[300];
    handler_path("serve", path, sizeof path);
    (void)snprintf(file, sizeof file, "%s/handlers.conf", fx->dir);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    (void)fprintf(out, "handler \"%s\" {\n command = {\"%s\", \"%s\"}\n mode = \"pool\"\n}\n",
                  kinds, path, threads);
    assert_int_equal(fclose(out), 0);
    return TENON(fx, "worker", "--slots", "1", "--handlers", file);
}

static int64_t enqueue(struct fixture *fx, const char *kind, const char *payload)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s', '%s', timeout => '30 s')", kind, payload);
}

static void await(struct fixture *fx, int64_t id, const char *what)
{
    test_await(fx, LIMIT_MS, "SELECT %s, t.* FROM tenon.tasks t WHERE id = %lld", what,
               (long long)id);
}

static void test_outcomes(void **state)
{
    static const struct {
        const char *kind, *what;
    } cases[] = {
        {"echo", "state = 'done' AND result = '[12345678901234567890.125]'"},
        {"garbage", "state = 'done' AND result #>> '{}' LIKE 'tenon: the result was not kept%%'"},
        {"fail", "state = 'retrying' AND last_error = 'fail' AND error_class = 'a_class'"
                 " AND run_at - now() BETWEEN '2900 s' AND '3000 s'"},
        {"dead", "state = 'dead' AND last_error = 'it never works'"},
        {"snooze", "state = 'scheduled' AND failures = 0"
                   " AND run_at - now() BETWEEN '2900 s' AND '3000 s'"},
        {"odd", "state = 'retrying'"},
        {"prints", "state = 'done' AND result IS NULL"},
        {"unknown", "state = 'retrying' AND last_error LIKE '%%no handler for this kind'"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct fixture *fx = *state;
    int64_t ids[N];
    struct process *p = start(fx, "1");
    for (size_t i = 0; i < N; i++) {
        ids[i] = enqueue(fx, cases[i].kind, "[12345678901234567890.125]");
    }
    for (size_t i = 0; i < N; i++) {
        await(fx, ids[i], cases[i].what);
    }
    end_well(p);
}

static void test_threads(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "4");
    for (int i = 0; i < 4; i++) {
        (void)enqueue(fx, "meet", "1");
    }
    await_done(fx, 4);
    end_well(p);
}

/* What runs beside it does not fail; the task has failed, or, if it was not alone, crashed. */
static void test_a_crash_costs_one_child(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_kind('crash', retry => 'constant(1 ms)')");
    int64_t crash = enqueue(fx, "crash", "1");
    int64_t echo = enqueue(fx, "echo", "2");
    struct process *p = start(fx, "2");
    (void)TENON(fx, "cleaner");
    await(fx, echo, "state = 'done'");
    await(fx, crash, "state = 'done' AND failures + crashes = 1");
    end_well(p);
}

/* Cancelled, it lets go; at a drain it goes back with its progress, and ends elsewhere. */
static void test_stop(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "1");
    int64_t id = enqueue(fx, "stopped", "1");
    test_await(fx, LIMIT_MS, "SELECT progress = '{\"n\": 7}' FROM tenon.task");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    await(fx, enqueue(fx, "echo", "2"), "state = 'done'"); /* by the one thread */
    id = enqueue(fx, "stopped", "1");
    await(fx, id, "state = 'running' AND progress IS NOT NULL");
    end_well(p);
    await(fx, id, "state = 'ready' AND failures = 0");
    p = start(fx, "1");
    await(fx, id, "state = 'done' AND result = '{\"n\": 7}'");
    end_well(p);
}

/* No task is charged, and the log says why. */
static void test_it_does_not_start(void **state)
{
    struct fixture *fx = *state;
    (void)enqueue(fx, "echo", "1");
    struct process *p = start(fx, "257");
    process_await_line(p, "tenon_serve: 257 threads; allowed are 1 to 256", LIMIT_MS);
    process_kill(p);
    assert_int_equal(test_sql_int(fx, "SELECT failures FROM tenon.task"), 0);
}

/* Without a worker: the end of stdin, and a line that no worker says. */
static void test_by_hand(void **state)
{
    static const struct {
        const char *in, *says;
        int status;
    } cases[] = {
        {"", "{\"hello\":\"tenon\",\"in_flight\":2,\"stop\":true}\n", 0},
        {"{\"id\":1}\n", "tenon_serve: not a line of a worker: {\"id\":1}", 1},
        {"{\"id\":7,\"kind\":\"echo\",\"queue\":\"q\",\"claim\":\"7/1/0\",\"attempt\":1,"
         "\"failures\":0,\"max_attempts\":25,\"timeout_ms\":1000,\"payload\":[1],"
         "\"progress\":null}\n",
         "{\"id\":7,\"outcome\":\"done\",\"result\":[1]}\n", 0},
    };
    struct fixture *fx = *state;
    char path[192], command[700];
    handler_path("serve", path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(command, sizeof command, "printf '%%s' '%s' | '%s' 2", cases[i].in, path);
        struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL},
                                          NULL);
        assert_int_equal(process_wait(p, LIMIT_MS), cases[i].status);
        char *out = file_text(p->out), *log = file_text(p->log);
        if (!strstr(out, cases[i].says) && !strstr(log, cases[i].says)) {
            fail_msg("it says\n%s%s, not\n%s", out, log, cases[i].says);
        }
        free(out);
        free(log);
    }
}

/* Against what "cmake --install" puts somewhere, by its own CMake file. */
static void test_the_example_builds_alone(void **state)
{
    static const char script[] =
        "set -e\n"
        "cmake --install \"$1\" --prefix \"$0/prefix\"\n"
        "export PKG_CONFIG_PATH=$(dirname \"$(find \"$0/prefix\" -name tenon.pc)\")\n"
        "cc \"$2/examples/countdown.c\" $3 $(pkg-config --cflags --libs tenon)"
        " -o \"$0/countdown\"\n"
        "export LD_LIBRARY_PATH=$(dirname \"$PKG_CONFIG_PATH\")\n"
        "echo '{\"items\": 3}' | \"$0/prefix/bin/tenon\" worker --handler"
        " \"countdown=pool:exec $0/countdown\" --run-one countdown -\n";
    struct fixture *fx = *state;
    char built[300];
    (void)snprintf(built, sizeof built, "%s", tenon_program);
    *strrchr(built, '/') = '\0';
    const char *const argv[] = {"sh",
                                "-c",
                                script,
                                fx->dir,
                                built,
                                repository,
#ifdef __SANITIZE_ADDRESS__
                                "-fsanitize=address,undefined",
#else
                                "",
#endif
                                NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    int status = process_wait(p, 2 * LIMIT_MS);
    char *out = file_text(p->out), *log = file_text(p->log);
    if (status != 0) {
        fail_msg("%s%s", out, log);
    }
    if (!strstr(out, "\"done\": 3")) {
        fail_msg("%s%s", out, log);
    }
    free(out);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_outcomes),
        WITH_DATABASE(test_threads),
        WITH_SERVERS(test_a_crash_costs_one_child),
        WITH_DATABASE(test_stop),
        WITH_DATABASE(test_it_does_not_start),
        WITH_DATABASE(test_by_hand),
        WITH_DATABASE(test_the_example_builds_alone),
    };
    return RUN_GROUP(tests);
}
