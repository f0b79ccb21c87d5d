/* Chores of this cleaner that keep failing, as rows of tenon.chore_failure, so that doctor, why,
 * status and the page can report them. A row that cannot be written is tried again with the next
 * failure. */
#ifndef TENON_CLEANER_FAILURE_H
#define TENON_CLEANER_FAILURE_H

#include "cleaner/state.h"

/* A chore keeps failing: its row is written, and renewed every ten seconds. */
void failure_note(struct cleaner *c, struct failure *state, const char *chore, const char *error,
                  int64_t now_ms);

/* It works again: its row is deleted, if there is one of ours. */
void failure_end(struct cleaner *c, struct failure *state, const char *chore);

#endif
