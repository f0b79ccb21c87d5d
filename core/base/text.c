#include "core/base/text.h"

#include <string.h>

static const char ellipsis[] = " ... ";

const char *text_whole(const char *text)
{
    while (((unsigned char)*text & 0xC0) == 0x80) {
        text++;
    }
    return text;
}

void text_shorten(char *to, size_t size, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes < size) {
        memcpy(to, text, bytes + 1);
        return;
    }
    size_t begin = size / 4, room = size - begin - sizeof ellipsis;
    while (begin > 0 && ((unsigned char)text[begin] & 0xC0) == 0x80) {
        begin--;
    }
    const char *end = text_whole(text + bytes - room);
    memcpy(to, text, begin);
    memcpy(to + begin, ellipsis, sizeof ellipsis - 1);
    memcpy(to + begin + sizeof ellipsis - 1, end, strlen(end) + 1);
}

/* The table is that of the Unicode standard, 3-7. */
size_t text_sequence(const unsigned char *s, size_t len)
{
    unsigned char c = s[0];
    size_t n = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (n == 0 || n > len) {
        return 0;
    }
    if ((c == 0xE0 && s[1] < 0xA0) || (c == 0xED && s[1] > 0x9F) || (c == 0xF0 && s[1] < 0x90) ||
        (c == 0xF4 && s[1] > 0x8F)) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return n;
}

unsigned text_unshown(const unsigned char *s, size_t n)
{
    unsigned point = n == 2   ? (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu)
                     : n == 3 ? (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu)
                              : 0;
    bool unshown = (point >= 0x80 && point <= 0x9F) || point == 0x61C || point == 0x200E ||
                   point == 0x200F || (point >= 0x2028 && point <= 0x202E) ||
                   (point >= 0x2066 && point <= 0x2069);
    return unshown ? point : 0;
}

bool text_is_utf8(const char *text)
{
    size_t left = strlen(text), n = 1;
    while (left > 0 && n > 0) {
        n = text_sequence((const unsigned char *)text, left);
        text += n;
        left -= n;
    }
    return left == 0;
}
