#include "core/base/array.h"

void array_begin(struct buf *b)
{
    buf_empty(b);
    buf_put_char(b, '{');
}

static void put_comma(struct buf *b)
{
    if (b->len > 1) {
        buf_put_char(b, ',');
    }
}

void array_put_int(struct buf *b, int64_t n)
{
    put_comma(b);
    buf_put_int(b, n);
}

void array_put_text(struct buf *b, const char *text)
{
    put_comma(b);
    if (!text) {
        buf_put(b, "NULL", 4);
        return;
    }
    buf_put_char(b, '"');
    const char *plain = text;
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            buf_put(b, plain, (size_t)(text - plain));
            buf_put_char(b, '\\');
            plain = text;
        }
    }
    buf_put(b, plain, (size_t)(text - plain));
    buf_put_char(b, '"');
}

const char *array_end(struct buf *b)
{
    buf_put_char(b, '}');
    return b->failed ? NULL : b->data;
}
