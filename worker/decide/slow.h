/* Rounds that take too long: each after one takes an eighth of the outcomes, steps and progress,
 * until the one that is too slow is alone. It is sent last and alone, and after some tries it is
 * set aside like a text that the database cannot store: a note replaces the outcome's text. A try
 * counts only if another round has committed since the last one. */
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
    ROUND_SLOW_MS = 10000, /* a round that failed after that had too much, or its server stood */
    ROUND_SLOW_TRIES = 3,  /* of one alone */
};

/* The round in flight failed; before what it had is taken back. Of what the server did not end
 * itself only the number of rows learns: nothing is set aside because the server is away. */
void slow_failed(struct decider *d, enum round_failure failure, const char *text, int64_t now_ms);

/* Twice as many again, up to `most`. */
size_t slow_grow(size_t max, size_t most);

/* May this outcome go beside those that the round has? */
bool slow_fits(const struct round *x, const struct claim *c);

#endif
