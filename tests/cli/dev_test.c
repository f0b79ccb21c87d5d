/* label: e2e */
/* timeout: 180 */
/* only: all */
/* `tenon dev`: one command that runs all of it, and again what has changed. */
#include "tests/support/test.h"
#include "tests/support/working.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file in the directory of the test. */
static const char *path_of(struct fixture *fx, const char *name, char ret[400])
{
    (void)snprintf(ret, 400, "%s/%s", fx->dir, name);
    return ret;
}

static void write_script(struct fixture *fx, const char *name, const char *format, const char *word)
{
    char text[800], path[400];
    (void)snprintf(text, sizeof text, format, word);
    file_write(path_of(fx, name, path), text);
    assert_int_equal(chmod(path, 0755), 0);
}

static void write_handlers(struct fixture *fx, const char *mode)
{
    char text[600], path[400];
    (void)snprintf(text, sizeof text,
                   "handler \"a\" {\n command = {\"./work.sh\"}\n directory = \"%s\"\n"
                   " mode = \"%s\"\n}\n",
                   fx->dir, mode);
    file_write(path_of(fx, "handlers.conf", path), text);
}

static const char says_word[] = "#!/bin/sh\necho \"this is %1$s\" >&2\necho '\"%1$s\"'\n";

/* Wait until it has printed this; it is told by its end, too. */
static void await_out(struct fixture *fx, struct process *p, const char *text)
{
    bool is = false;
    for (int64_t i = 0; !is; i++) {
        bool gone = process_is_gone(p);
        char *out = file_text(p->out);
        is = strstr(out, text) != NULL;
        if (!is && (gone || i > LIMIT_MS * PATIENCE / 10)) {
            fail_msg("\"%s\" is not in: %s", text, out);
        }
        free(out);
        test_sql(fx, "SELECT pg_sleep(0.01)");
    }
}

static void await_worker(struct fixture *fx, int n)
{
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = %d AND count(*) FILTER (WHERE state = 'alive') = 1, count(*)"
               " FROM tenon.worker",
               n);
}

static void run_task(struct fixture *fx, const char *result)
{
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a')");
    test_await(fx, LIMIT_MS,
               "SELECT result = '\"%s\"', * FROM tenon.tasks WHERE id = %lld AND state = 'done'",
               result, (long long)id);
}

/* Neither a process nor a session of it is there. */
static void assert_nothing_is_left(struct fixture *fx)
{
    char pids[200],
        *text = test_sql_text(fx, "SELECT string_agg(pid::text, ' ') FROM tenon.worker");
    (void)snprintf(pids, sizeof pids, "%s", text);
    free(text);
    for (char *at = pids, *word = strsep(&at, " "); word; word = strsep(&at, " ")) {
        assert_true(kill((pid_t)strtol(word, NULL, 10), 0) != 0 && errno == ESRCH);
    }
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname ="
               " current_database() AND pid <> pg_backend_pid()");
}

static void test_new_code_runs_the_next_task(void **state)
{
    struct fixture *fx = *state;
    char path[400];
    write_script(fx, "work.sh", says_word, "one");
    write_handlers(fx, "exec");
    struct process *p = TENON(fx, "dev", "--handlers", path_of(fx, "handlers.conf", path));
    await_worker(fx, 1);
    run_task(fx, "one");
    await_out(fx, p, "handler  | 1: this is one\n");
    await_out(fx, p, "event=task_done");
    write_script(fx, "work.sh", says_word, "second");
    await_worker(fx, 2);
    run_task(fx, "second");
    write_handlers(fx, "nonsense");
    await_out(fx, p, "mode \"nonsense\"");
    await_out(fx, p,
              "dev      | the worker ended with exit code 2; it restarts when a file changes");
    write_handlers(fx, "exec");
    await_worker(fx, 3);
    run_task(fx, "second");
    write_script(fx, "work.sh", "#!/bin/sh\necho 'no %s' >&2\nexit 3\n", "luck");
    await_worker(fx, 4);
    (void)test_sql_int(fx, "SELECT tenon.enqueue('a')");
    await_out(fx, p, "handler  | 4: no luck\n");
    await_out(fx, p, "worker   | event=task_failed");
    process_signal(p, SIGINT);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_nothing_is_left(fx);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker WHERE state = 'left'"), 4);
    char *out = file_text(p->out);
    assert_null(strchr(out, '\033'));
    free(out);
}

