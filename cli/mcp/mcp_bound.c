/* Answers of limited length: a model reads them, and each costs its user something. */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much is kept, in steps until it fits. */
static const struct kept {
    size_t bytes; /* of a text */
    size_t items; /* of a list or an object */
} steps[] = {{4000, 200}, {1000, 50}, {200, 20}, {100, 5}};
enum { STEPS = sizeof steps / sizeof *steps };

static json_t *bounded(const json_t *value, const struct kept *kept);

size_t mcp_cut(const char *text, size_t n, size_t most)
{
    size_t cut = n < most ? n : most;
    while (cut > 0 && cut < n && ((unsigned char)text[cut] & 0xC0) == 0x80) {
        cut--;
    }
    return cut;
}

static json_t *bounded_text(const json_t *value, const struct kept *kept)
{
    const char *text = json_string_value(value);
    size_t n = json_string_length(value), cut = mcp_cut(text, n, kept->bytes);
    return cut == n ? json_stringn(text, n)
                    : json_sprintf("%.*s ... (%zu more bytes)", (int)cut, text, n - cut);
}

static json_t *bounded_list(const json_t *value, const struct kept *kept)
{
    json_t *list = json_array();
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n && i < kept->items; i++) {
        (void)json_array_append_new(list, bounded(json_array_get(value, i), kept));
    }
    if (n > kept->items) {
        (void)json_array_append_new(list,
                                    json_pack("{s:I}", "left_out", (json_int_t)(n - kept->items)));
    }
    return list;
}

static json_t *bounded_object(const json_t *value, const struct kept *kept)
{
    json_t *object = json_object(), *member;
    size_t n = 0, limit = kept->items > 60 ? kept->items : 60; /* a task has about forty */
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (n++ < limit) {
            (void)json_object_set_new(object, key, bounded(member, kept));
        }
    }
    if (n > limit) {
        (void)json_object_set_new(object, "left_out", json_integer((json_int_t)(n - limit)));
    }
    return object;
}

static json_t *bounded(const json_t *value, const struct kept *kept)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return bounded_text(value, kept);
    case JSON_ARRAY:
        return bounded_list(value, kept);
    case JSON_OBJECT:
        return bounded_object(value, kept);
    case JSON_INTEGER:
    case JSON_REAL:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
    default:
        return json_deep_copy(value);
    }
}

static bool put_json(struct buf *b, const json_t *value)
{
    bool fits = false;
    for (size_t i = 0; i < STEPS && !fits; i++) {
        json_t *less = bounded(value, &steps[i]);
        char *text = less ? json_dumps(less, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        fits = text && strlen(text) <= MCP_ANSWER_BYTES_MAX;
        if (fits) {
            buf_put_text(b, text);
        }
        free(text);
        json_decref(less);
    }
    return fits;
}

static void put_beginning(struct buf *b, const char *text, size_t n)
{
    size_t cut = mcp_cut(text, n, MCP_ANSWER_BYTES_MAX);
    buf_put(b, text, cut);
    if (cut < n) {
        buf_printf(b, "\n... (%zu more bytes)", n - cut);
    }
}

/* Whole lines, and the end of a line that is too long by itself. */
static void put_last_lines(struct buf *b, const char *text, size_t n)
{
    const char *from = n > MCP_ANSWER_BYTES_MAX ? text + n - MCP_ANSWER_BYTES_MAX : text;
    const char *line = from > text ? memchr(from, '\n', (size_t)(text + n - from)) : NULL;
    from = line ? line + 1 : from;
    while (from > text && ((unsigned char)*from & 0xC0) == 0x80) {
        from++;
    }
    if (from > text) {
        buf_printf(b, "(%zu more bytes) ...\n", (size_t)(from - text));
    }
    buf_put(b, from, (size_t)(text + n - from));
}

void mcp_bound(struct buf *b, const struct buf *printed, const struct mcp_tool *tool)
{
    const char *member = mcp_tool_member(tool);
    const char *text = buf_text(printed);
    size_t n = printed->len;
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    if (mcp_tool_newest_last(tool)) {
        put_last_lines(b, text, n);
        return;
    }
    json_t *whole = member || n > MCP_ANSWER_BYTES_MAX ? json_loadb(text, n, 0, NULL) : NULL;
    const json_t *part = whole && member ? json_object_get(whole, member) : whole;
    if (!part || !put_json(b, part)) {
        put_beginning(b, text, n);
    }
    json_decref(whole);
}
