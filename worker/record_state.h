/* What the decider knows between two rounds, as lines of a recording, so that a file can go on from
 * another one.
 *
 *   x at=word ...         struct decider without what it points to: its 8-byte words that are not 0
 *   k paused told         a digit for each kind
 *   q queue kind said at=word ...    a claim, list by list; said 1 = it has progress to be written
 *   z id key handler bytes    a step to be written
 *   e                     the end
 *
 * Texts of errors, progress and steps are left out; they change no decision. */
#ifndef TENON_WORKER_RECORD_STATE_H
#define TENON_WORKER_RECORD_STATE_H

#include "core/buf.h"
#include "worker/decide/decider.h"

/* Is there nothing that only a round in flight knows? */
bool record_state_is_whole(const struct decider *d);

/* A claim's key as a recording has it: half of its bits are gone, so that whoever reads the file
 * cannot act in its name. */
int64_t record_state_key(int64_t key);

/* false: no memory */
MUST_CHECK bool record_state_put(struct buf *b, const struct decider *d);

/* Take one of those lines, NUL-terminated and without its newline, into a decider that is new.
 *   ret_end   it was the last one
 *   false     REFUSED: it cannot be read; MEMORY */
MUST_CHECK bool record_state_take(struct decider *d, char *line, bool *ret_end, struct fault *f);

#endif
