#include "tests/fuzz/fuzz.h"

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
        json_t *reply = json_loads(event.reply, JSON_DECODE_INT_AS_REAL, NULL);
        fuzz_that(json_object_get(reply, "result") != NULL, "the reply is no JSON with a result");
        json_decref(reply);
    }
    if (event.error) {
        check_utf8(event.error);
    }
    free(event.reply);
    free(event.error);
    buf_clear(&c.output);
    return 0;
}
