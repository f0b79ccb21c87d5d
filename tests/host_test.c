/* label: e2e */
/* only: all */
/* tenon-host under a worker: handlers of a shared object, in threads; the example builds alone. */
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct process *start(struct fixture *fx, const char *plugin, const char *options,
                             const char *env)
{
    static const char kinds[] = "echo,garbage,fail,dead,snooze,odd,crash,stopped,meet,unknown";
    char path[192], file[300];
    handler_path("pool", path, sizeof path); /* the plugins lie beside it */
    *strrchr(path, '/') = '\0';
    (void)snprintf(file, sizeof file, "%s/handlers.conf", fx->dir);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    (void)fprintf(out,
                  "handler \"%s\" {\n    mode = \"pool\"\n"
                  "    command = {\"%s-host\", \"%s/%s.so\"%s}\n}\n",
                  kinds, tenon_program, path, plugin, options);
    assert_int_equal(fclose(out), 0);
    return tenon_spawn(fx,
                       (const char *const[]){"worker", "--slots", "1", "--handlers", file, NULL},
                       (const char *const[]){env, NULL});
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
        {"unknown", "state = 'retrying' AND last_error LIKE '%%no handler for this kind'"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct fixture *fx = *state;
    int64_t ids[N];
    struct process *p = start(fx, "plugin", "", NULL);
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
    struct process *p = start(fx, "plugin", ", \"--threads\", \"4\"", NULL);
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
    struct process *p = start(fx, "plugin", ", \"--threads\", \"2\"", NULL);
    (void)TENON(fx, "cleaner");
    await(fx, echo, "state = 'done'");
    await(fx, crash, "state = 'done' AND failures + crashes = 1");
    end_well(p);
}

/* Cancelled, it lets go; at a drain it goes back with its progress, and ends elsewhere. */
static void test_stop(void **state)
{
    struct fixture *fx = *state;
    struct process *p = start(fx, "plugin", "", NULL);
    int64_t id = enqueue(fx, "stopped", "1");
    test_await(fx, LIMIT_MS, "SELECT progress = '{\"n\": 7}' FROM tenon.task");
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    await(fx, enqueue(fx, "echo", "2"), "state = 'done'"); /* by the one thread */
    id = enqueue(fx, "stopped", "1");
    await(fx, id, "state = 'running' AND progress IS NOT NULL");
    end_well(p);
    await(fx, id, "state = 'ready' AND failures = 0");
    p = start(fx, "plugin", "", NULL);
    await(fx, id, "state = 'done' AND result = '{\"n\": 7}'");
    end_well(p);
}

static void test_it_does_not_start(void **state)
{
    static const struct {
        const char *plugin, *options, *env, *why;
    } cases[] = {
        {"plugin_newer", "", NULL,
         "was built with version 2 of tenon/handler.h, this is version 1"},
        {"nowhere", "", NULL, "could not load the plugin"},
        {"plugin", "", "TEST_PLUGIN_FAILS=1", "could not start: it returned 7"},
        {"plugin", ", \"--threads\", \"257\"", NULL, "--threads is not a number from 1 to 256"},
        {"plugin", ", \"x\"", NULL, "name one plugin"},
    };
    struct fixture *fx = *state;
    (void)enqueue(fx, "echo", "1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = start(fx, cases[i].plugin, cases[i].options, cases[i].env);
        process_await_line(p, cases[i].why, LIMIT_MS);
        process_kill(p);
    }
    assert_int_equal(test_sql_int(fx, "SELECT failures FROM tenon.task"), 0);
}

/* Against what "cmake --install" puts somewhere, by its own CMake file. */
static void test_the_example_builds_alone(void **state)
{
    static const char script[] =
        "set -e\n"
        "cmake --install \"$1\" --prefix \"$0/prefix\"\n"
        "export PKG_CONFIG_PATH=$(dirname \"$(find \"$0/prefix\" -name tenon-handler.pc)\")\n"
        "cmake -S \"$2/examples/plugin\" -B \"$0/build\"\n"
        "cmake --build \"$0/build\"\n"
        "echo '{\"items\": 3}' | \"$0/prefix/bin/tenon\" worker --handler"
        " \"countdown=pool:exec $0/prefix/bin/tenon-host $0/build/plugin.so\""
        " --run-one countdown -\n";
    struct fixture *fx = *state;
    char built[300];
    (void)snprintf(built, sizeof built, "%s", tenon_program);
    *strrchr(built, '/') = '\0';
    const char *const argv[] = {"sh", "-c", script, fx->dir, built, repository, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    int status = process_wait(p, 2 * LIMIT_MS);
    char *out = file_text(p->out), *log = file_text(p->log);
    if (status != 0) {
        fail_msg("%s%s", out, log);
    }
    assert_contains(out, "\"done\": 3");
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
        WITH_DATABASE(test_the_example_builds_alone),
    };
    return RUN_GROUP(tests);
}
