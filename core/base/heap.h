/* How much the program has allocated, for statistics and for the tests that watch it not grow. */
#ifndef TENON_CORE_HEAP_H
#define TENON_CORE_HEAP_H

#include <stdint.h>

/* Bytes allocated with malloc() and not freed. */
int64_t heap_bytes(void);

#endif
