/* The guard: a small process that outlives the worker by a moment and kills what it leaves
 * behind. It also kills the handlers of a worker whose main loop has not run for 20 s, because
 * PostgreSQL ends the worker's session 30 s after its last message, and then it counts as dead.
 *
 * PR_SET_PDEATHSIG ends a handler when the worker dies, but not the processes that the handler
 * started itself. The guard knows every handler's process group, reads from a pipe whose other
 * end only the worker has, and at its end kills the groups. */
#ifndef TENON_WORKER_GUARD_H
#define TENON_WORKER_GUARD_H

#include "core/base/fault.h"

#include <sys/types.h>

enum { GUARD_BEAT_MS = 1000, GUARD_SILENT_MS = 20000 };

/* Start the guard; before any thread is started. */
MUST_CHECK bool guard_start(struct fault *f);

/* A process group has started, or its handler was reaped. Nothing happens without a guard. */
void guard_watch(pid_t group);
void guard_forget(pid_t group);

/* The main loop moves: every GUARD_BEAT_MS, if it does not wait for longer. */
void guard_beat(void);

/* Let the guard end, and wait for it. */
void guard_stop(void);

#endif
