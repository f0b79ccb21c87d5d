/* Rounds that take too long. The next one has an eighth of the outcomes, steps and progress, and so
 * on, until the item that is too slow is alone. It then goes last, by itself, and after
 * ROUND_SLOW_TRIES it is refused, as if the database could not store it. A try counts only if
 * another round has committed since the last one. */
#ifndef TENON_WORKER_DECIDE_SLOW_H
#define TENON_WORKER_DECIDE_SLOW_H

#include "worker/decide/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim;
struct decider;
struct round;

enum {
    ROUND_SLOW_MS = 10000, /* a round that failed after this was too slow, or its server was */
    ROUND_SLOW_TRIES = 3,  /* of an item by itself */
};

/* The round in flight failed; call this before its outcomes and writes are taken back. When the
 * server is away, rounds become smaller, but that counts as no try. */
void slow_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms);

/* The limit after a round that committed: twice as much, up to `most`. */
size_t slow_grow(size_t max, size_t most);

/* May this outcome go into the round? One that was too slow has a round to itself. */
bool slow_fits(const struct round *x, const struct claim *c);

#endif
