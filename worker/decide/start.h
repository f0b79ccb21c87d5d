/* When a child of a pool handler may start: one of each handler first, then as many at a time as
 * there are processors (beside them, as many first ones). To start all at once would make each take
 * as long as all together. */
#ifndef TENON_WORKER_DECIDE_START_H
#define TENON_WORKER_DECIDE_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decider;

enum {
    START_LIMIT_MS = 60000,       /* default: how long a pool child may take to say hello */
    START_LIMIT_MIN_MS = 1000,    /* ... the least that may be set */
    START_LIMIT_MAX_MS = 3600000, /* and the most */
    START_TOLD_MS = 1000,         /* from then on a handler is reported as starting */
    START_SLOW_MS = 10000,        /* a start that takes longer is logged */
    BACKOFF_MIN_MS = 100,         /* of a handler that does not start, twice as long each time */
    BACKOFF_MAX_MS = 30000,
};

/* Count what starts and what has started; once in each decider_decide(), before the questions. */
void start_count(struct decider *d, int64_t now_ms);

/* May a child of this handler start now, if there is a slot for it? */
bool start_may(const struct decider *d, int handler);

/* How many of so many empty slots could have a child now? */
int start_room(const struct decider *d, int n_empty);

/* Would its tasks have to wait for a child to be started, because none has said hello, and no
 * further one may start now? */
bool start_is_awaited(const struct decider *d, int handler);

/* Start a child; for exec with the first waiting task, which its caller gives to it. */
void start_child(struct decider *d, int slot, int handler, int64_t now_ms);

/* Pool children start with the worker, not with the first tasks, evenly over the handlers. */
void start_warm_up(struct decider *d, int64_t now_ms);

/* A child did not start: the handler backs off, so that its tasks are neither charged nor claimed
 * over and over. */
void start_failed(struct decider *d, int handler, const char *text, int64_t now_ms);

/* Log once that this child is slow to start. */
void start_tell_slow(struct decider *d, int slot, int64_t now_ms);

/* The slot of the oldest child that starts, of a handler that has no other child and waits for it
 * since START_TOLD_MS; -1 = none. */
int start_oldest(const struct decider *d, int handler, int64_t now_ms);

/* Which handlers do not start, and why: "mail,sms: exit status 3", a line for each; "" = none. */
void start_backing_off(const struct decider *d, char *text, size_t size);

#endif
