/* The decider's notes as log lines; the event names are listed in docs/log-events.md. */
#ifndef TENON_WORKER_NOTE_H
#define TENON_WORKER_NOTE_H

#include "worker/decide/action.h"

void note_log(const struct action *note);

#endif
