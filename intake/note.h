/* The rows of tenon.intake, for `tenon status` and `tenon doctor`: written every 10 s, and within a
 * second when a source begins or ceases to take messages. In a thread with a session of its own, so
 * that a database that does not answer delays nothing else. */
#ifndef TENON_INTAKE_NOTE_H
#define TENON_INTAKE_NOTE_H

#include "intake/source.h"

enum {
    NOTE_MS = 10000,
    NOTE_TICK_MS = 1000,
    NOTE_ANSWER_LIMIT_MS = 5000,
    NOTE_CLOSE_LIMIT_MS = 1500, /* for deleting the rows at the end: it may have to connect */
    NOTE_CUT_LIMIT_MS = 250,    /* after that, for the session to be given up */
    NOTE_GOODBYES = 2,          /* attempts at that */
    NOTE_TELL_FAILURES = 3,     /* failures in a row before one that may pass is logged */
};

struct intake_note;

/*   url       borrowed, like what follows
 *   sources   must exist until intake_note_close() has begun
 *   false     MEMORY; RETRY: the system refused a thread */
MUST_CHECK bool intake_note_open(const char *url, struct source *const *sources, size_t n,
                                 struct intake_note **ret, struct fault *f);

/* Delete the rows, and end the thread. One that still connects is left behind. NULL is fine. */
void intake_note_close(struct intake_note *n);

#endif
