/* How many messages of a queue may be on their way: what is committed in PREFETCH_AHEAD_MS, so that
 * RabbitMQ sends the next piece during a commit, and no more waits here than is taken soon: the
 * rest is for others that consume the same queue. Pure: it is told what was committed. */
#ifndef TENON_INTAKE_PREFETCH_H
#define TENON_INTAKE_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PREFETCH_MIN = 32,
    PREFETCH_MAX = 2000,
    PREFETCH_BYTES_MAX = 32 << 20, /* of bodies on their way */
    PREFETCH_AHEAD_MS = 250,
    PREFETCH_FIRST = 100,
    PREFETCH_WINDOW_MS = 250, /* what is measured at a time; first, PREFETCH_FIRST messages */
};

struct prefetch {
    int fixed;                 /* 0 = it follows the commits */
    int now;                   /* what RabbitMQ was told last */
    int64_t begun_ms;          /* the window; 0 = none */
    int64_t n, bytes, busy_us; /* in it */
    bool measured;             /* one window was */
};

/* A piece of `n` messages was committed, which took `busy_us`. */
void prefetch_note(struct prefetch *p, int64_t n, int64_t bytes, int64_t busy_us);

/* How many it should be; `now` as long as that is at most twice too many or too few, since a change
 * costs RabbitMQ a consumer. */
int prefetch_wanted(struct prefetch *p, int64_t now_ms);

#endif
