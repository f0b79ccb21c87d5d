#include "core/amqp/amqp_delivery.h"

#include <string.h>

bool delivery_id(const char *body, size_t len, int64_t *ret_id)
{
    int64_t id = 0;
    if (len == 0 || body[0] == '0') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int digit = body[i] - '0';
        if (digit < 0 || digit > 9 || id > (INT64_MAX - digit) / 10) {
            return false;
        }
        id = id * 10 + digit;
    }
    *ret_id = id;
    return true;
}

static enum delivery_result result_of(const struct delivery *d, int64_t *ret_id)
{
    if (d->body_left > 0) {
        return DELIVERY_MORE;
    }
    return d->len <= sizeof d->body && delivery_id(d->body, d->len, ret_id) ? DELIVERY_ID
                                                                            : DELIVERY_HOSTILE;
}

static enum delivery_result take_body(struct delivery *d, amqp_bytes_t part, int64_t *ret_id)
{
    if (part.len == 0 || part.len > d->body_left) {
        return DELIVERY_UNEXPECTED;
    }
    if (d->len + part.len <= sizeof d->body) {
        memcpy(d->body + d->len, part.bytes, part.len);
    }
    d->len += part.len;
    d->body_left -= part.len;
    return result_of(d, ret_id);
}

enum delivery_result delivery_take(struct delivery *d, const amqp_frame_t *frame, int64_t *ret_id)
{
    const amqp_method_t *method = &frame->payload.method;
    if (frame->frame_type == AMQP_FRAME_METHOD && method->id == AMQP_BASIC_DELIVER_METHOD) {
        *d = (struct delivery){.tag = ((amqp_basic_deliver_t *)method->decoded)->delivery_tag};
        return DELIVERY_MORE;
    }
    if (frame->frame_type == AMQP_FRAME_HEADER) {
        d->body_left = frame->payload.properties.body_size;
        d->len = 0;
        return result_of(d, ret_id);
    }
    return frame->frame_type == AMQP_FRAME_BODY ? take_body(d, frame->payload.body_fragment, ret_id)
                                                : DELIVERY_UNEXPECTED;
}
