#include "core/amqp/amqp_thread.h"

#include "core/amqp/amqp_link.h"
#include "core/base/now.h"
#include "core/base/thread.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
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
    if (ppoll(fds, 2, &wait, NULL) > 0 && fds[0].revents) {
        wakefd_clear(t->event);
    }
}

static void wait_for_work(struct amqp_thread *t)
{
    if (!t->link) {
        wait_until(t, -1, 0, atomic_load(&t->wanted) ? t->pause.due_ms : INT64_MAX);
    } else if (!link_has_frames(t->link)) {
        int64_t tick_ms = now_ms() + LINK_TICK_MS;
        wait_until(t, link_fd(t->link), (short)(t->unsent ? POLLIN | POLLOUT : POLLIN),
                   t->due_ms > 0 && t->due_ms < tick_ms ? t->due_ms : tick_ms);
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

bool amqp_thread_start(struct amqp_thread *t, const char *url, const char *name,
                       const struct amqp_duty *duty, void *owner, struct fault *f)
{
    *t = (struct amqp_thread){.duty = duty, .owner = owner, .event = -1};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    if (!amqp_url_parse(url, &t->url, f)) {
        return false;
    }
    if (wakefd_open(&t->event, f) &&
        thread_start(&t->id, AMQP_THREAD_STACK_BYTES, thread_main, t, "RabbitMQ", f)) {
        return true;
    }
    amqp_thread_abandon(t);
    amqp_url_clear(&t->url);
    return false;
}

void amqp_thread_want(struct amqp_thread *t)
{
    atomic_store(&t->wanted, true);
    wakefd_set(t->event);
}

void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms)
{
    t->close_ms = limit_ms;
    atomic_store(&t->ending, true);
    wakefd_set(t->event);
    if (!thread_join(t->id, limit_ms + AMQP_THREAD_PATIENCE_MS)) {
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
