/* The worker's head: events in, actions out. No I/O, no clock; the time is given.
 *
 * The owner feeds events one by one and then asks for actions:
 *
 *   decider_event(d, &event, now_ms);          as many as have happened
 *   due_ms = decider_decide(d, now_ms);        d->actions.items[0 .. n) are to be done, in order
 *   ... wait for an event, but no longer than until due_ms ...
 *
 * One round with the database is in flight at a time. All that is due goes into it, and while it
 * runs, more becomes due. So batches size themselves: one task when idle, hundreds when busy. */
#ifndef TENON_WORKER_DECIDE_DECIDER_H
#define TENON_WORKER_DECIDE_DECIDER_H

#include "worker/decide/event.h"
#include "worker/decide/state.h"

enum {
    PRESENCE_GRACE_MS = 20000, /* after this long without PostgreSQL all children are stopped */
    FAST_US = 10000,           /* with tasks that take less, many wake-ups are held at a time */
};

/* `kinds[i]` names the kinds of handler i, separated by commas; borrowed for the decider's life. */
struct decider *decider_new(int n_slots, int n_handlers, const char *const *kinds, const bool *pool,
                            int64_t drain_limit_ms, bool until_empty, uint64_t seed,
                            int64_t now_ms);
void decider_free(struct decider *d);

/* A child of this handler gets up to `chunk_size` tasks together, 1..CHUNK_MAX, and its next ones
 * once all of those have ended; 0 = one by one. The oldest task waits up to `chunk_wait_ms`,
 * 0..CHUNK_WAIT_MAX_MS, for the others. */
void decider_chunks(struct decider *d, int handler, int chunk_size, int64_t chunk_wait_ms);

void decider_event(struct decider *d, const struct event *event, int64_t now_ms);
int64_t decider_decide(struct decider *d, int64_t now_ms);

#endif
