/* The ids that open transactions have enqueued and nobody may publish yet, by connection. Bounded.
 * Not thread-safe. */
#ifndef TENON_ENQUEUE_LEDGER_H
#define TENON_ENQUEUE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_page; /* one connection's ids */

struct ledger {
    struct ledger_page *pages; /* a hash by connection */
};

/* How many ids are remembered for `conn`, which is only compared. */
size_t ledger_count(const struct ledger *l, const void *conn);

/* Remember an id. False: over a limit, or no memory. */
bool ledger_add(struct ledger *l, const void *conn, const char *exchange, const char *key,
                int64_t id);

/* Forget the ids of `conn`, and call `take` (may be NULL) with each, in the order they came. */
void ledger_end(struct ledger *l, const void *conn,
                void (*take)(void *arg, const char *exchange, const char *key, int64_t id),
                void *arg);

void ledger_clear(struct ledger *l);

#endif
