#include "core/text.h"

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
