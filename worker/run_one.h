/* `tenon worker --run-one KIND FILE`: run a handler by hand, with no daemon and no servers. */
#ifndef TENON_WORKER_RUN_ONE_H
#define TENON_WORKER_RUN_ONE_H

#include "core/options/option.h"

/* The payload comes from FILE, "-" is stdin. Prints the result on stdout, and what the handler
 * wrote to stderr on stderr. Exit code: 0 done, 75 snooze, 65 dead, 1 failed, 2 usage. */
int run_one_main(const struct options *o);

#endif
