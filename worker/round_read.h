/* What a round was told. */
#ifndef TENON_WORKER_ROUND_READ_H
#define TENON_WORKER_ROUND_READ_H

#include "worker/round_build.h"

/* Into r->round and r->context; false: no memory. The rows are the caller's. */
MUST_CHECK bool round_read(struct round_calls *r);

#endif
