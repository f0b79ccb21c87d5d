/* The statements of one round, and which is which. */
#ifndef TENON_WORKER_ROUND_BUILD_H
#define TENON_WORKER_ROUND_BUILD_H

#include "core/base/buf.h"
#include "core/db/db.h"
#include "worker/decide/round.h"
#include "worker/handler.h"
#include "worker/poll.h"

enum { CALLS_MAX = 12, PARAMS_MAX = 12, TEXTS = 40 };

/* What stays from round to round. */
struct round_context {
    const struct served *served;
    bool forgets_history; /* done tasks are not kept */
    struct poll poll;
    struct buf texts[TEXTS]; /* array literals; their memory is kept */
};

struct round_calls {
    struct round_context *context;
    struct round *round;
    struct db_call calls[CALLS_MAX];
    const char *params[CALLS_MAX][PARAMS_MAX];
    size_t n, n_texts;
    const struct db_call *settings, *own, *verify, *progress, *steps, *finish, *requeue, *claim,
        *poll, *turn, *alone; /* NULL = none */
    bool failed;              /* no memory for a text */
};

/* False: no memory. The texts are the context's. */
MUST_CHECK bool round_build(struct round_calls *r, struct round_context *context,
                            struct round *round, const char *worker, struct fault *f);

#endif
