/* The one source of chance: a schedule is what its seed draws. */
#ifndef TENON_TESTS_SIM_RANDOM_H
#define TENON_TESTS_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_next(struct random *r);
int64_t random_below(struct random *r, int64_t n);              /* 0..n-1; 0 for n < 1 */
int64_t random_between(struct random *r, int64_t a, int64_t b); /* a..b */
int64_t random_log(struct random *r, int64_t a, int64_t b);     /* a..b, every size as likely */
bool random_chance(struct random *r, int permyriad);            /* so many times in 10,000 */

#endif
