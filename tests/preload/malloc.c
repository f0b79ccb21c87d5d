/* Linked into tenon_malloc, which is the program tenon: with TEST_MALLOC=N its Nth allocation
 * fails, on whatever thread, and the file TEST_STRUCK is made. */
#include "tests/support/allocations.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long allocations;
static long nth;
static pid_t program; /* not its children, between fork and exec */

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("TEST_MALLOC");
    nth = text ? strtol(text, NULL, 10) : 0;
    program = getpid();
    allocations_begin();
}

bool allocation_fails(void)
{
    if (nth == 0 || getpid() != program || atomic_fetch_add(&allocations, 1) + 1 != nth) {
        return false;
    }
    int fd = open(getenv("TEST_STRUCK"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    (void)close(fd);
    return true;
}
