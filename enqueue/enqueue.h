/* `tenon enqueue`: one task, and its wake-up, as any program enqueues with libtenon. */
#ifndef TENON_ENQUEUE_ENQUEUE_H
#define TENON_ENQUEUE_ENQUEUE_H

#include "core/options/option.h"

bool enqueue_run(const struct options *o, struct fault *f);

#endif
