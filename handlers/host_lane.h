/* A thread of tenon-host, which runs one task at a time. */
#ifndef TENON_HANDLERS_HOST_LANE_H
#define TENON_HANDLERS_HOST_LANE_H

#include "handlers/host_plugin.h"
#include "handlers/pool.h"

#include <pthread.h>
#include <stdatomic.h>

/* What the lanes share; the lock is for `pool`'s answers and for who has a task. */
struct host {
    struct plugin plugin;
    struct pool pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended; /* no more tasks come */
};

struct lane {
    tenon_context context; /* first, so that it leads to its lane */
    struct host *host;
    pthread_t thread;
    struct pool_task task;
    bool has_task;
    atomic_bool stopped;
    int64_t delay_ms;
    struct buf result, error, class;
};

MUST_CHECK bool lane_start(struct lane *l, struct host *h, struct fault *f);
void lane_join(struct lane *l); /* after `ended` */

/* Give it a task, which it takes over; with the lock. */
void lane_give(struct lane *l, struct pool_task *task);

#endif
