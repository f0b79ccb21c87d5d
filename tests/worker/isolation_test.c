/* label: e2e */
/* What the handlers file says of a handler's process: its user, its limits, its environment, and
 * when it is replaced. */
#include "tests/support/working.h"

#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A handlers file with this text. */
static char *file_with(struct fixture *fx, char path[256], const char *text)
{
    (void)snprintf(path, 256, "%s/handlers.conf", fx->dir);
    file_write(path, text);
    return path;
}

/* What a shell handler with this line in its section prints of this command. */
static char *prints(struct fixture *fx, const char *line, const char *command)
{
    char text[1024], path[256];
    (void)snprintf(text, sizeof text, "handler a {\n command = {\"sh\", \"-c\", '%s'}\n %s\n}\n",
                   command, line);
    test_sql(fx, "TRUNCATE tenon.history; SELECT tenon.enqueue('a')");
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--handlers",
                   file_with(fx, path, text)));
    return test_sql_text(fx, "SELECT rtrim(result #>> '{}', E'\\n') FROM tenon.history");
}

static void assert_prints(struct fixture *fx, const char *line, const char *command,
                          const char *want)
{
    char *got = prints(fx, line, command);
    if (!got || strcmp(got, want) != 0) {
        fail_msg("%s: \"%s\", not \"%s\"", line, got ? got : "nothing", want);
    }
    free(got);
}

static void test_limits(void **state)
{
    struct fixture *fx = *state;
    assert_prints(fx, "files = 50", "ulimit -n", "50");
    assert_prints(fx, "cpu_s = 7", "ulimit -t", "7");
    assert_prints(fx, "memory_mib = 300", "ulimit -d", "307200");
    assert_prints(fx, "processes = 900",
                  "grep \"^Max processes\" /proc/self/limits | tr -s \" \" |"
                  " cut -d\" \" -f3",
                  "900");
    assert_prints(fx, "no_new_privs = true", "grep NoNewPrivs /proc/self/status | tr -d \"\\t\"",
                  "NoNewPrivs:1");
}

static void test_environment(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(setenv("SECRET", "word", 1), 0);
    assert_prints(fx, "only_env = {PATH}", "echo ${SECRET-no} ${PATH:+path}", "no path");
    assert_prints(fx, "", "echo ${SECRET-no} ${PATH:+path}", "word path");
    (void)unsetenv("SECRET");
}

/* Of the process that writes its number there. */
static int pidfd_of(const char *fifo)
{
    int pid = 0;
    FILE *file = fopen(fifo, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    (void)fclose(file);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(fd >= 0);
    return fd;
}

/* It has that user's groups and no others, and dies with its worker all the same. */
static void test_another_user(void **state)
{
    struct fixture *fx = *state;
    if (geteuid() != 0) {
        skip_missing("handlers of another user: run script/test as root");
    }
    char want[64];
    const struct passwd *nobody = getpwnam("nobody");
    assert_non_null(nobody);
    (void)snprintf(want, sizeof want, "%d %d %d", (int)nobody->pw_uid, (int)nobody->pw_gid,
                   (int)nobody->pw_gid);
    assert_prints(fx, "user = nobody", "echo $(id -u) $(id -g) $(id -G)", want);
    char home[256];
    (void)snprintf(home, sizeof home, "nobody nobody %s %s", nobody->pw_dir, nobody->pw_shell);
    static const char print[] = "echo ${USER-no} ${LOGNAME-no} ${HOME-no} ${SHELL-no}";
    assert_prints(fx, "user = nobody", print, home);
    (void)setenv("SHELL", "/bin/bash", 1);
    (void)setenv("HOME", "/root", 1);
    assert_prints(fx, "user = nobody", print, home);
    assert_prints(fx, "user = nobody\n only_env = {PATH}", print, "no no no no");
    (void)snprintf(home, sizeof home, "no no %s no", nobody->pw_dir);
    assert_prints(fx, "user = nobody\n only_env = {PATH, HOME}", print, home);
    assert_prints(fx, "user = nobody\n only_env = {PATH}\n pass_env = {HOME}", print, home);

    char path[256], fifo[256], text[1024];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", fx->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(chmod(fifo, 0666) | chmod(fx->dir, 0711), 0);
    (void)snprintf(text, sizeof text,
                   "handler a {\n command = {\"sh\", \"-c\", 'echo $$ >%s; exec sleep 1000'}\n"
                   " user = nobody\n}\n",
                   fifo);
    struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--handlers",
                              file_with(fx, path, text));
    test_sql(fx, "SELECT tenon.enqueue('a')");
    struct pollfd end = {.fd = pidfd_of(fifo), .events = POLLIN};
    process_signal(p, SIGKILL);
    assert_int_equal(poll(&end, 1, LIMIT_MS * PATIENCE), 1);
    (void)close(end.fd);
}

