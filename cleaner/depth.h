/* The depth of all queues: while this cleaner leads, all tasks are counted from time to time
 * (tenon.count_depth), in a thread and a session of its own, so that no chore waits for it.
 *
 * The next count begins DEPTH_PAUSE_FACTOR times as long after the end of the last one as that
 * took: so counting takes less than a twentieth of a processor, however many tasks there are. */
#ifndef TENON_CLEANER_DEPTH_H
#define TENON_CLEANER_DEPTH_H

#include "core/base/fault.h"

#include <stdint.h>

enum {
    DEPTH_PAUSE_FACTOR = 20,
    DEPTH_CHANGED_MS = 2000, /* between two counts at least */
    DEPTH_SAME_MS = 10000,   /* the same, after one that found nothing changed, or failed */
    DEPTH_STATEMENT_LIMIT_MS = 60000,
    DEPTH_ANSWER_LIMIT_MS = 65000,
    DEPTH_CLOSE_LIMIT_MS = 400,
    DEPTH_TELL_FAILURES = 3, /* in a row, of those that may pass */
};

struct depth;

/* Start the thread, which waits for depth_lead(). `url` is borrowed.
 *   false   RETRY: no thread; or no memory */
MUST_CHECK bool depth_open(const char *url, struct depth **ret, struct fault *f);

/* End it; a count that runs is given up, and its session ends. NULL is fine.
 *   false   it still connects to the server, and what it uses must stay */
bool depth_close(struct depth *d);

/* Whether this cleaner leads. When it stops leading, a count that runs is given up. NULL is
 * fine. */
void depth_lead(struct depth *d, bool leads);

/* Why counts keep failing; "" = they do not. NULL is fine. */
void depth_error(struct depth *d, char error[FAULT_TEXT_BYTES_MAX]);

#endif
