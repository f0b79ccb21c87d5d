/* Events from the worker's threads to its main loop, in order. A push never blocks for long and
 * never fails silently: when there is no memory for one, `lost` is set. */
#ifndef TENON_WORKER_MAILBOX_H
#define TENON_WORKER_MAILBOX_H

#include "core/base/fault.h"
#include "worker/decide/event.h"

#include <pthread.h>

struct mail {
    struct event event; /* ids and text point behind the struct */
    struct mail *next;
};

struct mailbox {
    pthread_mutex_t mutex;
    struct mail *first, *last;
    int fd; /* an eventfd: readable while there is mail */
    bool lost;
};

MUST_CHECK bool mailbox_init(struct mailbox *m, struct fault *f);
void mailbox_clear(struct mailbox *m);

/* Copies the event with its ids and text. Any thread. */
void mailbox_push(struct mailbox *m, const struct event *event);

/* All the mail there is, oldest first, NULL when there is none; free each with free(). */
struct mail *mailbox_take(struct mailbox *m);

#endif
