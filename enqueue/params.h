/* A task as the parameters of enqueue_one.sql and enqueue_many.sql. */
#ifndef TENON_ENQUEUE_PARAMS_H
#define TENON_ENQUEUE_PARAMS_H

#include "core/base/buf.h"
#include "include/tenon/tenon.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PARAMS_N = 23,
    PARAMS_PAYLOAD = 1,
    PARAMS_UNIQUE_KEY = 6,
    PARAMS_NUMBER_BYTES = 40,
    PARAMS_ARRAY_BYTES_MAX = 16 << 20,
};

struct params {
    const char *values[PARAMS_N]; /* in PostgreSQL's text form, NULL is SQL's NULL */
    char numbers[8][PARAMS_NUMBER_BYTES];
    struct buf limit_keys, depends_on, tags;
    bool announced; /* we publish the id ourselves */
};

/* Fill `p` from `task`, which must outlive it.
 *   announced   we publish the id ourselves; not done for a task that starts later, or waits
 * ret: false: no memory, or the arrays are too long. params_clear() is due in either case. */
bool params_fill(struct params *p, const tenon_task *task, bool announced);
void params_clear(struct params *p);

#endif
