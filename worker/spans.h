/* The spans of the tasks that run here: each begins when a child is given its task, ends with the
 * answer or the end of the child, and is sent when the database has taken the outcome.
 *
 * They are read off from what goes into the decider and comes out of it; it knows nothing of them.
 * A claim that was lost has no span of ours: whoever recovered the task tells it (cleaner/). */
#ifndef TENON_WORKER_SPANS_H
#define TENON_WORKER_SPANS_H

#include "core/otlp.h"
#include "worker/decide/decider.h"

enum { SPANS_OPEN_MAX = 16384 }; /* a task beyond it has none */

struct spans;

/* A claim as its handler gets it: under a span, the trace names that. */
struct spans_claim {
    struct claim claim;
    char trace[TRACEPARENT_BYTES];
};

/* NULL, which all others take, when `otlp` is NULL or there is no memory. */
struct spans *spans_new(struct otlp *otlp);
void spans_free(struct spans *s);

/* A child is given this claim. ret: what to give it; `c`, or a copy in `*copy` */
const struct claim *spans_begin(struct spans *s, const struct claim *c, int slot,
                                struct spans_claim *copy);

/* Before the decider gets it. */
void spans_event(struct spans *s, const struct decider *d, const struct event *e);

#endif
