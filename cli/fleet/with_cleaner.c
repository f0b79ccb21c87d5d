/* `tenon worker --with-cleaner`: a worker and a cleaner as one, each in a process of its own. */
#include "cleaner/cleaner.h"
#include "cli/command.h"
#include "core/base/log.h"
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct pair {
    pid_t worker, cleaner; /* 0: it has ended */
    int code;              /* of the first that ended by itself */
    bool ends;
};

static pid_t start(int (*daemon)(const struct options *), enum command command,
                   const struct options *o, const sigset_t *mask)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) {
        return pid;
    }
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    if (command == COMMAND_CLEANER) {
        (void)unsetenv("NOTIFY_SOCKET"); /* it is the worker that is ready */
    }
    log_setup(command_word(command), (enum log_level)option_int(o, OPTION_LOG_LEVEL),
              (enum log_format)option_int(o, OPTION_LOG_FORMAT));
    exit(daemon(o));
}

static void signal_to(pid_t pid, int signal)
{
    if (pid > 0) {
        (void)kill(pid, signal);
    }
}

/* As a shell counts: a code, or 128 and the signal. */
static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Tasks that still run may need a cleaner, so it ends after the worker. A cleaner that ends by
 * itself ends the worker; the service manager then starts both again. */
static void process_ended(struct pair *p, pid_t pid, int code)
{
    if (pid == p->worker) {
        p->worker = 0;
        p->code = p->ends && p->code ? p->code : code;
        p->ends = true;
        signal_to(p->cleaner, SIGTERM);
    } else if (pid == p->cleaner) {
        p->cleaner = 0;
        if (!p->ends) {
            p->ends = true;
            p->code = code ? code : EXIT_FAILURE;
            log_event(LOG_ERROR, LOG_EVENT("cleaner_ended"), LOG_NUM("code", code));
            signal_to(p->worker, SIGTERM);
        }
    }
}

static void reap(struct pair *p)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        process_ended(p, pid, code_of(status));
    }
}

/* A terminal has sent its signals (Ctrl-C) to all three. */
static void take_signal(struct pair *p, const siginfo_t *info)
{
    p->ends = true;
    if (info->si_code == SI_KERNEL && info->si_signo != SIGHUP) {
        return;
    }
    signal_to(p->worker, info->si_signo);
}

static int watch(struct pair *p, const sigset_t *signals)
{
    while (p->worker > 0 || p->cleaner > 0) {
        siginfo_t info;
        int signal = sigwaitinfo(signals, &info);
        if (signal == SIGCHLD) {
            reap(p);
        } else if (signal > 0) {
            take_signal(p, &info);
        }
    }
    return p->code;
}

static int with_cleaner(const struct options *o)
{
    sigset_t signals, before;
    struct fault f = {.code = FAULT_NONE};
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    struct pair p = {.cleaner = start(cleaner_main, COMMAND_CLEANER, o, &before)};
    p.worker = p.cleaner > 0 ? start(worker_main, COMMAND_WORKER, o, &before) : -1;
    if (p.worker < 0) {
        (void)fault_set(&f, FAULT_RETRY, "could not start a process: %s", strerror(errno));
        log_fault(LOG_ERROR, "worker_failed", &f);
        signal_to(p.cleaner, SIGTERM);
        return fault_exit_code(&f);
    }
    return watch(&p, &signals);
}

int worker_command_main(const struct options *o)
{
    bool pairs = option_flag(o, OPTION_WITH_CLEANER) && !option_text(o, OPTION_RUN_ONE);
    return pairs ? with_cleaner(o) : worker_main(o);
}
