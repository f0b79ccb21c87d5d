/* `tenon worker`: reads its options, does its work, logs its own faults. Returns the exit code. */
#ifndef TENON_WORKER_WORKER_H
#define TENON_WORKER_WORKER_H

#include "core/options/option.h"

int worker_main(const struct options *o);

#endif
