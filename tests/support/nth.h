/* Makes the Nth allocation of a run fail (see allocations.h). */
#ifndef TENON_TESTS_SUPPORT_NTH_H
#define TENON_TESTS_SUPPORT_NTH_H

#include <stdbool.h>

/* Let `run` go with the 1st, 2nd, ... allocation failing, on whatever thread, until three runs in
 * a row have needed no more of them. A leak fails the test, with the number. Returns in how many
 * runs one failed. */
long nth_each(void (*run)(void *arg), void *arg);

/* Whether the allocation of this run has failed yet. Once nth_stop() was called, none fails. */
bool nth_struck(void);
void nth_stop(void);

#endif
