/* label: e2e */
/* timeout: 240 */
/* tenon as the first process of a container: it reaps what is left to it, hears signals;
 * its exit code is the program's. */
#include "core/base/now.h"
#include "tests/support/working.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TASKS = 50, POLL_MS = 10 };

/* "unshare ... tenon ARGUMENTS": it is PID 1 in there. */
static struct process *first_process(struct fixture *fx, const char *const *arguments)
{
    const char *argv[32] = {"unshare",      "--pid",        "--fork",
                            "--mount-proc", "--kill-child", tenon_program};
    for (size_t i = 0; arguments[i]; i++) {
        argv[6 + i] = arguments[i];
        argv[7 + i] = NULL;
    }
    if (system("unshare --pid --fork --mount-proc --kill-child true 2>/dev/null") != 0) {
        skip_missing("no PID namespace can be made here: run script/test as root");
    }
    return process_spawn(fx, argv, NULL);
}

/* The letter that says what a process does, 'Z' for a zombie, and its parent. */
static char state_of(int pid, int *ret_parent)
{
    char path[64], state = '-';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%*d (%*[^)]) %c %d", &state, ret_parent) != 2) {
        state = '-';
    }
    if (file) {
        (void)fclose(file);
    }
    return state;
}

static bool is_below(int pid, int top)
{
    int parent = 0;
    while (pid > 1 && pid != top && state_of(pid, &parent) != '-') {
        pid = parent;
    }
    return pid == top;
}

/* Zombies among the descendants of a process. */
static int zombies_below(int top)
{
    int n = 0, parent;
    DIR *all = opendir("/proc");
    assert_non_null(all);
    for (const struct dirent *e; (e = readdir(all));) {
        int pid = (int)strtol(e->d_name, NULL, 10);
        n += pid > 0 && state_of(pid, &parent) == 'Z' && is_below(pid, top);
    }
    (void)closedir(all);
    return n;
}

static void await_no_zombie(const struct process *p)
{
    int64_t limit = patience_end_ms(LIMIT_MS);
    int n;
    while ((n = zombies_below(p->pid)) > 0 && now_ms() < limit) {
        (void)poll(NULL, 0, POLL_MS);
    }
    assert_int_equal(n, 0);
}

/* A byte from each process that was left behind, right before its end, through a FIFO. */
static void await_ends(int fifo)
{
    int64_t limit = patience_end_ms(LIMIT_MS);
    char bytes[TASKS];
    for (int n = 0; n < TASKS;) {
        struct pollfd end = {.fd = fifo, .events = POLLIN};
        assert_int_equal(poll(&end, 1, (int)(limit - now_ms())), 1);
        ssize_t got = read(fifo, bytes, sizeof bytes);
        assert_true(got > 0);
        n += (int)got;
    }
}

/* Each task leaves a process behind, whose end is nobody else's to wait for. */
static void test_no_zombies_after_fifty_tasks(void **state)
{
    struct fixture *fx = *state;
    char command[512], left[256];
    (void)snprintf(left, sizeof left, "%s/left", fx->dir);
    assert_int_equal(mkfifo(left, 0600), 0);
    int fifo = open(left, O_RDWR | O_CLOEXEC); /* so that it never ends */
    assert_true(fifo >= 0);
    (void)snprintf(command, sizeof command,
                   "a=setsid sh -c 'while ps -p '$$' >/dev/null; do :; done; printf x >%s' "
                   "</dev/null >/dev/null 2>&1 & exit 0",
                   left);
    test_sql(fx, "SELECT count(tenon.enqueue('a')) FROM generate_series(1, 50)");
    struct process *p = first_process(fx, (const char *const[]){"worker", "--slots", "4",
                                                                "--handler", command, NULL});
    await_done(fx, TASKS);
    await_ends(fifo);
    await_no_zombie(p);
    assert_true(test_sql_bool(fx, "SELECT bool_and(failures = 0) FROM tenon.history"));

    pid_t inside = 0;
    assert_int_equal(process_children(p, &inside, 1), 1);
    assert_int_equal(kill(inside, SIGTERM), 0);
    process_await_line(p, "event=worker_stopped", LIMIT_MS);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    (void)close(fifo);
}

static void test_its_exit_code(void **state)
{
    struct fixture *fx = *state;
    struct process *p = first_process(fx, (const char *const[]){"worker", "--slots", "0", NULL});
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    p = first_process(fx,
                      (const char *const[]){"worker", "--until-empty", "--handler", "a=cat", NULL});
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

/* The others, too: `docker exec` and its like leave processes to them. */
static void reaps(struct fixture *fx, const char *const *arguments, const char *ready)
{
    char command[64];
    struct process *p = first_process(fx, arguments);
    pid_t inside = 0;
    process_await_line(p, ready, LIMIT_MS);
    assert_int_equal(process_children(p, &inside, 1), 1);
    (void)snprintf(command, sizeof command, "nsenter -t %d -p -m sh -c 'sh -c : & exec true'",
                   inside);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(system(command), 0);
    }
    await_no_zombie(p);
    assert_int_equal(kill(inside, SIGTERM), 0);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

static void test_a_cleaner_and_the_page(void **state)
{
    struct fixture *fx = *state;
    reaps(fx, (const char *const[]){"cleaner", NULL}, "event=leader");
    reaps(fx, (const char *const[]){"ui", "--listen", "127.0.0.1:0", NULL}, "event=ui_ready");
}

/* Not PID 1, but asked by its parent to take in what its descendants leave. */
static void test_a_subreaper(void **state)
{
    struct fixture *fx = *state;
    const char *const argv[] = {"python3",
                                "-c",
                                "import ctypes, os, sys\n"
                                "assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0\n"
                                "os.execv(sys.argv[1], sys.argv[1:])",
                                tenon_program,
                                "worker",
                                "--slots",
                                "2",
                                "--handler",
                                "a=setsid sh -c : </dev/null >/dev/null 2>&1 & exit 0",
                                NULL};
    test_sql(fx, "SELECT count(tenon.enqueue('a')) FROM generate_series(1, 10)");
    struct process *p = process_spawn(fx, argv, NULL);
    await_done(fx, 10);
    await_no_zombie(p);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_no_zombies_after_fifty_tasks),
        WITH_SERVERS(test_its_exit_code),
        WITH_SERVERS(test_a_cleaner_and_the_page),
        WITH_SERVERS(test_a_subreaper),
    };
    return RUN_GROUP(tests);
}
