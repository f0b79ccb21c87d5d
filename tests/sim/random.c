#include "tests/sim/random.h"

uint64_t random_next(struct random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15U); /* splitmix64, Steele and Vigna 2014 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

int64_t random_below(struct random *r, int64_t n)
{
    return n > 1 ? (int64_t)(random_next(r) % (uint64_t)n) : 0;
}

int64_t random_between(struct random *r, int64_t a, int64_t b)
{
    return a + random_below(r, b - a + 1);
}

int64_t random_log(struct random *r, int64_t a, int64_t b)
{
    int doublings = 0;
    while (doublings < 40 && (a << (doublings + 1)) <= b) {
        doublings++;
    }
    int64_t low = a << random_below(r, doublings + 1);
    int64_t high = 2 * low < b ? 2 * low : b;
    return random_between(r, low, high);
}

bool random_chance(struct random *r, int permyriad)
{
    return random_below(r, 10000) < permyriad;
}
