/* What a cleaner shows over HTTP (`--http`). Its loop sets its state; threads of requests read
 * that. The one that leads shows besides what the database has, see statistics.h. */
#ifndef TENON_CLEANER_METRICS_H
#define TENON_CLEANER_METRICS_H

#include "cleaner/state.h"

enum { CLEANER_STILL_MAX_MS = 60000 }; /* a statement takes DB_ANSWER_LIMIT_MS at most */

struct cleaner_metrics;

/* Serve.
 *   url     of the database; borrowed
 *   false   see probes_open() */
MUST_CHECK bool cleaner_metrics_open(const char *address, const char *url,
                                     struct cleaner_metrics **ret, struct fault *f);
void cleaner_metrics_close(struct cleaner_metrics *m); /* NULL is fine */

/* The loop moves, and this is its state. Does nothing without `--http`. */
void cleaner_metrics_note(const struct cleaner *c, int64_t now_ms);

#endif
