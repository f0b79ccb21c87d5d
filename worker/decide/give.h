/* Which waiting task goes to which child, and for which handler a child is started. */
#ifndef TENON_WORKER_DECIDE_GIVE_H
#define TENON_WORKER_DECIDE_GIVE_H

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct decider_handler;

/* Waiting claims go to children, and children are started for them. */
void give_decide(struct decider *d, int64_t now_ms);
int64_t give_due(const struct decider *d, int64_t now_ms);

/* From when on the waiting tasks of a handler, of which there is one at least, may be given; is
 * there a child for them now? */
int64_t give_ripe_ms(const struct decider *d, const struct decider_handler *h);
bool give_has_child(const struct decider *d, int handler);

#endif
