/* `tenon intake --http`: the metrics of all sources, and the probes. */
#ifndef TENON_INTAKE_METRICS_H
#define TENON_INTAKE_METRICS_H

#include "intake/source.h"

enum { INTAKE_STILL_MAX_MS = 60000 }; /* its main loop may stand so long */

struct intake_metrics;

/*   sources   borrowed for the time it is open
 *   false     as probes_open() */
MUST_CHECK bool intake_metrics_open(const char *address, struct source *const *sources, size_t n,
                                    struct intake_metrics **ret, struct fault *f);

/* The main loop moves. NULL is fine, here and below. */
void intake_metrics_note(struct intake_metrics *m, int64_t now_ms);

void intake_metrics_close(struct intake_metrics *m);

#endif
