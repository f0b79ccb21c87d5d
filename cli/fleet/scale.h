/* How many workers there should be: up at once, down slowly. Pure. */
#ifndef TENON_CLI_SCALE_H
#define TENON_CLI_SCALE_H

#include <stdbool.h>
#include <stdint.h>

struct scale {
    int64_t min, max, down_after_ms;
    int64_t n;       /* as decided last */
    bool low;        /* fewer are wanted, without a break, */
    int64_t low_ms;  /* since then, */
    int64_t low_top; /* and the maximum */
};

/* At first `n` are there. */
struct scale scale_start(int64_t min, int64_t max, int64_t down_after_ms, int64_t n);

/* `wanted` now: as many at once if that is more; if fewer were wanted all through down_after_ms,
 * the most of what was wanted then. ret: how many there should be, within min and max. */
int64_t scale_next(struct scale *s, int64_t wanted, int64_t now_ms);

/* Have there been fewer than were told to be, all through the time that one may take to start? Once
 * for each such time. */
enum { SCALE_START_MS = 30000 };

struct scale_gap {
    bool open;
    int64_t since_ms;
};

bool scale_lacks(struct scale_gap *gap, int64_t told, int64_t there, int64_t now_ms);

#endif
