/* Starts the first child of the handler "*", whose hello names the kinds that the worker serves. */
#ifndef TENON_WORKER_LEARN_H
#define TENON_WORKER_LEARN_H

#include "worker/children.h"

struct learned {
    int room;        /* tasks that the child takes at once */
    bool hears_stop; /* it understands the line that says stop */
};

/* Start a child in this slot and wait for its hello, at most for the handler's start limit. The
 * child keeps running, and `handlers` has its kinds then.
 *   stop_fd  readable when the process is told to stop
 *   false    RETRY: it does not start; CONFIG: other handlers have all of its kinds; NONE: stop */
MUST_CHECK bool learn_kinds(struct child *slot, struct handlers *handlers, int handler, int stop_fd,
                            struct learned *ret, struct fault *f);

#endif