/* A worker of root says which handlers run as root, unless somebody has said that they shall. */
static void test_root_is_said(void **state)
{
    struct fixture *fx = *state;
    if (geteuid() != 0) {
        skip_missing("a worker of root: run script/test as root");
    }
    static const struct {
        const char *text, *option;
        size_t says;
    } workers[] = {
        {"handler a { command = sh }\nhandler b { command = sh user = nobody }", "--stderr=no", 1},
        {"handler a { command = sh user = root }\nhandler b { command = sh user = nobody }",
         "--stderr=no", 0},
        {"handler a { command = sh }\nhandler b { command = sh user = nobody }", "--user=nobody",
         0},
    };
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        char path[256];
        struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--until-empty",
                                  workers[i].option, "--handlers",
                                  file_with(fx, path, workers[i].text));
        assert_int_equal(process_wait(p, LIMIT_MS), 0);
        assert_int_equal(process_lines(p, "event=handlers_run_as_root kinds=a "), workers[i].says);
        assert_int_equal(process_lines(p, "event=handlers_run_as_root"), workers[i].says);
    }
    test_sql(fx, "TRUNCATE tenon.history; SELECT tenon.enqueue('a')");
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--until-empty", "--user", "nobody",
                   "--handler", "a=id -un"));
    char *who = test_sql_text(fx, "SELECT result #>> '{}' FROM tenon.history");
    assert_string_equal(who, "nobody");
    free(who);
    struct process *p = TENON(fx, "worker", "--user", "no-such-user", "--handler", "a=id");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    assert_int_equal(process_lines(p, "--user: there is no user no-such-user"), 1);
}

/* After so many answers, or with so much memory, a child is replaced; its tasks notice nothing. */
static const char answers_pid[] =
    "import json, os, sys\n"
    "held = []\n"
    "print(json.dumps({\"hello\": \"tenon\", \"in_flight\": 3}), flush=True)\n"
    "for line in sys.stdin:\n"
    "    task = json.loads(line)\n"
    "    held.append(bytearray(task[\"payload\"][\"mib\"] << 20))\n"
    "    print(json.dumps({\"id\": task[\"id\"], \"outcome\": \"done\","
    " \"result\": os.getpid()}), flush=True)\n";

static void drain_with(struct fixture *fx, const char *line, int mib)
{
    char path[256], program[256], text[1024];
    (void)snprintf(program, sizeof program, "%s/handler.py", fx->dir);
    file_write(program, answers_pid);
    (void)snprintf(text, sizeof text,
                   "handler a {\n command = {\"python3\", \"%s\"}\n mode = pool\n %s\n}\n", program,
                   line);
    test_sql(fx, "TRUNCATE tenon.history");
    test_sql(fx, "SELECT tenon.enqueue('a', '{\"mib\": %d}') FROM generate_series(1, 20)", mib);
    free(TENON_RUN(fx, 0, "worker", "--amqp-url", "none", "--slots", "1", "--until-empty",
                   "--handlers", file_with(fx, path, text)));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 20 AND sum(failures + crashes) = 0 AND"
                                  " max(claims) = 1 FROM tenon.history"));
}

static void test_a_child_is_replaced(void **state)
{
    struct fixture *fx = *state;
    static const char pids[] = "SELECT count(DISTINCT result) FROM tenon.history";
    drain_with(fx, "", 0);
    assert_int_equal(test_sql_int(fx, "%s", pids), 1);
    drain_with(fx, "tasks_max = 5", 0);
    assert_in_range(test_sql_int(fx, "%s", pids), 3, 4); /* it may have three more by then */
    drain_with(fx, "rss_mib_max = 200", 0);
    assert_int_equal(test_sql_int(fx, "%s", pids), 1);
    drain_with(fx, "rss_mib_max = 200", 40);
    assert_int_equal(test_sql_int(fx, "%s", pids), 2); /* memory is looked at every 16 answers */
}

static void test_what_is_not_allowed(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"handler a { command = {\"sh\"} user = nosuchuser }", "no user nosuchuser"},
               {"handler a { command = {\"sh\"} files = -1 }", "files -1 is not allowed"},
               {"handler a { command = {\"sh\"} tasks_max = many }", "tasks_max"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[256];
        struct process *p = TENON(fx, "worker", "--amqp-url", "none", "--handlers",
                                  file_with(fx, path, bad[i].text));
        assert_int_equal(process_wait(p, LIMIT_MS), 2);
        char *log = file_text(p->log);
        assert_contains(log, bad[i].says);
        free(log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_limits),
        WITH_DATABASE(test_environment),
        WITH_DATABASE(test_another_user),
        WITH_DATABASE(test_root_is_said),
        WITH_DATABASE(test_a_child_is_replaced),
        WITH_DATABASE(test_what_is_not_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
