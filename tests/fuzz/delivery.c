#include "tests/fuzz/fuzz.h"

#include "core/amqp/amqp_delivery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an id is, said in another way. */
static bool is_id(const char *body, size_t len, int64_t *ret)
{
    char text[CONSUMER_BODY_BYTES_MAX + 1] = "", again[32];
    if (len == 0 || len >= sizeof text || memchr(body, '\0', len)) {
        return false;
    }
    memcpy(text, body, len);
    *ret = strtoll(text, NULL, 10);
    (void)snprintf(again, sizeof again, "%lld", (long long)*ret);
    return *ret > 0 && strcmp(text, again) == 0;
}

static void check_id(const char *body, size_t len)
{
    int64_t id = 0, want = 0;
    bool is = delivery_id(body, len, &id);
    fuzz_that(is == is_id(body, len, &want), "it is an id, or it is not");
    fuzz_that(!is || id == want, "the id is another");
}

/* The next frame as the bytes say: its type, a size, and so many bytes of them. */
static size_t next_frame(amqp_frame_t *frame, amqp_basic_deliver_t *deliver, const uint8_t *data,
                         size_t size)
{
    static const uint8_t types[] = {AMQP_FRAME_METHOD, AMQP_FRAME_HEADER, AMQP_FRAME_BODY, 8};
    size_t used = 2, len = data[1] & 31;
    *frame = (amqp_frame_t){.frame_type = types[data[0] & 3], .channel = 1};
    if (frame->frame_type == AMQP_FRAME_METHOD) {
        deliver->delivery_tag = data[1];
        frame->payload.method.id = data[0] & 4 ? AMQP_BASIC_CANCEL_METHOD
                                               : AMQP_BASIC_DELIVER_METHOD;
        frame->payload.method.decoded = deliver;
    } else if (frame->frame_type == AMQP_FRAME_HEADER) {
        frame->payload.properties.body_size = data[0] & 128 ? UINT64_MAX - len : len;
    } else {
        len = len < size - used ? len : size - used;
        frame->payload.body_fragment = (amqp_bytes_t){.len = len,
                                                      .bytes = (void *)(uintptr_t)(data + used)};
        used += len;
    }
    return used;
}

int fuzz_delivery(const uint8_t *data, size_t size)
{
    struct delivery d = {0};
    check_id((const char *)data, size);
    while (size >= 2) {
        amqp_frame_t frame;
        amqp_basic_deliver_t deliver = {0};
        int64_t id = 0;
        size_t used = next_frame(&frame, &deliver, data, size);
        enum delivery_result result = delivery_take(&d, &frame, &id);
        fuzz_that(result != DELIVERY_ID || id > 0, "an id below 1");
        fuzz_that(result != DELIVERY_ID || d.len <= sizeof d.body, "a body over its limit");
        if (result == DELIVERY_UNEXPECTED) {
            d = (struct delivery){0}; /* a new channel */
        }
        data += used;
        size -= used;
    }
    return 0;
}
