/* Tasks as rows, written and listed without a worker. */
#ifndef TENON_TESTS_SUPPORT_ROWS_H
#define TENON_TESTS_SUPPORT_ROWS_H

#include "tests/support/fixture.h"

/* So many tasks of a kind that are dead, each with this error, and a payload that tells it apart:
 * {"n": 1} ... */
void rows_dead(struct fixture *fx, const char *kind, int n, const char *error);

/* Of the tasks that fit the filter, each payload's "n", by the alphabet, in one word; free(). */
char *rows_named(struct fixture *fx, const char *filter);

#endif
