/* A bounded, growing byte buffer. What does not fit, or cannot be allocated, sets `failed` and is
 * dropped; callers put many things and look at `failed` once. Always NUL-terminated. */
#ifndef TENON_CORE_BUF_H
#define TENON_CORE_BUF_H

#include "core/base/fault.h"

#include <stdint.h>

struct buf {
    char *data; /* NULL until the first put; use buf_text() for a string */
    size_t len;
    size_t cap;
    size_t bytes_max;
    bool failed;
};

void buf_init(struct buf *b, size_t bytes_max);
void buf_clear(struct buf *b); /* frees; the buffer can be used again */
void buf_empty(struct buf *b); /* keeps the memory, forgets the content and `failed` */

void buf_put(struct buf *b, const void *data, size_t len);
void buf_put_text(struct buf *b, const char *text);
void buf_put_char(struct buf *b, char c);
void buf_put_int(struct buf *b, int64_t n);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Make room for `len` more bytes and return where they go, or NULL (and `failed`). The caller
 * writes there and adds to `len` with buf_added(). */
char *buf_room(struct buf *b, size_t len);
void buf_added(struct buf *b, size_t len);

/* Drop the first `len` bytes. */
void buf_drop(struct buf *b, size_t len);

/* The content as a string, "" when nothing was put. Borrowed until the next change. */
const char *buf_text(const struct buf *b);

/* A JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD, NUL too, controls
 * \u00XX. */
void buf_put_json(struct buf *b, const char *text, size_t len);
void buf_put_json_or_null(struct buf *b, const char *text); /* NULL is null */

#endif
