#include "tests/fuzz/fuzz.h"

#include "core/base/scan.h"
#include "worker/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file = -1;
static char file_path[32];

void fuzz_that(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

void fuzz_fault(bool ok, const struct fault *f)
{
    fuzz_that(ok == (f->code == FAULT_NONE), "a fault that does not go with the answer");
    fuzz_that(ok || *f->text, "a fault without a text");
    fuzz_that(!strchr(f->text, '\n'), "a fault of several lines");
}

void fuzz_reply(const char *reply)
{
    struct scan_member result = {.key = "result"};
    fuzz_that(scan_object(reply, strlen(reply), &result, 1) && result.times == 1 &&
                  !result.value.why && result.value.printed <= PRINTED_BYTES_MAX,
              "the reply has no result that can be stored");
}

char *fuzz_string(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_that(text != NULL, "no memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

const char *fuzz_file_open(const uint8_t *data, size_t size)
{
    file = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_that(file >= 0 && (size == 0 || write(file, data, size) == (ssize_t)size), "no file");
    (void)snprintf(file_path, sizeof file_path, "/proc/self/fd/%d", file);
    return file_path;
}

void fuzz_file_close(void)
{
    (void)close(file);
    file = -1;
}
