/* A task as the parameters of enqueue_one.sql and enqueue_many.sql. */
#ifndef TENON_ENQUEUE_PARAMS_H
#define TENON_ENQUEUE_PARAMS_H

#include "include/tenon/tenon.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PARAMS_N = 18,
    PARAMS_PAYLOAD = 1,
    PARAMS_UNIQUE_KEY = 6,
    PARAMS_NUMBER_BYTES = 40,
};

struct params {
    const char *values[PARAMS_N]; /* in PostgreSQL's text form, NULL is SQL's NULL */
    char numbers[7][PARAMS_NUMBER_BYTES];
};

/* Fill `p` from `task`, which must outlive it.
 *   announced   we publish the id ourselves; not done for a task that starts later
 * Returns whether it will be announced. */
bool params_fill(struct params *p, const tenon_task *task, bool announced);

#endif
