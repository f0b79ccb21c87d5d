/* Tasks that were taken from a worker: counted, and published at once. */
#ifndef TENON_CLEANER_RECOVER_H
#define TENON_CLEANER_RECOVER_H

#include "cleaner/state.h"

struct recovered {
    int64_t tasks; /* put back */
    int64_t dead;  /* of them, those that ended dead */
};

/* The rows of a statement that called tenon.requeue: id, state, queue. Adds to `sum`. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum);

/* After the last of them: the leader wakes those that are ready. */
void recover_end(struct cleaner *c, const struct recovered *sum, int64_t now_ms);

#endif
