/* Linked into tenon_malloc, which is the program tenon: with TEST_MALLOC=N its Nth allocation
 * fails, on whatever thread, and the file TEST_STRUCK is made. malloc, calloc, realloc, strdup and
 * strndup of our own code, and jansson's, go through here (the linker's --wrap); those inside
 * libpq, rabbitmq-c and libconfuse do not. */
#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long allocations;
static long nth;
static pid_t program; /* not its children, between fork and exec */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("TEST_MALLOC");
    nth = text ? strtol(text, NULL, 10) : 0;
    program = getpid();
    json_set_alloc_funcs(__wrap_malloc, free);
}

static bool fails(void)
{
    if (nth == 0 || getpid() != program || atomic_fetch_add(&allocations, 1) + 1 != nth) {
        return false;
    }
    int fd = open(getenv("TEST_STRUCK"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    (void)close(fd);
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
    return fails() ? NULL : __real_strndup(text, n);
}
