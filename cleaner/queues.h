/* The queues that the leader knows: declared in the broker, each with the sweep over its rows. */
#ifndef TENON_CLEANER_QUEUES_H
#define TENON_CLEANER_QUEUES_H

#include "cleaner/decide/sweep.h"
#include "cleaner/state.h"

enum {
    QUEUES_MAX = PUBLISHER_QUEUES_MAX,
    QUEUE_NAME_BYTES = 64,
};

struct queue {
    const char *name;
    struct sweep sweep;
};

/* Know a queue: the first time, it is declared. false: the name is no queue's, there are too
 * many, or there is no memory; its rows are found by the workers alone. */
bool queues_know(struct cleaner *c, const char *name);

/* All of them, in no particular order. ret: how many, at most QUEUES_MAX. Borrowed until the next
 * change of the table. */
size_t queues_list(struct cleaner *c, struct queue *list[QUEUES_MAX]);

void queues_free(struct cleaner *c);

#endif
