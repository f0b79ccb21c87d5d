#include "core/base/stop.h"

#include "core/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* The only things that a signal handler touches. */
static volatile sig_atomic_t wanted, limit;
static volatile sig_atomic_t fd = -1;

static void on_stop(int signal)
{
    int saved = errno;
    (void)signal;
    wanted = 1;
    wakefd_set(fd);
    (void)alarm((unsigned)limit);
    errno = saved;
}

static void on_alarm(int signal)
{
    (void)signal;
    _exit(EXIT_SUCCESS);
}

bool stop_open(int limit_s, struct fault *f)
{
    struct sigaction stop = {.sa_handler = on_stop}, late = {.sa_handler = on_alarm};
    int opened = -1;
    if (!wakefd_open(&opened, f)) {
        return false;
    }
    fd = opened;
    limit = limit_s;
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGALRM, &late, NULL);
    return true;
}

bool stop_wanted(void)
{
    return wanted;
}

int stop_fd(void)
{
    return fd;
}
