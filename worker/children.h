/* The children of all slots: starts them, feeds them, reads them, and tells what happened as
 * events.
 *
 * Two kinds of handler, one way to run: exec is one process per task (payload on stdin,
 * TENON_TASK_* variables, exit status); pool is a long-lived process that speaks JSON lines.
 * docs/protocol.md has the contract to the letter. */
#ifndef TENON_WORKER_CHILDREN_H
#define TENON_WORKER_CHILDREN_H

#include "worker/child.h"
#include "worker/decide/decider.h"

#include <poll.h>

struct children {
    struct child *slots;
    int n;
    const struct handlers *handlers;
    void (*emit)(void *owner, const struct event *event); /* with its reply and error */
    bool (*is_given)(void *owner, int slot, int64_t id);  /* does this child have that task? */
    bool (*is_full)(void *owner, int slot); /* must its answers wait in its pipe? NULL = never */
    void *owner;
};

MUST_CHECK bool children_init(struct children *cs, int n_slots, const struct handlers *handlers,
                              struct fault *f);
void children_clear(struct children *cs);

/* Start a child; `task` is the one task of an exec handler, NULL for a pool child. When it
 * cannot be started, the event CHILD_GONE says so. */
void children_spawn(struct children *cs, int slot, int handler, const struct claim *task);
/* `task` is the first of `n` in its list. `alone`: there is one, and the child has no other. */
void children_give(struct children *cs, int slot, const struct claim *task, int n, bool alone);
void children_tell_stop(struct children *cs, int slot, int64_t task, const char *why); /* 0 = all */
void children_tell_step(struct children *cs, int slot, int64_t task, const char *name,
                        bool recorded);
void children_close(struct children *cs, int slot);
void children_signal(struct children *cs, int slot, int signal);

/* What a child that starts does, as it said, or the last line of its stderr; "" when it says
 * nothing. */
void children_doing(const struct children *cs, int slot, char *text, size_t size);

/* The last lines that a pool child wrote to stderr since it got the task that it has, of
 * CHILD_TAIL_BYTES at most; nothing if it has had others meanwhile. */
void children_printed(struct children *cs, int slot, struct buf *ret);

/* Write all that was given and not yet written; once per turn of the loop. */
void children_flush(struct children *cs);

/* What to poll, this many for each slot, and what to do when it is ready. */
enum { CHILDREN_FDS_PER_SLOT = 4 };
void children_poll(const struct children *cs, struct pollfd *fds);
void children_dispatch(struct children *cs, const struct pollfd *fds);

#endif
