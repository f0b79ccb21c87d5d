/* The wake-ups of open transactions, which nobody may publish yet, by connection. Bounded. Not
 * thread-safe. */
#ifndef TENON_ENQUEUE_PENDING_H
#define TENON_ENQUEUE_PENDING_H

#include "core/amqp/amqp_publisher.h"

struct pending_page; /* one connection's wake-ups */

struct pending {
    struct pending_page *pages;
    size_t n; /* pages: connections with an open transaction that has enqueued */
};

/* How many are remembered for `conn`, which is only compared. */
size_t pending_count(const struct pending *p, const void *conn);

/* Remember a wake-up, which belongs to `p` from now on. False: over a limit, or
 * without memory; it is freed. NULL is fine. */
bool pending_add(struct pending *p, const void *conn, struct wakeup *w);

/* Forget those of `conn`, and return them in the order they came; they are the caller's. */
struct wakeup *pending_take(struct pending *p, const void *conn);

void pending_clear(struct pending *p);

#endif
