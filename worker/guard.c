#include "worker/guard.h"

#include "worker/decide/decider.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct notice {
    pid_t group; /* 0: the worker moves, and that is all */
    bool watch;  /* false: forget it */
};

enum { TICK_MS = 1000 };

static int guard_pipe = -1;
static pid_t guard_pid;

static void take_notice(pid_t groups[SLOTS_MAX], const struct notice *w)
{
    for (int i = 0; w->group > 0 && i < SLOTS_MAX; i++) {
        if (groups[i] == (w->watch ? 0 : w->group)) {
            groups[i] = w->watch ? w->group : 0;
            return;
        }
    }
}

static void kill_groups(const pid_t groups[SLOTS_MAX])
{
    for (int i = 0; i < SLOTS_MAX; i++) {
        if (groups[i] > 0) {
            (void)kill(-groups[i], SIGKILL);
        }
    }
}

/* Time passes in ticks in which the guard is awake itself: where the whole machine was stopped, the
 * handlers did as well, and the worker may move on now. */
static void watch_worker(pid_t groups[SLOTS_MAX])
{
    struct pollfd fd = {.fd = 0, .events = POLLIN};
    struct notice w;
    for (int ticks = 0;;) {
        int n = poll(&fd, 1, TICK_MS);
        if (n == 0 && ++ticks == GUARD_SILENT_MS / TICK_MS) {
            kill_groups(groups);
        }
        if (n > 0) {
            ssize_t bytes = read(0, &w, sizeof w);
            if (bytes == 0 || (bytes < 0 && errno != EINTR)) {
                return;
            }
            ticks = 0;
            if (bytes == (ssize_t)sizeof w) {
                take_notice(groups, &w);
            }
        }
    }
}

/* The whole life of the guard. A Ctrl-C on the terminal is for the worker, which drains. */
static void guard_live(int fd)
{
    static pid_t groups[SLOTS_MAX];
    (void)setsid();
    (void)prctl(PR_SET_NAME, "tenon guard");
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)dup2(fd, 0);
    (void)syscall(SYS_close_range, 1U, ~0U, 0U);
    watch_worker(groups);
    kill_groups(groups);
    _exit(0);
}

bool guard_start(struct fault *f)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return fault_set(f, FAULT_RETRY, "could not make the guard's pipe: %s", strerror(errno));
    }
    guard_pid = fork();
    if (guard_pid == 0) {
        (void)close(fds[1]);
        guard_live(fds[0]);
    }
    (void)close(fds[0]);
    guard_pipe = fds[1];
    (void)fcntl(guard_pipe, F_SETFL, O_NONBLOCK); /* a guard that is stopped stops no worker */
    return guard_pid > 0 ||
           fault_set(f, FAULT_RETRY, "could not fork the guard: %s", strerror(errno));
}

/* A notice is shorter than PIPE_BUF, so it is written whole or not at all. */
static void send_notice(pid_t group, bool watch)
{
    struct notice w = {.group = group, .watch = watch};
    ssize_t n = guard_pipe >= 0 ? write(guard_pipe, &w, sizeof w) : 0;
    (void)n; /* a guard that was killed is missed only if the worker is killed too */
}

void guard_watch(pid_t group)
{
    send_notice(group, true);
}

void guard_forget(pid_t group)
{
    send_notice(group, false);
}

void guard_beat(void)
{
    send_notice(0, false);
}

void guard_stop(void)
{
    if (guard_pipe >= 0) {
        (void)close(guard_pipe);
        guard_pipe = -1;
        (void)waitpid(guard_pid, NULL, 0);
    }
}
