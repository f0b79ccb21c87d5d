/* The flight recorder: what went into the decider, and a digest of each action that came out, so
 * that worker/replay.h can go through it again, step by step.
 *
 * Numbers, kinds and queues only: no payloads, results, progress, steps or texts of errors. Each
 * line ends with a sum of itself and all before it, so that what was changed is found before it is
 * believed: the decider's state is memory, and a wrong digit in it may be anything. Lines:
 *
 *   tenon-record FORMAT VERSION BYTES     bytes of struct decider: the same program must replay it
 *   o slots handlers drain_limit until_empty starts random now unix_ms
 *   h pool take wait start_limit kinds    for each handler
 *   (the decider's state, worker/record_state.h: in a file that goes on from another)
 *   an event: its letter, ms since the line before, its fields
 *     W epoch tag n ids       B up epoch       P up renewed since      F failure
 *     H slot room hears       R slot id outcome bytes delay            G slot id bytes extend
 *     S slot id bytes         C slot   Y slot  X slot failed well      U n ids     L      Z      T
 *     c ..., m ...            claims and own tasks of the answer of a round, which follows:
 *     D end turn finished requeued verdicts progress steps timeouts
 *   > due digests             the decider was asked, and this came out
 *   + digests                 actions of events between action and action
 *   . end | goes on           the worker ended; or the next file goes on
 *
 * bytes -1 = there was none. It writes once in a pass of the main loop at most, and only when
 * there is much or it is old. When a write fails, it ends, and says so; the worker goes on. */
#ifndef TENON_WORKER_RECORD_H
#define TENON_WORKER_RECORD_H

#include "core/fault.h"
#include "worker/decide/decider.h"

#include <stdint.h>

enum {
    RECORD_FORMAT = 2,
    RECORD_FILE_BYTES_MAX = 64 << 20, /* then FILE becomes FILE.1, and a new one begins */
    RECORD_OVER_BYTES_MAX = 64 << 20, /* beyond that, when none can: then it ends */
    RECORD_BUFFER_BYTES = 64 << 10,   /* so much is written at once, */
    RECORD_BUFFER_MS = 1000,          /* or what is so old */
    RECORD_TEXT_BYTES_MAX = 64 << 20, /* what may wait to be written */
    RECORD_PATH_BYTES = 4096,
    RECORD_SUM_BYTES = 9, /* " 0123abcd", at the end of a line */
};

struct record; /* NULL, which all take but record_open(), = nothing is recorded */

/* Begin to record, before the decider's first event. A file that is there becomes PATH.1.
 *   bytes_max   of one file, about
 *   false       CONFIG: the file cannot be made; MEMORY */
MUST_CHECK bool record_open(const char *path, int64_t bytes_max, const struct decider *d,
                            struct record **ret, struct fault *f);

/* Before decider_event(), with the same time. */
void record_event(struct record *r, const struct decider *d, const struct event *e, int64_t now_ms);

/* Before and after decider_decide(), and when its actions have been done, before they are
 * forgotten. */
void record_ask(struct record *r, const struct decider *d, int64_t now_ms);
void record_answer(struct record *r, const struct decider *d, int64_t due_ms);
void record_acted(struct record *r, const struct decider *d);

/* Once in a pass: write what is due. */
void record_write(struct record *r, int64_t now_ms);

/* The worker ends well. */
void record_close(struct record *r);

uint32_t record_digest(const struct decider *d, const struct action *a);

/* The end of a line of so many bytes.
 *   sum   of the lines before, and then with this one; 0 before the first
 *   ret   no NUL ends it */
void record_seal(uint32_t *sum, const char *line, size_t bytes, char ret[RECORD_SUM_BYTES]);

#endif
