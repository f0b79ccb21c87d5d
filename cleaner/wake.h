/* Waking the workers: through RabbitMQ, or, while there is none, with a NOTIFY that names what
 * there is to do: one for many rows, and never in a producer's commit. */
#ifndef TENON_CLEANER_WAKE_H
#define TENON_CLEANER_WAKE_H

#include "cleaner/state.h"

/* The first session is there: start the publisher, unless the URL is "none". With --once its fault
 * is logged at once and decides the exit code; the other chores are done all the same. */
MUST_CHECK bool wake_open(struct cleaner *c, struct fault *f);

/* Does it go by NOTIFY at the moment? */
bool wake_notifies(const struct cleaner *c);

/* The task in row `i` is ready; the row begins with id, queue and kind. Never waits; false: not
 * now, the workers' own polls find it. */
bool wake_row(struct cleaner *c, const struct rows *rows, size_t i);

/* All of them. ret: how many were not left to polls */
int64_t wake_rows(struct cleaner *c, const struct rows *rows);

/* After a chore: the NOTIFY, if there is something to say. */
MUST_CHECK bool wake_send(struct cleaner *c, struct fault *f);

#endif
