#include "core/amqp_delivery.h"

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

static enum delivery_result complete(struct delivery *d, int64_t *ret_id)
{
    d->at = DELIVERY_AT_METHOD;
    return !d->too_long && delivery_id(d->body, d->len, ret_id) ? DELIVERY_ID : DELIVERY_HOSTILE;
}

static enum delivery_result take_header(struct delivery *d, const amqp_frame_t *frame,
                                        int64_t *ret_id)
{
    d->body_left = frame->payload.properties.body_size;
    d->too_long = d->body_left > sizeof d->body;
    d->len = 0;
    d->at = DELIVERY_AT_BODY;
    return d->body_left == 0 ? complete(d, ret_id) : DELIVERY_MORE;
}

static enum delivery_result take_body(struct delivery *d, const amqp_frame_t *frame,
                                      int64_t *ret_id)
{
    amqp_bytes_t part = frame->payload.body_fragment;
    if (part.len > d->body_left) {
        return DELIVERY_UNEXPECTED;
    }
    d->body_left -= part.len;
    if (!d->too_long) {
        memcpy(d->body + d->len, part.bytes, part.len);
        d->len += part.len;
    }
    return d->body_left == 0 ? complete(d, ret_id) : DELIVERY_MORE;
}

enum delivery_result delivery_take(struct delivery *d, const amqp_frame_t *frame, int64_t *ret_id)
{
    if (frame->frame_type == AMQP_FRAME_METHOD && d->at == DELIVERY_AT_METHOD &&
        frame->payload.method.id == AMQP_BASIC_DELIVER_METHOD) {
        const amqp_basic_deliver_t *m = frame->payload.method.decoded;
        d->tag = m->delivery_tag;
        d->at = DELIVERY_AT_HEADER;
        return DELIVERY_MORE;
    }
    if (frame->frame_type == AMQP_FRAME_HEADER && d->at == DELIVERY_AT_HEADER) {
        return take_header(d, frame, ret_id);
    }
    if (frame->frame_type == AMQP_FRAME_BODY && d->at == DELIVERY_AT_BODY) {
        return take_body(d, frame, ret_id);
    }
    return DELIVERY_UNEXPECTED;
}
