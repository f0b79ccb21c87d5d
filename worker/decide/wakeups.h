/* The ids RabbitMQ delivered: which to ask the database for, and which to ask for once more.
 *
 * They are acked when they are taken into a round: what is lost with it, the next poll finds. An id
 * that was not claimed may have overtaken its commit, or its row was locked for a moment: it is
 * asked for once more. Others have it, or a poll finds it. */
#ifndef TENON_WORKER_DECIDE_WAKEUPS_H
#define TENON_WORKER_DECIDE_WAKEUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WAKEUPS_MAX = 2048, /* ids held of either sort; prefetch keeps the delivered ones far fewer */
    WAKEUPS_AGAIN_MS = 50, /* after so long a missed id is asked for once more */
};

/* A ring, the oldest at `first`. */
struct wakeup_ring {
    size_t first, n;
    struct {
        int64_t id, at_ms; /* not before then */
    } item[WAKEUPS_MAX];
};

struct wakeups {
    struct wakeup_ring delivered, again;
    uint64_t last_tag; /* of what was delivered */
    bool unacked;      /* something is, of what was taken */
};

/* A delivery arrived. What there is no room for is dropped: the next poll finds it. */
void wakeups_add(struct wakeups *w, const int64_t *ids, size_t n, uint64_t last_tag);

/* Nothing of what was delivered is to be asked for: */
void wakeups_discard(struct wakeups *w); /* polls find it; ack it */
void wakeups_forget(struct wakeups *w);  /* the channel is gone, and delivers it again */

/* Write up to `max` ids that are to be asked for now into `ids`, the missed ones first; `again[i]`
 * says which those are. */
size_t wakeups_take(struct wakeups *w, int64_t now_ms, int64_t *ids, bool *again, size_t max);

/* It was asked for the first time, and not claimed. */
void wakeups_missed(struct wakeups *w, int64_t id, int64_t now_ms);

/* When the first id is to be asked for once more; INT64_MAX = there is none. */
int64_t wakeups_due(const struct wakeups *w);

/* Has all been taken that was delivered, and not been acked? Then ack up to `tag`. */
bool wakeups_ack(struct wakeups *w, uint64_t *ret_tag);

#endif
