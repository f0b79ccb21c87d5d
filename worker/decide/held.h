/* The claims that this worker holds, from the round that claims a task to the round that ends it.
 * Each is in the list that its state names, and only these functions move it to another. */
#ifndef TENON_WORKER_DECIDE_HELD_H
#define TENON_WORKER_DECIDE_HELD_H

#include "worker/decide/claim.h"

struct decider;

struct claim *held_find(const struct decider *d, int64_t id); /* NULL = it is not held */

/* Take a claim out of its list. Its state is for the caller to set. */
void held_unlist(struct decider *d, struct claim *c);

/* The claim waits for a child. */
void held_wait(struct decider *d, struct claim *c, int64_t now_ms);

/* The claim has this outcome now, and this error unless it is NULL, which is taken over. It leaves
 * its slot or waiting list, and waits for the next round. */
void held_end(struct decider *d, struct claim *c, enum claim_outcome outcome, char *error);
void held_list_ended(struct decider *d, struct claim *c, bool first); /* by its outcome */

/* The next round asks whether the claim is ours still. */
void held_doubt(struct decider *d, struct claim *c);

/* The database knows how the task ended, or the claim is not ours any more. */
void held_drop(struct decider *d, struct claim *c);

/* One handler's share of HELD_BYTES_MAX, so that none starves the others. */
size_t held_bytes_share(const struct decider *d);

#endif
