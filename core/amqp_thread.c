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

bool socket_cut_set(struct socket_cut *cut, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    (void)pthread_mutex_lock(&cut->lock);
    cut->fd = copy;
    if (cut->wanted && copy >= 0) {
        (void)shutdown(copy, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&cut->lock);
    return copy >= 0;
}

void socket_cut_forget(struct socket_cut *cut)
{
    (void)pthread_mutex_lock(&cut->lock);
    if (cut->fd >= 0) {
        (void)close(cut->fd);
        cut->fd = -1;
    }
    (void)pthread_mutex_unlock(&cut->lock);
}

void socket_cut_now(struct socket_cut *cut)
{
    (void)pthread_mutex_lock(&cut->lock);
    cut->wanted = true;
    if (cut->fd >= 0) {
        (void)shutdown(cut->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&cut->lock);
}

bool socket_cut_is_wanted(struct socket_cut *cut)
{
    (void)pthread_mutex_lock(&cut->lock);
    bool wanted = cut->wanted;
    (void)pthread_mutex_unlock(&cut->lock);
    return wanted;
}

static void *thread_main(void *arg)
{
    struct amqp_thread *t = arg;
    t->run(t->owner);
    (void)pthread_mutex_lock(&t->lock);
    bool left = t->left;
    t->ended = true;
    (void)pthread_cond_signal(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
    if (left) {
        (void)close(t->event);
        t->destroy(t->owner);
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

bool amqp_thread_start(struct amqp_thread *t, void (*run)(void *), void (*destroy)(void *),
                       void *owner, struct fault *f)
{
    pthread_condattr_t attr;
    *t = (struct amqp_thread){.run = run, .destroy = destroy, .owner = owner, .cut = {.fd = -1}};
    (void)pthread_mutex_init(&t->cut.lock, NULL);
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&t->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
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
        /* the reader looks at what it was woken for after this, the waker put it there before */
        atomic_store(&t->signalled, false);
    }
}

bool amqp_thread_is_ending(struct amqp_thread *t)
{
    return atomic_load(&t->ending);
}

/* With the lock held. */
static void await_end(struct amqp_thread *t, int64_t limit_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    until.tv_nsec += limit_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!t->ended && pthread_cond_timedwait(&t->changed, &t->lock, &until) == 0) {
    }
}

void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms)
{
    atomic_store(&t->ending, true);
    amqp_thread_wake(t);
    (void)pthread_mutex_lock(&t->lock);
    await_end(t, limit_ms);
    if (!t->ended) {
        socket_cut_now(&t->cut);
        await_end(t, AMQP_THREAD_PATIENCE_MS);
    }
    t->left = !t->ended;
    pthread_t id = t->id;
    bool left = t->left;
    (void)pthread_mutex_unlock(&t->lock);
    if (left) {
        (void)pthread_detach(id);
        return;
    }
    (void)pthread_join(id, NULL);
    (void)close(t->event);
    t->destroy(t->owner);
}

void amqp_thread_abandon(struct amqp_thread *t)
{
    (void)close(t->event);
    if (t->cut.fd >= 0) {
        (void)close(t->cut.fd);
    }
}

int64_t amqp_pause_ms(int failures)
{
    return now_pause_ms(failures, PAUSE_MS_MIN, PAUSE_MS_MAX);
}
