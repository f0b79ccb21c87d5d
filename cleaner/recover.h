/* Tasks that are taken from a worker: requeued batch by batch, counted, and published at once. */
#ifndef TENON_CLEANER_RECOVER_H
#define TENON_CLEANER_RECOVER_H

#include "cleaner/state.h"

struct recovered {
    int64_t tasks; /* requeued */
    int64_t dead;  /* of them, those that ended dead */
};

/* In the plain session, batch by batch until nothing comes: all done, or what is left is locked.
 * After so many batches the rest is left for the next turn, too.
 *   statement  calls tenon.requeue for a bounded number of tasks; its rows are id, queue, kind,
 *              state */
MUST_CHECK bool recover_all(struct cleaner *c, const struct statement *statement,
                            const char *const *params, int n_params, struct recovered *sum,
                            struct fault *f);

/* The rows of one such statement: counted, added to `sum`, and those that are ready are woken. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum);

#endif
