#include "core/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void read_all(FILE *file, struct buf *text)
{
    char *at;
    size_t n = 1;
    while (n > 0 && (at = buf_room(text, FILE_ROOM))) {
        n = fread(at, 1, FILE_ROOM, file);
        buf_added(text, n);
    }
}

bool file_read(const char *path, const char *what, size_t bytes_max, struct buf *text,
               struct fault *f)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    path = is_stdin ? "on stdin" : path;
    buf_init(text, bytes_max + FILE_ROOM);
    if (file) {
        read_all(file, text);
    }
    if (!file || ferror(file)) {
        (void)fault_set(f, FAULT_CONFIG, "the %s %s cannot be read: %s", what, path,
                        strerror(errno));
    } else if (text->len > bytes_max) {
        (void)fault_set(f, FAULT_CONFIG, "the %s %s is over the limit of %zu bytes", what, path,
                        bytes_max);
    } else if (text->failed) {
        (void)fault_memory(f);
    } else if (strlen(buf_text(text)) != text->len) {
        (void)fault_set(f, FAULT_CONFIG, "the %s %s holds a NUL byte; it is not text", what, path);
    }
    if (strncmp(buf_text(text), "\xEF\xBB\xBF", 3) == 0) {
        buf_drop(text, 3); /* a byte order mark, as editors of Windows write it */
    }
    if (file && !is_stdin) {
        (void)fclose(file);
    }
    return f->code == FAULT_NONE;
}
