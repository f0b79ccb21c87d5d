/* `tenon enqueue`: reads its options, does its work, logs its own faults. Returns the exit code. */
#ifndef TENON_ENQUEUE_ENQUEUE_H
#define TENON_ENQUEUE_ENQUEUE_H

#include "core/option.h"

int enqueue_main(const struct options *o);

#endif
