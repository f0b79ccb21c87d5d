/* The cleaner's session, which lives as long as it can.
 *
 * Everything that counts on one unbroken session hangs on it: leadership, LISTEN, the sleeper's
 * lock, and the patience with workers that seem dead. */
#ifndef TENON_CLEANER_SESSION_H
#define TENON_CLEANER_SESSION_H

#include "cleaner/state.h"

enum { SESSION_PAUSE_MIN_MS = 100, SESSION_PAUSE_MAX_MS = 10000 };

/* Connect if it is time, and make every chore due. ret: when to call again; `now_ms` = connected.
 * A fault that only a person can mend ends the cleaner, unless it was connected before. */
int64_t session_connect(struct cleaner *c, int64_t now_ms);

/* The hot session broke: log why, close it, and plan the next try. */
void session_lost(struct cleaner *c, const struct fault *f);

#endif
