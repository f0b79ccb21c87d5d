/* What `--http` serves of a worker or cleaner, on threads of its own: /metrics for Prometheus; for
 * whoever starts and replaces processes /live and /ready (200 or 503, with a sentence). */
#ifndef TENON_CORE_PROBES_H
#define TENON_CORE_PROBES_H

#include "core/base/buf.h"

/* Each is called by several threads at once, and waits for nothing that the main loop does.
 *   live, ready   put a sentence; true = yes */
struct probed {
    void *owner;
    bool (*live)(void *owner, struct buf *sentence);
    bool (*ready)(void *owner, struct buf *sentence);
    void (*metrics)(void *owner, struct buf *text);
};

struct probes;

/* Listen and serve; the log says where.
 *   probed   borrowed for the time it is open
 *   false    CONFIG: no such address, or it is in use; RETRY: no threads; MEMORY */
MUST_CHECK bool probes_open(const char *address, const struct probed *probed, struct probes **ret,
                            struct fault *f);
void probes_close(struct probes *p); /* waits for requests that are under way; NULL is fine */

/* Does a main loop move that moved last at `moved_ms` and may pause for this long?
 *   moved_ms   0 = it has not begun: the program starts, which may take as long as it takes */
bool probes_moves(int64_t moved_ms, int64_t now_ms, int64_t limit_ms, struct buf *sentence);

/* The metrics that both have.
 *   part   "worker" */
void probes_write(struct buf *b, const char *part);

#endif
