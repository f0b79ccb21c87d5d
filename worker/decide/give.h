/* Which waiting task goes to which child, and for which handler a child is started. */
#ifndef TENON_WORKER_DECIDE_GIVE_H
#define TENON_WORKER_DECIDE_GIVE_H

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct decider_handler;

/* Give waiting tasks to children, and start children for them. */
void give_decide(struct decider *d, int64_t now_ms);
int64_t give_due(const struct decider *d, int64_t now_ms);

/* When the waiting tasks of a handler may be given (there must be one); has it a child for them? */
int64_t give_ripe_ms(const struct decider *d, const struct decider_handler *h);
bool give_has_child(const struct decider *d, int handler);

#endif
