/* The ids that RabbitMQ delivered: which to ask the database for now, and which once more.
 *
 * An id is acked when a round takes it; if that round is lost, the next poll finds the task. An id
 * that was not claimed is asked for once more: it may have come before its commit, or its row was
 * locked for a moment. After that another worker has the task, or a poll finds it. */
#ifndef TENON_WORKER_DECIDE_WAKEUPS_H
#define TENON_WORKER_DECIDE_WAKEUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WAKEUPS_MAX = 2048,    /* ids in each ring; prefetch keeps delivered ones far fewer */
    WAKEUPS_AGAIN_MS = 50, /* when to ask for a missed id once more */
};

/* A ring, the oldest at `first`. */
struct wakeup_ring {
    size_t first, n;
    struct {
        int64_t id, at_ms; /* when to ask for it */
    } item[WAKEUPS_MAX];
};

struct wakeups {
    struct wakeup_ring delivered, again;
    uint64_t last_tag; /* of what was delivered */
    bool unacked;      /* something was delivered and not acked */
};

/* Ids arrived. Those without room in the ring are dropped: the next poll finds them. */
void wakeups_add(struct wakeups *w, const int64_t *ids, size_t n, uint64_t last_tag);

/* Do not ask for what was delivered: */
void wakeups_discard(struct wakeups *w); /* polls find it; it is acked */
void wakeups_forget(struct wakeups *w);  /* the channel is gone, and delivers it again */

/* Take up to `max` ids to ask for now, the missed ones first; `again[i]` says which those are. */
size_t wakeups_take(struct wakeups *w, int64_t now_ms, int64_t *ids, bool *again, size_t max);

/* The id was asked for the first time, and not claimed. */
void wakeups_missed(struct wakeups *w, int64_t id, int64_t now_ms);

/* When to ask for the first missed id once more; INT64_MAX = there is none. */
int64_t wakeups_due(const struct wakeups *w);

/* True: all that was delivered has been taken, and is to be acked, up to this tag. */
bool wakeups_ack(struct wakeups *w, uint64_t *ret_tag);

#endif
