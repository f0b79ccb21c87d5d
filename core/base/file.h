/* Text files and stdin, read whole. */
#ifndef TENON_CORE_FILE_H
#define TENON_CORE_FILE_H

#include "core/base/buf.h"

/* Read a file, or stdin when `path` is "-". A byte order mark in front is left out.
 *   what    "config file", for messages
 *   text    set up here, with room for FILE_ROOM bytes more than the limit; the caller clears it,
 *           whatever comes back
 *   false   CONFIG: it cannot be read, is over `bytes_max`, or holds a NUL byte; MEMORY */
enum { FILE_ROOM = 4096 };
MUST_CHECK bool file_read(const char *path, const char *what, size_t bytes_max, struct buf *text,
                          struct fault *f);

#endif
