/* Fresh rows: published as soon as they are committed, for producers that know no broker. */
#ifndef TENON_CLEANER_FRESH_H
#define TENON_CLEANER_FRESH_H

#include "cleaner/state.h"

/* The leadership begins: LISTEN, and everything that is there already is old. */
MUST_CHECK bool fresh_start(struct cleaner *c, int64_t now_ms, struct fault *f);

#endif
