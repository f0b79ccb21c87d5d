/* What happens when: a heap of moments in virtual time, microseconds. Moments of one time come in
 * the order in which they were planned. */
#ifndef TENON_TESTS_SIM_TIMELINE_H
#define TENON_TESTS_SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;
typedef void moment_act(struct sim *s, int who, int64_t arg);

struct moment {
    int64_t at_us;
    uint64_t order;
    moment_act *act;
    int64_t arg;
    int who;
};

struct timeline {
    struct moment *heap;
    size_t n, cap;
    uint64_t order;
};

void timeline_add(struct timeline *t, int64_t at_us, moment_act *act, int who, int64_t arg);
bool timeline_next(struct timeline *t, struct moment *ret); /* false: nothing is planned */
void timeline_clear(struct timeline *t);

#endif
