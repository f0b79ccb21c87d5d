#include "tests/support/answers.h"

#include "core/base/buf.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 8 << 20 };

json_t *answers_read(const char *part)
{
    json_error_t error;
    json_t *all = json_load_file(REPOSITORY "/tests/answers.json", 0, &error);
    if (!all) {
        fail_msg("tests/answers.json: line %d: %s", error.line, error.text);
    }
    json_t *list = json_incref(json_object_get(all, part));
    assert_true(json_array_size(list) > 10);
    json_decref(all);
    return list;
}

static void put_piece(struct buf *b, const char *piece, int64_t id)
{
    const char *mark = strstr(piece, "$ID");
    buf_put(b, piece, mark ? (size_t)(mark - piece) : strlen(piece));
    if (mark) {
        buf_put_int(b, id);
        put_piece(b, mark + 3, id);
    }
}

char *answers_text(const json_t *pieces, int64_t id)
{
    struct buf b;
    size_t i;
    const json_t *piece;
    buf_init(&b, TEXT_BYTES_MAX);
    buf_put_text(&b, "");
    json_array_foreach(pieces, i, piece)
    {
        json_int_t times = json_is_array(piece) ? json_integer_value(json_array_get(piece, 1)) : 1;
        const char *text = json_string_value(json_is_array(piece) ? json_array_get(piece, 0)
                                                                  : piece);
        assert_non_null(text);
        while (times-- > 0) {
            put_piece(&b, text, id);
        }
    }
    assert_false(b.failed);
    char *copy = strdup(buf_text(&b));
    assert_non_null(copy);
    buf_clear(&b);
    return copy;
}

const char *answers_word(const json_t *answer, const char *key)
{
    return json_string_value(json_object_get(answer, key));
}
