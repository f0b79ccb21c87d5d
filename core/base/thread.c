#include "core/base/thread.h"

#include "core/base/now.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *), void *arg,
                  const char *what, struct fault *f)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int error = pthread_attr_init(&attr);
    if (error == 0) {
        error = stack_bytes > 0 ? pthread_attr_setstacksize(&attr, stack_bytes) : 0;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        error = error == 0 ? pthread_create(ret, &attr, run, arg) : error;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attr);
    }
    return error == 0 ||
           fault_set(f, FAULT_RETRY, "could not start a thread for %s: %s", what, strerror(error));
}

bool thread_join(pthread_t id, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms);
    return pthread_clockjoin_np(id, NULL, CLOCK_MONOTONIC, &until) == 0;
}

bool wakefd_open(int *ret_fd, struct fault *f)
{
    *ret_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *ret_fd >= 0 ||
           fault_set(f, FAULT_RETRY, "could not make an eventfd: %s", strerror(errno));
}

/* It can only fail when the counter is full, which is readable as well. */
void wakefd_set(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

void wakefd_clear(int fd)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
}
