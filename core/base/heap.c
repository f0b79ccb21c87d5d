#include "core/base/heap.h"

#include <malloc.h>
#include <stddef.h>

/* AddressSanitizer's allocator replaces malloc() and does its own counting. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

int64_t heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes) {
        return (int64_t)__sanitizer_get_current_allocated_bytes();
    }
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}
