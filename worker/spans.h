/* The spans of the tasks that run here: each begins when a child is given its task, ends with the
 * answer or the end of the child, and is sent when the database has taken the outcome.
 *
 * They are read off from what goes into the decider and comes out of it; it knows nothing of them.
 * A claim that was lost has no span of ours: the cleaner that recovered the task reports it
 * (cleaner/). */
#ifndef TENON_WORKER_SPANS_H
#define TENON_WORKER_SPANS_H

#include "core/http/otlp.h"
#include "worker/decide/decider.h"

enum { SPANS_OPEN_MAX = 16384 }; /* a task beyond it has none */

struct spans;

/* NULL, which all others take, when `otlp` is NULL or there is no memory. */
struct spans *spans_new(struct otlp *otlp);
void spans_free(struct spans *s);

/* A child is given `n` claims, from `c` on. ret: what to give it, as many: `c`, or copies whose
 * trace names their spans, borrowed until the next call */
const struct claim *spans_begin(struct spans *s, const struct claim *c, int n, int slot);

/* Before the decider gets it. */
void spans_event(struct spans *s, const struct decider *d, const struct event *e);

#endif
