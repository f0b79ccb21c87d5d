/* When a child of a pool handler may start: as many at a time as there are processors, and besides
 * as many that are the first of their handler. If all started at once, each would take as long as
 * all together. */
#ifndef TENON_WORKER_DECIDE_START_H
#define TENON_WORKER_DECIDE_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decider;

enum {
    START_LIMIT_MS = 60000,       /* default: how long a pool child may take to say hello */
    START_LIMIT_MIN_MS = 1000,    /* the least that may be set */
    START_LIMIT_MAX_MS = 3600000, /* the most */
    START_TOLD_MS = 1000,         /* a handler that starts for longer is reported as starting */
    START_SLOW_MS = 10000,        /* a start that takes longer is logged */
    BACKOFF_MIN_MS = 100,         /* pause after a failed start; doubled each time */
    BACKOFF_MAX_MS = 30000,
};

/* Count the children that start and that have started; call it before the functions below. */
void start_count(struct decider *d, int64_t now_ms);

/* May a child of this handler start now, if there is a slot for it? */
bool start_may(const struct decider *d, int handler);

/* In how many of `n_empty` empty slots could a child start now? */
int start_room(const struct decider *d, int n_empty);

/* Would its tasks have to wait, because no child has said hello and none may start now? */
bool start_is_awaited(const struct decider *d, int handler);

/* Start a child. One that is not of a pool starts with the first waiting task, which the caller
 * must give to it. */
void start_child(struct decider *d, int slot, int handler, int64_t now_ms);

/* This child was started before the decider existed, and has said hello. */
void start_adopt(struct decider *d, int slot, int handler, int room, bool hears_stop,
                 int64_t now_ms);

/* If all handlers are pools, start children with the worker, as many of each handler, and do not
 * wait for tasks. */
void start_warm_up(struct decider *d, int64_t now_ms);

/* A child did not start: no further one starts for a while, and no task of the handler is claimed,
 * so that its tasks are not claimed and released over and over. */
void start_failed(struct decider *d, int handler, const char *text, int64_t now_ms);

/* Log once that this child is slow to start. */
void start_tell_slow(struct decider *d, int slot, int64_t now_ms);

/* If all children of a handler are starting: the slot of the oldest one, if it has taken
 * START_TOLD_MS or longer; -1 = none. */
int start_oldest(const struct decider *d, int handler, int64_t now_ms);

/* Which handlers do not start, and why: "mail,sms: exit status 3", a line for each; "" = none. */
void start_backing_off(const struct decider *d, char *text, size_t size);

#endif
