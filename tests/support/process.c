#include "tests/support/process.h"

#include "core/base/now.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 5, KILL_LIMIT_MS = 10000, LOG_TAIL_LINES = 40 };

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || dup2(fd, to) < 0) {
        _exit(126);
    }
}

static void child_environment(const struct fixture *fx, const char *const *env)
{
    (void)setenv("DATABASE_URL", fx->database_url, 1);
    (void)setenv("AMQP_URL", *fx->vhost ? fx->amqp_url : "none", 1);
    (void)setenv("TENON_PASS_ENV", "DATABASE_URL", 1); /* handlers of tests finish by themselves */
    (void)setenv("TEST_JOURNAL", fx->journal, 1);
    for (; env && *env; env++) {
        if (strchr(*env, '=')) {
            (void)putenv((char *)(uintptr_t)*env);
        } else {
            (void)unsetenv(*env);
        }
    }
}

/* Only what may be done between fork and exec of a test, which has one thread that forks. */
static _Noreturn void child_main(const struct fixture *fx, const struct process *p, pid_t parent,
                                 const char *const *argv, const char *const *env)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(126);
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    redirect(p->out, STDOUT_FILENO);
    redirect(p->log, STDERR_FILENO);
    child_environment(fx, env);
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "could not run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

struct process *process_spawn(struct fixture *fx, const char *const *argv, const char *const *env)
{
    static int count;
    struct process *p = calloc(1, sizeof *p);
    const char *slash = strrchr(argv[0], '/');
    (void)snprintf(p->name, sizeof p->name, "%.16s-%d", slash ? slash + 1 : argv[0], ++count);
    (void)snprintf(p->out, sizeof p->out, "%s/%s.out", fx->dir, p->name);
    (void)snprintf(p->log, sizeof p->log, "%s/%s.log", fx->dir, p->name);
    /* what a killed worker leaves behind becomes our child, so that processes_end() finds it */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0) {
        child_main(fx, p, parent, argv, env);
    }
    if (p->pid < 0) {
        fail_msg("could not fork: %s", strerror(errno));
    }
    p->next = fx->processes;
    fx->processes = p;
    return p;
}

const char tenon_program[] = TENON_PROGRAM;
const char repository[] = REPOSITORY;

struct process *tenon_spawn(struct fixture *fx, const char *const *args, const char *const *env)
{
    const char *argv[64] = {tenon_program};
    size_t n = 1;
    for (; *args; args++) {
        assert_true(n < sizeof argv / sizeof *argv - 1);
        argv[n++] = *args;
    }
    return process_spawn(fx, argv, env);
}

static struct process *tenon_ended(struct fixture *fx, int code, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    int status = process_wait(p, 60000);
    if (status != code) {
        char *log = file_text(p->log);
        print_error("%s", log);
        free(log);
        fail_msg("tenon %s ended with %d, not with %d", args[0], status, code);
    }
    return p;
}

char *tenon_run(struct fixture *fx, int code, const char *const *args)
{
    return file_text(tenon_ended(fx, code, args)->out);
}

void tenon_says(struct fixture *fx, int code, const char *out, const char *log,
                const char *const *args)
{
    const struct process *p = tenon_ended(fx, code, args);
    char *printed = file_text(p->out), *logged = file_text(p->log);
    assert_contains(printed, out);
    assert_contains(logged, log);
    free(printed);
    free(logged);
}

void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *file_text(const char *path)
{
    FILE *file = fopen(path, "re");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) {
        /* a process that has not come so far yet */
        if (file) {
            (void)fclose(file);
        }
        return strdup("");
    }
    char *text = malloc((size_t)info.st_size + 1);
    size_t n = fread(text, 1, (size_t)info.st_size, file);
    text[n] = '\0';
    (void)fclose(file);
    return text;
}

size_t process_lines(const struct process *p, const char *text)
{
    char *log = file_text(p->log), *rest = log, *line;
    size_t n = 0;
    while ((line = strsep(&rest, "\n"))) {
        n += strstr(line, text) ? 1 : 0;
    }
    free(log);
    return n;
}

