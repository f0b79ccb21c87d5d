#include "tests/support/temporary.h"

#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static void fill_in(const char *name, char *ret_path, size_t size)
{
    const char *directory = getenv("TMPDIR");
    int n = snprintf(ret_path, size, "%s/%s.XXXXXX", directory && *directory ? directory : "/tmp",
                     name);
    assert_in_range(n, 1, size - 1);
}

void temporary_file(const char *text, char ret_path[TEMPORARY_BYTES])
{
    fill_in("tenon-file", ret_path, TEMPORARY_BYTES);
    int fd = mkstemp(ret_path);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        fail_msg("could not write %s: %s", ret_path, strerror(errno));
    }
    (void)close(fd);
}

void temporary_directory(const char *name, char *ret_path, size_t size)
{
    fill_in(name, ret_path, size);
    if (!mkdtemp(ret_path)) {
        fail_msg("could not make %s: %s", ret_path, strerror(errno));
    }
}
