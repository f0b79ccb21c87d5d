/* The wake-ups of open transactions, which nobody may publish yet, by connection. Bounded. Not
 * thread-safe. */
#ifndef TENON_ENQUEUE_LEDGER_H
#define TENON_ENQUEUE_LEDGER_H

#include "core/amqp/amqp_publisher.h"

struct ledger_page; /* one connection's wake-ups */

struct ledger {
    struct ledger_page *pages;
    size_t n; /* pages: connections with an open transaction that has enqueued */
};

/* How many are remembered for `conn`, which is only compared. */
size_t ledger_count(const struct ledger *l, const void *conn);

/* Remember a wake-up, which is the ledger's from now on. False: over a limit, or
 * without memory; it is freed. NULL is fine. */
bool ledger_add(struct ledger *l, const void *conn, struct wakeup *w);

/* Forget those of `conn`, and return them in the order they came; they are the caller's. */
struct wakeup *ledger_take(struct ledger *l, const void *conn);

void ledger_clear(struct ledger *l);

#endif
