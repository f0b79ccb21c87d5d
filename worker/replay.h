/* Goes through a recording (worker/record.h) again: a decider gets the same events at the same
 * times, and must come to the same actions. So an incident can be looked at step by step. */
#ifndef TENON_WORKER_REPLAY_H
#define TENON_WORKER_REPLAY_H

#include "core/fault.h"

#include <stdint.h>
#include <stdio.h>

enum replay_end {
    REPLAY_CUT,     /* the worker was killed, or the file was cut */
    REPLAY_ENDED,   /* the worker ended */
    REPLAY_GOES_ON, /* in the next file */
};

struct replay {
    enum replay_end end;
    int64_t lines, events, decisions, actions;
    int64_t took_ms; /* from the first to the last */
};

/* Replay a file, and print event by event and action by action to `out`, NULL = nothing.
 *   ret     what was replayed; when it was false, up to there
 *   false   CONFIG: it cannot be read, is no recording, or another version's
 *           REFUSED: a line cannot be read; which
 *           BUG: the decider came to something else there; where
 *           MEMORY */
MUST_CHECK bool replay_file(const char *path, FILE *out, struct replay *ret, struct fault *f);

struct options;

/* `tenon replay FILE` */
MUST_CHECK bool replay_run(const struct options *o, struct fault *f);

#endif
