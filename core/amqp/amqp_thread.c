#include "core/amqp/amqp_thread.h"

#include "core/amqp/amqp_link.h"
#include "core/base/now.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS_MIN = 100, PAUSE_MS_MAX = 10000 };

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

/* --- on the thread ---------------------------------------------------------------------------- */

static bool connect_now(struct amqp_thread *t, struct fault *f)
{
    if (!link_open(&t->url, t->name, &t->ending, &t->link, f) || !t->duty->up(t->owner, f)) {
        return false;
    }
    amqp_pause_up(&t->pause);
    return true;
}

static bool work(struct amqp_thread *t, struct fault *f)
{
    if (!t->link && (!atomic_load(&t->wanted) || now_ms() < t->pause.due_ms)) {
        return true;
    }
    return (t->link || connect_now(t, f)) && t->duty->work(t->owner, f);
}

static void disconnect(struct amqp_thread *t, const struct fault *f)
{
    link_close(t->link, 0);
    t->link = NULL;
    amqp_pause_down(&t->pause);
    t->duty->down(t->owner, f);
}

/* For `events` on `fd` (-1 = none), for amqp_thread_want(), or until due_ms. */
static void wait_until(struct amqp_thread *t, int fd, short events, int64_t due_ms)
{
    int64_t wait_ms = due_ms - now_ms();
    wait_ms = wait_ms < 0 ? 0 : wait_ms > INT_MAX ? INT_MAX : wait_ms;
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    struct pollfd fds[] = {{.fd = t->event, .events = POLLIN}, {.fd = fd, .events = events}};
    uint64_t count;
    if (ppoll(fds, 2, &wait, NULL) > 0 && fds[0].revents) {
        ssize_t got = read(t->event, &count, sizeof count);
        (void)got;
    }
}

static void wait_for_work(struct amqp_thread *t)
{
    if (!t->link) {
        wait_until(t, -1, 0, atomic_load(&t->wanted) ? t->pause.due_ms : INT64_MAX);
    } else if (!link_has_frames(t->link)) {
        wait_until(t, link_fd(t->link), (short)(t->unsent ? POLLIN | POLLOUT : POLLIN),
                   now_ms() + LINK_TICK_MS);
    }
}

static void run(struct amqp_thread *t)
{
    while (!atomic_load(&t->ending)) {
        struct fault f = {0};
        if (!work(t, &f)) {
            disconnect(t, &f);
        }
        wait_for_work(t);
    }
    struct fault ignored = {0};
    bool well = t->link && t->duty->work(t->owner, &ignored);
    link_close(t->link, well ? t->close_ms : 0);
}

static void destroy(struct amqp_thread *t)
{
    (void)close(t->event);
    amqp_url_clear(&t->url);
    t->duty->destroy(t->owner);
}

static void *thread_main(void *arg)
{
    struct amqp_thread *t = arg;
    run(t);
    if (atomic_exchange(&t->over, true)) {
        destroy(t);
    }
    return NULL;
}

/* --- for everybody ---------------------------------------------------------------------------- */

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

bool amqp_thread_start(struct amqp_thread *t, const char *url, const char *name,
                       const struct amqp_duty *duty, void *owner, struct fault *f)
{
    *t = (struct amqp_thread){.duty = duty, .owner = owner, .event = -1};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    if (!amqp_url_parse(url, &t->url, f)) {
        return false;
    }
    t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->event >= 0 && start(t)) {
        return true;
    }
    (void)fault_set(f, FAULT_RETRY, "could not start a thread for RabbitMQ: %s", strerror(errno));
    amqp_thread_abandon(t);
    amqp_url_clear(&t->url);
    return false;
}

static void wake(struct amqp_thread *t)
{
    uint64_t one = 1;
    ssize_t written = write(t->event, &one, sizeof one);
    (void)written; /* it can only fail when the counter is full, which wakes as well */
}

void amqp_thread_want(struct amqp_thread *t)
{
    atomic_store(&t->wanted, true);
    wake(t);
}

void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms)
{
    struct timespec until = now_after(limit_ms + AMQP_THREAD_PATIENCE_MS);
    t->close_ms = limit_ms;
    atomic_store(&t->ending, true);
    wake(t);
    if (pthread_clockjoin_np(t->id, NULL, CLOCK_MONOTONIC, &until) != 0) {
        (void)pthread_detach(t->id);
        if (!atomic_exchange(&t->over, true)) {
            return; /* it destroys its owner itself, some day */
        }
    }
    destroy(t);
}

void amqp_thread_abandon(struct amqp_thread *t)
{
    if (t->event >= 0) {
        (void)close(t->event);
    }
}
