/* A replayed event, action or decision in words. */
#ifndef TENON_WORKER_REPLAY_SAY_H
#define TENON_WORKER_REPLAY_SAY_H

#include "worker/decide/decider.h"

#include <stdio.h>

/* `unix_ms`: by the wall clock of the worker's machine. Before the decider gets it. */
void replay_say_event(FILE *out, int64_t unix_ms, const struct decider *d, const struct event *e);
void replay_say_action(FILE *out, const struct decider *d, const struct action *a);
void replay_say_due(FILE *out, int64_t unix_ms, int64_t due_ms); /* from then; -1 = for ever */

#endif
