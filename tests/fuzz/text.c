#include "tests/fuzz/fuzz.h"

#include "core/base/array.h"
#include "worker/line.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Read {"one element"} as PostgreSQL does. */
static void check_array(const char *literal, const char *want)
{
    const char *at = literal + 1;
    bool quoted = *at == '"';
    for (at += quoted; *want; at++, want++) {
        fuzz_that(quoted || !strchr("{},\" \t\n\r\v\f\\", *at), "it wants quotes");
        at += *at == '\\';
        fuzz_that(*at == *want, "another element");
    }
    fuzz_that(strcmp(at, quoted ? "\"}" : "}") == 0, "more than one element");
}

int fuzz_text(const uint8_t *data, size_t size)
{
    struct buf b;
    char *text = fuzz_string(data, size);
    buf_init(&b, 16 * size + 64);
    array_begin(&b);
    array_put_text(&b, text);
    const char *literal = array_end(&b);
    fuzz_that(literal && *literal == '{', "no array");
    check_array(literal, text);
    buf_empty(&b);
    buf_put_json(&b, text, size);
    json_t *value = json_loads(buf_text(&b), JSON_DECODE_ANY, NULL);
    fuzz_that(json_is_string(value), "no JSON string");
    json_decref(value);
    char *clean = line_clean_text(text, size);
    value = clean ? json_string(clean) : NULL;
    fuzz_that(value != NULL, "a clean text that is not UTF-8");
    json_decref(value);
    free(clean);
    buf_clear(&b);
    free(text);
    return 0;
}
