#include "core/amqp_thread.h"

#include "core/now.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS_MIN = 100, PAUSE_MS_MAX = 10000 };

bool amqp_thread_socket(struct amqp_thread *t, int fd)
{
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    (void)pthread_mutex_lock(&t->lock);
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
    t->fd = copy;
    if (t->cut && copy >= 0) {
        (void)shutdown(copy, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return copy >= 0;
}

bool amqp_thread_is_cut(struct amqp_thread *t)
{
    (void)pthread_mutex_lock(&t->lock);
    bool cut = t->cut;
    (void)pthread_mutex_unlock(&t->lock);
    return cut;
}

static void cut(struct amqp_thread *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->cut = true;
    if (t->fd >= 0) {
        (void)shutdown(t->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

static void destroy(struct amqp_thread *t)
{
    (void)close(t->event);
    t->destroy(t->owner);
}

static void *thread_main(void *arg)
{
    struct amqp_thread *t = arg;
    t->run(t->owner);
    if (atomic_exchange(&t->over, true)) {
        destroy(t);
    }
    return NULL;
}

static bool start(struct amqp_thread *t)
{
    pthread_attr_t attr;
    sigset_t all, before;
    if (pthread_attr_init(&attr) != 0) {
        return false;
    }
    (void)sigfillset(&all);
    bool ok = pthread_attr_setstacksize(&attr, AMQP_THREAD_STACK_BYTES) == 0 &&
              pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    if (ok) {
        ok = pthread_create(&t->id, &attr, thread_main, t) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attr);
    return ok;
}

bool amqp_thread_start(struct amqp_thread *t, void (*run)(void *), void (*destroy_owner)(void *),
                       void *owner, struct fault *f)
{
    *t = (struct amqp_thread){.run = run, .destroy = destroy_owner, .owner = owner, .fd = -1};
    (void)pthread_mutex_init(&t->lock, NULL);
    t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->event < 0) {
        return fault_set(f, FAULT_RETRY, "could not make an eventfd: %s", strerror(errno));
    }
    if (!start(t)) {
        (void)close(t->event);
        return fault_set(f, FAULT_RETRY, "could not start a thread for RabbitMQ");
    }
    return true;
}

void amqp_thread_wake(struct amqp_thread *t)
{
    uint64_t one = 1;
    if (!atomic_exchange(&t->signalled, true)) {
        ssize_t written = write(t->event, &one, sizeof one);
        (void)written; /* it can only fail when the counter is full, which wakes as well */
    }
}

void amqp_thread_wait(struct amqp_thread *t, int fd, short events, int64_t due_ms)
{
    int64_t wait_ms = due_ms - now_ms();
    wait_ms = wait_ms < 0 ? 0 : wait_ms > INT_MAX ? INT_MAX : wait_ms;
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    struct pollfd fds[] = {{.fd = t->event, .events = POLLIN}, {.fd = fd, .events = events}};
    uint64_t count;
    if (ppoll(fds, 2, &wait, NULL) > 0 && fds[0].revents) {
        ssize_t got = read(t->event, &count, sizeof count);
        (void)got;
        /* the reader sees to what it was woken for after this, the waker put it there before */
        atomic_store(&t->signalled, false);
    }
}

bool amqp_thread_is_ending(struct amqp_thread *t)
{
    return atomic_load(&t->ending);
}

static bool join(struct amqp_thread *t, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms);
    return pthread_clockjoin_np(t->id, NULL, CLOCK_MONOTONIC, &until) == 0;
}

void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms)
{
    atomic_store(&t->ending, true);
    amqp_thread_wake(t);
    if (!join(t, limit_ms)) {
        cut(t);
        if (!join(t, AMQP_THREAD_PATIENCE_MS)) {
            (void)pthread_detach(t->id);
            if (!atomic_exchange(&t->over, true)) {
                return; /* it destroys its owner itself, some day */
            }
        }
    }
    destroy(t);
}

void amqp_thread_abandon(struct amqp_thread *t)
{
    (void)close(t->event);
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
}

void amqp_pause_up(struct amqp_pause *p)
{
    p->up_since_ms = now_ms();
}

void amqp_pause_down(struct amqp_pause *p)
{
    bool was_steady = p->up_since_ms > 0 && now_ms() - p->up_since_ms >= AMQP_STEADY_MS;
    p->failures = was_steady ? 1 : p->failures + 1;
    p->due_ms = now_ms() + now_pause_ms(p->failures, PAUSE_MS_MIN, PAUSE_MS_MAX);
    p->up_since_ms = 0;
}