static void print_tail(const struct process *p)
{
    char *log = file_text(p->log);
    char *from = log + strlen(log);
    for (int lines = 0; from > log && lines <= LOG_TAIL_LINES; from--) {
        lines += from[-1] == '\n' ? 1 : 0;
    }
    print_error("--- the end of %s's log (pid %d):\n%s---\n", p->name, p->pid, from);
    free(log);
}

void process_await_line(struct process *p, const char *text, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    for (;;) {
        bool last = process_is_gone(p) || now_ms() >= deadline_ms;
        if (process_lines(p, text) > 0) {
            return;
        }
        if (last) {
            print_tail(p);
            fail_msg("%s %s without a line \"%s\"", p->name, p->gone ? "ended" : "ran out of time",
                     text);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
}

void process_signal(struct process *p, int signal)
{
    if (!process_is_gone(p)) {
        (void)kill(p->pid, signal);
    }
}

int process_children(const struct process *p, pid_t *ret, int max)
{
    char path[64];
    int n = 0, pid;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)p->pid, (int)p->pid);
    FILE *children = fopen(path, "re");
    while (children && n < max && fscanf(children, "%d", &pid) == 1) {
        ret[n++] = pid;
    }
    if (children) {
        (void)fclose(children);
    }
    return n;
}

bool process_is_handler(pid_t pid)
{
    char path[64], name[32] = "", state = 'Z';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "r");
    if (stat) {
        if (fscanf(stat, "%*d (%31[^)]) %c", name, &state) != 2) {
            state = 'Z';
        }
        (void)fclose(stat);
    }
    return state != 'Z' && strcmp(name, "tenon guard") != 0;
}

bool process_is_gone(struct process *p)
{
    int status;
    if (!p->gone && waitpid(p->pid, &status, WNOHANG) == p->pid) {
        p->gone = true;
        p->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return p->gone;
}

int process_wait(struct process *p, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (!process_is_gone(p)) {
        if (now_ms() >= deadline_ms) {
            print_tail(p);
            fail_msg("%s still runs after %lld ms", p->name, (long long)limit_ms);
        }
        (void)poll(NULL, 0, POLL_MS);
    }
    return p->status;
}

void processes_print(const struct fixture *fx)
{
    for (const struct process *p = fx->processes; p; p = p->next) {
        print_tail(p);
    }
}

void process_kill(struct process *p)
{
    process_signal(p, SIGKILL);
    (void)process_wait(p, KILL_LIMIT_MS);
}

void handler_path(const char *name, char *ret, size_t size)
{
    bool script = strchr(name, '.') != NULL;
    (void)snprintf(ret, size, "%s/%s",
                   script ? REPOSITORY "/tests/support/handlers" : HANDLERS_BUILT, name);
    if (access(ret, X_OK) != 0) {
        fail_msg("%s: %s", ret, strerror(errno));
    }
}

void preload_variable(const struct fixture *fx, const char *library, char *ret, size_t size)
{
    (void)snprintf(ret, size, "LD_PRELOAD=%s/preload.so", fx->dir);
    const char *path = strchr(ret, '=') + 1;
    if (symlink(library, path) != 0 && errno != EEXIST) {
        fail_msg("could not make %s: %s", path, strerror(errno));
    }
}

/* Our children by /proc: those of killed processes too, as we are their reaper. */
static void kill_children(void)
{
    char path[64];
    int pid;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &pid) == 1) {
        (void)kill(pid, SIGKILL);
    }
    if (file) {
        (void)fclose(file);
    }
}

void processes_end(struct fixture *fx)
{
    bool any = fx->processes != NULL;
    while (fx->processes) {
        struct process *p = fx->processes;
        fx->processes = p->next;
        if (!process_is_gone(p)) {
            (void)kill(p->pid, SIGKILL);
            (void)waitpid(p->pid, NULL, 0);
        }
        free(p);
    }
    /* grandchildren come to us one generation after the other */
    while (any) {
        kill_children();
        if (waitpid(-1, NULL, 0) < 0) {
            break;
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}
