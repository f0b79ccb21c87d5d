#include "core/base/buf.h"

#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_BYTES_MIN = 128 };

void buf_init(struct buf *b, size_t bytes_max)
{
    *b = (struct buf){.bytes_max = bytes_max};
}

void buf_clear(struct buf *b)
{
    free(b->data);
    buf_init(b, b->bytes_max);
}

void buf_empty(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) {
        b->data[0] = '\0';
    }
}

char *buf_room(struct buf *b, size_t len)
{
    if (b->failed || len > b->bytes_max - b->len) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + len + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : BUF_BYTES_MIN;
        while (cap < need) {
            cap *= 2;
        }
        char *data = realloc(b->data, cap);
        if (!data) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->cap = cap;
    }
    return b->data + b->len;
}

void buf_added(struct buf *b, size_t len)
{
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_put(struct buf *b, const void *data, size_t len)
{
    char *at = buf_room(b, len);
    if (at) {
        memcpy(at, data, len);
        buf_added(b, len);
    }
}

void buf_put_text(struct buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}

void buf_put_char(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_put_int(struct buf *b, int64_t n)
{
    char digits[21];
    char *at = digits + sizeof digits;
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (n < 0) {
        *--at = '-';
    }
    buf_put(b, at, (size_t)(digits + sizeof digits - at));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *at = n < 0 ? NULL : buf_room(b, (size_t)n);
    if (at) {
        (void)vsnprintf(at, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void buf_drop(struct buf *b, size_t len)
{
    if (len == 0) {
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
    b->data[b->len] = '\0';
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}

static void put_json_ascii(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        buf_put(b, "\\\"", 2);
        break;
    case '\\':
        buf_put(b, "\\\\", 2);
        break;
    case '\n':
        buf_put(b, "\\n", 2);
        break;
    case '\t':
        buf_put(b, "\\t", 2);
        break;
    case '\0': /* PostgreSQL's jsonb cannot hold it */
        buf_put_text(b, "\xEF\xBF\xBD");
        break;
    default:
        if (c < 0x20 || c == 0x7F) {
            buf_printf(b, "\\u%04x", c);
        } else {
            buf_put_char(b, (char)c);
        }
    }
}

/* How many bytes from `s` on are written unchanged in JSON. */
static size_t plain_bytes(const unsigned char *s, size_t len)
{
    size_t n = 0;
    while (n < len && s[n] >= 0x20 && s[n] < 0x7F && s[n] != '"' && s[n] != '\\') {
        n++;
    }
    return n;
}

void buf_put_json(struct buf *b, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    buf_put_char(b, '"');
    for (size_t i = 0; i < len;) {
        size_t plain = plain_bytes(s + i, len - i);
        buf_put(b, s + i, plain);
        i += plain;
        if (i == len) {
            break;
        }
        size_t n = text_sequence(s + i, len - i);
        unsigned unshown = text_unshown(s + i, n);
        if (n == 1) {
            put_json_ascii(b, s[i]);
        } else if (unshown) {
            buf_printf(b, "\\u%04x", unshown);
        } else if (n > 1) {
            buf_put(b, s + i, n);
        } else {
            buf_put_text(b, "\xEF\xBF\xBD");
        }
        i += n ? n : 1;
    }
    buf_put_char(b, '"');
}

void buf_put_json_or_null(struct buf *b, const char *text)
{
    if (text) {
        buf_put_json(b, text, strlen(text));
    } else {
        buf_put_text(b, "null");
    }
}
