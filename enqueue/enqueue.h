/* `tenon enqueue`: one task, and its wake-up. */
#ifndef TENON_ENQUEUE_ENQUEUE_H
#define TENON_ENQUEUE_ENQUEUE_H

#include "core/option.h"

bool enqueue_run(const struct options *o, struct fault *f);

#endif
