/* The ids RabbitMQ delivered: which to ask the database for, which to ack, which to ask again.
 *
 * A delivery is a batch of ids with one tag; it is acked once a round that asked for its
 * last id has committed. An id that was asked for and not claimed may have overtaken its commit,
 * or be locked for a moment: it is asked again after 50 ms, 0.5 s and 3 s, from a bounded ring
 * for each delay, so that each ring is in the order of time. */
#ifndef TENON_WORKER_DECIDE_WAKEUPS_H
#define TENON_WORKER_DECIDE_WAKEUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WAKEUPS_TRIES = 3,        /* how often an id is asked again */
    WAKEUPS_RING_MAX = 4096,  /* ids that wait for one of the tries */
    WAKEUPS_RECENT = 16384,   /* ids remembered as claimed here, a power of two */
    WAKEUPS_BATCH_MAX = 1024, /* ids in one delivery */
    WAKEUPS_BATCHES_MAX = 64, /* deliveries held at once; prefetch keeps them far fewer */
};

struct wakeup_batch {
    int64_t epoch;
    uint64_t last_tag;
    size_t n, asked, settled; /* asked <= n; settled: of those, how many a committed round had */
    int64_t ids[WAKEUPS_BATCH_MAX];
};

struct wakeup_ring {
    size_t first, n;
    struct {
        int64_t id, at_ms;
    } item[WAKEUPS_RING_MAX];
};

struct wakeups {
    struct wakeup_batch *batches; /* a queue of WAKEUPS_BATCHES_MAX, the oldest at `first` */
    size_t first, n_batches;
    struct wakeup_ring again[WAKEUPS_TRIES];
    int64_t recent[WAKEUPS_RECENT];
    int64_t pending; /* ids delivered and not asked for */
    int64_t dropped; /* ids the ring had no room for */
};

bool wakeups_init(struct wakeups *w); /* false: no memory */
void wakeups_clear(struct wakeups *w);

/* A delivery arrived. false: too many are held (it stays unacked; a new epoch brings it again). */
bool wakeups_add(struct wakeups *w, int64_t epoch, const int64_t *ids, size_t n, uint64_t last_tag);

/* The channel is gone: whatever was not asked for will be delivered again. */
void wakeups_forget(struct wakeups *w);

/* Write up to `max` ids that are to be asked for now into `ids`, those of the ring that are due
 * first. `tries[i]` says how often ids[i] was asked before. */
size_t wakeups_take(struct wakeups *w, int64_t now_ms, int64_t *ids, int *tries, size_t max);

/* A round that asked for these ids has committed, and this one was claimed, or it was not. */
void wakeups_claimed(struct wakeups *w, int64_t id);
void wakeups_unclaimed(struct wakeups *w,
                       int64_t id); /* it was put back: its next wake-up counts */
bool wakeups_was_claimed(const struct wakeups *w, int64_t id);
void wakeups_missed(struct wakeups *w, int64_t id, int tries, int64_t now_ms);

/* The round committed: all that was asked for is settled. Returns true and the tag to ack, if
 * any delivery is whole; call until it returns false. */
void wakeups_settle(struct wakeups *w);
bool wakeups_next_ack(struct wakeups *w, int64_t *ret_epoch, uint64_t *ret_tag);

/* The round did not commit: ask again for what was asked. */
void wakeups_unask(struct wakeups *w);

/* When the first id is to be asked again; INT64_MAX = there is none. */
int64_t wakeups_due(const struct wakeups *w);

#endif
