#include "cli/reaper.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool inherits_orphans(void)
{
    int is_subreaper = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper);
}

/* As a shell says it: PID 1 cannot be killed by a signal of its own. */
static int exit_code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void reap(pid_t child)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == child) {
            _exit(exit_code_of(status));
        }
    }
}

/* A terminal has sent its signals (Ctrl-C) to the child as well. */
static bool is_for_child(const siginfo_t *info)
{
    return info->si_code != SI_KERNEL || info->si_signo == SIGHUP;
}

static void reap_for_ever(pid_t child, const sigset_t *all)
{
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(all, &info);
        if (sig == SIGCHLD) {
            reap(child);
        } else if (sig > 0 && is_for_child(&info)) {
            (void)kill(child, sig);
        }
    }
}

void reaper_start(void)
{
    sigset_t all, before;
    if (!inherits_orphans()) {
        return;
    }
    (void)signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would hide how the child ends */
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), child = fork();
    if (child > 0) {
        reap_for_ever(child, &all);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) {
            _exit(EXIT_FAILURE);
        }
    }
}
