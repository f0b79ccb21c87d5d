#include "tests/fuzz/fuzz.h"

#include "core/base/scan.h"
#include "worker/line.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void check_utf8(const char *text)
{
    json_t *value = json_string(text);
    fuzz_that(value != NULL, "the error is not UTF-8");
    json_decref(value);
}

/* What jansson reads is JSON. (It reads no large numbers, no half pairs, and nothing deep.) */
static void check_scan(const struct buf *b)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    struct scanned v;
    bool is_text = b->len > 0 &&
                   !memchr(b->data, '\0', b->len); /* which jansson takes for an end */
    json_t *value = is_text ? json_loadb(b->data, b->len, flags, NULL) : NULL;
    if (value) {
        fuzz_that(scan_value(b->data, b->len, &v) && !v.loose, "JSON is taken for none");
        fuzz_that(v.text >= b->data && v.bytes <= b->len, "a value is outside of its text");
    }
    json_decref(value);
}

/* The first byte says how it ended, the rest is both its stdout and its stderr. */
int fuzz_exec(const uint8_t *data, size_t size)
{
    static const int statuses[] = {0, 75, 65, 1, -1, -2};
    if (size == 0) {
        return 0;
    }
    struct child c = {.output_cut = (data[0] & 64) != 0};
    struct event event = {.outcome = OUTCOME_NONE};
    size_t n = size - 1;
    buf_init(&c.output, 1 << 20);
    buf_put(&c.output, data + 1, n);
    c.tail_bytes = n < CHILD_TAIL_BYTES ? n : CHILD_TAIL_BYTES;
    memcpy(c.tail, data + 1, c.tail_bytes);
    line_exec_outcome(&c, statuses[data[0] % 6], "exit status 1", &event);
    fuzz_that(event.outcome != OUTCOME_NONE, "no outcome");
    if (event.reply) {
        fuzz_reply(event.reply);
    }
    check_scan(&c.output);
    if (event.error) {
        check_utf8(event.error);
    }
    free(event.reply);
    free(event.error);
    buf_clear(&c.output);
    return 0;
}
