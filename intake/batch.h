/* A piece of messages on its way into the database: one statement, one transaction. */
#ifndef TENON_INTAKE_BATCH_H
#define TENON_INTAKE_BATCH_H

#include "core/base/buf.h"
#include "core/db/db.h"
#include "intake/incoming.h"

enum {
    BATCH_ROWS_MAX = 500,
    BATCH_BYTES_MAX = 8 << 20,         /* of bodies; one message may have more */
    BATCH_ARRAY_BYTES_MAX = 512 << 20, /* of one parameter */
};

/* What became of the messages of a piece. */
struct batch_counts {
    int64_t taken, repeated, rejected;
    int64_t kept;    /* of those that were taken or repeated: the body was not JSON */
    int64_t unkeyed; /* of those that were taken: they will not be recognized */
};

struct batch {
    const struct rules *rules;
    const char *queue;
    bool is_stream;
    int64_t payload_bytes_max;
    struct buf keys, kinds, payloads, traces, offsets; /* arrays */
    struct buf payload;                                /* of one message */
    size_t n;                                          /* messages in the arrays */
    struct batch_counts counts;
};

void batch_init(struct batch *b, const struct rules *rules, const char *queue, bool is_stream);
void batch_clear(struct batch *b);

/* How many of the first messages of the list make the next piece, and the bytes of their bodies. */
size_t batch_size(const struct incoming *list, int64_t *ret_bytes);

/* Take the first `n` messages of the list into the database. When it returns true they are
 * committed, except those with `rejected` set, and `counts` says what they were.
 *   false   as db_exec(): nothing is known to be committed, and they may be given again. ROW: the
 *           database allows less than this session has read; MEMORY */
MUST_CHECK bool batch_take(struct batch *b, struct db *db, struct incoming *list, size_t n,
                           struct fault *f);

#endif