/* A pseudo terminal, and what was printed on it. */
struct terminal {
    int fd;
    char name[100], text[65536];
    size_t bytes;
};

static void terminal_open(struct terminal *t)
{
    *t = (struct terminal){.fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)};
    assert_true(t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0);
    assert_int_equal(ptsname_r(t->fd, t->name, sizeof t->name), 0);
}

/* Read until it has printed this. */
static void terminal_await(struct terminal *t, struct process *p, const char *text)
{
    for (int64_t i = 0; !strstr(t->text, text); i++) {
        struct pollfd p_fd = {.fd = t->fd, .events = POLLIN};
        if (process_is_gone(p) || i > LIMIT_MS * PATIENCE / 10) {
            fail_msg("\"%s\" is not in: %s", text, t->text);
        }
        (void)poll(&p_fd, 1, 10);
        ssize_t n = read(t->fd, t->text + t->bytes, sizeof t->text - 1 - t->bytes);
        t->bytes += n > 0 ? (size_t)n : 0;
    }
}

/* `tenon dev` with that as its stdout, one task, and its end. */
static void run_on_terminal(struct fixture *fx, struct terminal *t, const char *variable)
{
    char command[600];
    terminal_open(t);
    (void)snprintf(command, sizeof command,
                   "exec '%s' dev --handler 'a=echo this is it >&2; exit 3' >%s", tenon_program,
                   t->name);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL},
                                      (const char *const[]){variable, NULL});
    await_worker(fx, 1);
    (void)test_sql_int(fx, "SELECT tenon.enqueue('a')");
    terminal_await(t, p, "this is it");
    terminal_await(t, p, "event=task_failed");
    terminal_await(t, p, "event=cleaner_started");
    process_signal(p, SIGINT);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    (void)close(t->fd);
    test_sql(fx, "DELETE FROM tenon.worker; DELETE FROM tenon.task");
}

static void test_colours_on_a_terminal(void **state)
{
    static struct terminal t;
    run_on_terminal(*state, &t, "NO_COLOR");
    assert_contains(t.text, "\033[34msetup    |\033[0m ");
    assert_contains(t.text, "\033[36mcleaner  |\033[0m event=");
    assert_contains(t.text, "\033[32mworker   |\033[0m event=");
    assert_contains(t.text, "\033[33mhandler  |\033[0m 1: this is it");
    run_on_terminal(*state, &t, "NO_COLOR=1");
    assert_null(strchr(t.text, '\033'));
    assert_contains(t.text, "handler  | 2: this is it");
}

/* A folder that is named, and a handler that stays: what is in flight ends before the new one. */
static void test_a_folder_is_watched(void **state)
{
    struct fixture *fx = *state;
    char folder[400], file[400], handler[700], pool[256];
    handler_path("pool", pool, sizeof pool);
    assert_int_equal(mkdir(path_of(fx, "app", folder), 0755), 0);
    (void)snprintf(handler, sizeof handler, "a=pool:exec '%s'", pool);
    struct process *p = TENON(fx, "dev", "--handler", handler, folder);
    await_worker(fx, 1);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 1500}')");
    journal_await_started(fx, 1, LIMIT_MS);
    file_write(path_of(fx, "app/new.py", file), "print(1)\n");
    await_out(fx, p, "app/new.py: the worker finishes its tasks and restarts");
    await_worker(fx, 2);
    assert_true(test_sql_bool(fx,
                              "SELECT state = 'done' AND claims = 1 FROM tenon.tasks"
                              " WHERE id = %lld",
                              (long long)id));
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_nothing_is_left(fx);
}

/* --- servers of its own --- */

/* `tenon dev` in an empty folder, where nothing says which servers to use. `without`: a shell
 * command that hides installed programs from it. */
static struct process *dev_alone(struct fixture *fx, const char *without)
{
    char command[1000];
    (void)snprintf(command, sizeof command,
                   "%s mkdir -p '%s/app' && cd '%s/app' && exec '%s' dev --handler 'a=cat'",
                   without, fx->dir, fx->dir, tenon_program);
    const char *const argv[] = {"unshare", "--mount", "sh", "-c", command, NULL};
    return process_spawn(fx, *without ? argv : argv + 2,
                         (const char *const[]){"DATABASE_URL", "AMQP_URL", NULL});
}

