/* Allocations that can fail: malloc, calloc, realloc, strdup and strndup of our own code, and
 * jansson's, go through allocations.c in programs that are linked with NTH_OPTIONS
 * (tests/CMakeLists.txt); those inside libpq, rabbitmq-c and libconfuse do not. */
#ifndef TENON_TESTS_SUPPORT_ALLOCATIONS_H
#define TENON_TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>

/* Whoever links it says which one fails; any thread. */
bool allocation_fails(void);

/* From now on jansson's, too. */
void allocations_begin(void);

#endif
