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
 *   statement  calls tenon.recover for a bounded number of tasks; its rows are id, queue, kind,
 *              state
 *   given      its parameter before the number; NULL: it has none */
MUST_CHECK bool recover_all(struct cleaner *c, const struct statement *statement, const char *given,
                            struct recovered *sum, struct fault *f);

/* How many the next statement takes; and when one failed: fewer, soon, if one task may be why. */
enum { RECOVER_LIMIT_BYTES = 24 };
const char *recover_limit(struct cleaner *c, char text[RECOVER_LIMIT_BYTES]);
void recover_failed(struct cleaner *c, struct fault *f);

/* The rows of one such statement: counted, added to `sum`, and those that are ready are woken. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum);

#endif