/* A shell command in another terminal; its output, free() */
static char *in_app(struct fixture *fx, int code, const char *command)
{
    char text[1000];
    (void)snprintf(text, sizeof text, "cd '%s/app' && . .tenon/env && tenon='%s' && %s", fx->dir,
                   tenon_program, command);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", text, NULL},
                                      (const char *const[]){"DATABASE_URL", "AMQP_URL", NULL});
    assert_int_equal(process_wait(p, LIMIT_MS), code);
    return file_text(p->out);
}

static const char services[] = "bash -p .tenon/services --dir .tenon ";

/* Neither of its servers runs any more, and its folder is removed. */
static void assert_servers_are_gone(struct fixture *fx)
{
    char command[200];
    (void)snprintf(command, sizeof command, "%s status", services);
    char *out = in_app(fx, 3, command);
    assert_contains(out, "postgres is not running\n");
    assert_contains(out, "rabbitmq is not running\n");
    free(out);
    (void)snprintf(command, sizeof command, "%s wipe", services);
    free(in_app(fx, 0, command));
}

static void end_dev(struct process *p)
{
    process_signal(p, SIGINT);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

static void test_servers_of_its_own(void **state)
{
    struct fixture *fx = *state;
    struct process *first = dev_alone(fx, "");
    await_out(fx, first, "dev      | in other terminals: . .tenon/env\n");
    await_out(fx, first, "rabbitmq runs on 127.0.0.1:");
    await_out(fx, first, "event=worker_ready");
    char *out = in_app(fx, 0, "$tenon enqueue a '\"one\"' && $tenon wait 1 && echo $AMQP_URL");
    assert_contains(out, "\"one\"");
    assert_contains(out, "amqp://tenon:");
    free(out);
    struct process *second = dev_alone(fx, "");
    assert_int_equal(process_wait(second, LIMIT_MS), 2);
    out = file_text(second->out);
    assert_contains(out, "another tenon dev runs in this folder");
    free(out);
    /* what a killed one leaves, the next one takes over; the data stays */
    process_kill(first);
    first = dev_alone(fx, "");
    await_out(fx, first, "postgres is already running");
    await_out(fx, first, "event=worker_ready");
    out = in_app(fx, 0, "$tenon show 1");
    assert_contains(out, "done");
    free(out);
    end_dev(first);
    assert_servers_are_gone(fx);
}

static bool hides(const char *program)
{
    char command[200];
    (void)snprintf(command, sizeof command, "unshare --mount mount -t tmpfs none /usr/lib/%s 2>&1",
                   program);
    return getuid() == 0 && system(command) == 0;
}

static void test_without_rabbitmq(void **state)
{
    struct fixture *fx = *state;
    if (!hides("rabbitmq")) {
        skip_missing("tenon dev without RabbitMQ: only root can hide what is installed");
    }
    struct process *p = dev_alone(fx, "mount -t tmpfs none /usr/lib/rabbitmq &&");
    await_out(fx, p, "RabbitMQ is not installed (Debian, Ubuntu: apt install rabbitmq-server)");
    await_out(fx, p, "event=worker_ready");
    char *out = in_app(fx, 0, "$tenon enqueue a 2 && $tenon wait 1 && echo $AMQP_URL");
    assert_contains(out, "none\n");
    free(out);
    end_dev(p);
    assert_servers_are_gone(fx);
}

static void test_without_postgresql(void **state)
{
    struct fixture *fx = *state;
    if (!hides("postgresql")) {
        skip_missing("tenon dev without PostgreSQL: only root can hide what is installed");
    }
    struct process *p = dev_alone(fx, "mount -t tmpfs none /usr/lib/postgresql &&");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *out = file_text(p->out);
    assert_contains(out, "no PostgreSQL server is installed; set DATABASE_URL, or install one"
                         " (Debian, Ubuntu: apt install postgresql)");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_new_code_runs_the_next_task), WITH_DATABASE(test_colours_on_a_terminal),
        WITH_DATABASE(test_a_folder_is_watched),        WITH_DATABASE(test_servers_of_its_own),
        WITH_DATABASE(test_without_rabbitmq),           WITH_DATABASE(test_without_postgresql),
    };
    return RUN_GROUP(tests);
}
