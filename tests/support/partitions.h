/* Partitions of the history whose time is over. */
#ifndef TENON_TESTS_SUPPORT_PARTITIONS_H
#define TENON_TESTS_SUPPORT_PARTITIONS_H

#include "tests/support/fixture.h"

/* The next partition of `parent`, history or attempt, was begun so long ago ("9 days"): since then
 * nothing has gone to the one before, which is as old. */
void partition_begun(struct fixture *fx, const char *parent, const char *ago);

/* How many partitions there are, as "2 5": those before the current one, which cleaners may drop,
 * and the others; free(). */
char *partitions_of(struct fixture *fx, const char *parent);

#endif
