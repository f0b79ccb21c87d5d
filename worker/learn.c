#include "worker/learn.h"

#include "core/base/now.h"
#include "worker/guard.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct learning {
    struct learned *ret;
    struct fault *fault;
    char *kinds;
    bool known, late, stopped, gone;
};

static bool has_no_task(void *owner, int slot, int64_t id)
{
    (void)owner;
    (void)slot;
    (void)id;
    return false;
}

static void take_event(void *owner, const struct event *e)
{
    struct learning *l = owner;
    if (e->type == EVENT_CHILD_READY && !l->known) {
        l->known = true;
        l->kinds = strdup(e->text);
        *l->ret = (struct learned){.room = e->room, .hears_stop = e->hears_stop};
    } else if (e->type == EVENT_CHILD_GONE) {
        l->gone = true;
        (void)fault_set(l->fault, FAULT_RETRY, "%shandler \"*\": %s",
                        l->late ? "no hello within the start limit: " : "", e->text);
    }
}

/* False: the process is to stop. */
static bool turn(struct children *cs, int stop_fd, int limit_ms)
{
    struct pollfd fds[CHILDREN_FDS_PER_SLOT + 1];
    fds[CHILDREN_FDS_PER_SLOT] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
    children_flush(cs);
    children_poll(cs, fds);
    (void)poll(fds, CHILDREN_FDS_PER_SLOT + 1, limit_ms);
    children_dispatch(cs, fds);
    guard_beat();
    return fds[CHILDREN_FDS_PER_SLOT].revents == 0;
}

/* False: it has ended or is late, or the process is to stop. */
static bool await_hello(struct children *cs, struct learning *l, int64_t limit_ms, int stop_fd)
{
    int64_t until = now_ms() + limit_ms;
    bool goes_on = true;
    while (goes_on && !l->known && !l->gone) {
        goes_on = turn(cs, stop_fd, GUARD_BEAT_MS);
        l->late = now_ms() >= until && !l->known;
        l->stopped = !goes_on;
        goes_on = goes_on && !l->late;
    }
    return goes_on && !l->gone;
}

static void end_child(struct children *cs, const struct learning *l)
{
    while (!l->gone) {
        children_signal(cs, 0, SIGKILL);
        (void)turn(cs, -1, GUARD_BEAT_MS);
    }
}

bool learn_kinds(struct child *slot, struct handlers *handlers, int handler, int stop_fd,
                 struct learned *ret, struct fault *f)
{
    struct learning l = {.ret = ret, .fault = f};
    struct children cs = {.slots = slot,
                          .n = 1,
                          .handlers = handlers,
                          .emit = take_event,
                          .is_given = has_no_task,
                          .owner = &l};
    children_spawn(&cs, 0, handler, NULL);
    bool ok = await_hello(&cs, &l, handlers->items[handler].start_limit_ms, stop_fd) &&
              handlers_name(handlers, handler, l.kinds, f);
    if (!ok) {
        end_child(&cs, &l);
    }
    if (l.stopped) {
        fault_clear(f);
    }
    free(l.kinds);
    return ok;
}
