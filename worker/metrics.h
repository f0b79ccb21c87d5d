/* What a worker shows over HTTP (`--http`). The main loop sets its state; threads of requests
 * read that, and hold up nobody. */
#ifndef TENON_WORKER_METRICS_H
#define TENON_WORKER_METRICS_H

#include "core/base/fault.h"
#include "worker/decide/decider.h"

enum { WORKER_STILL_MAX_MS = 12000 }; /* the main loop moves every PRESENCE_PING_MS at least */

enum worker_broker { BROKER_NONE, BROKER_AWAY, BROKER_UP };

struct worker_metrics;

/* Serve. Before the loop runs, the worker is alive and not ready.
 *   series  where the decider counts; borrowed
 *   false   see probes_open() */
MUST_CHECK bool worker_metrics_open(const char *address, struct series *series,
                                    struct worker_metrics **ret, struct fault *f);
void worker_metrics_close(struct worker_metrics *m); /* NULL is fine */

/* The main loop moves, and this is its state. */
void worker_metrics_note(struct worker_metrics *m, const struct decider *d,
                         enum worker_broker broker, int64_t now_ms);

#endif
