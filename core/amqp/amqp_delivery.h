/* Puts a delivery together from its frames: a method, a header, bodies. The body is one decimal id
 * of 1..2^63-1; anything else is hostile. Nothing is allocated for what the header promises. */
#ifndef TENON_CORE_AMQP_DELIVERY_H
#define TENON_CORE_AMQP_DELIVERY_H

#include "core/amqp/amqp_consumer.h"

#include <amqp.h>

enum delivery_result {
    DELIVERY_MORE,       /* not complete yet */
    DELIVERY_ID,         /* complete: an id */
    DELIVERY_HOSTILE,    /* complete: not an id */
    DELIVERY_UNEXPECTED, /* frames in an order that AMQP does not have */
};

struct delivery {
    uint64_t tag;
    uint64_t body_left; /* bytes to come */
    uint64_t len;       /* bytes that came; more than fit are counted only */
    char body[CONSUMER_BODY_BYTES_MAX];
};

/* Take the next frame of the channel. `tag` and `*ret_id` are set when it completes a delivery. */
enum delivery_result delivery_take(struct delivery *d, const amqp_frame_t *frame, int64_t *ret_id);

/* "1".."9223372036854775807", digits only, no leading zero. */
MUST_CHECK bool delivery_id(const char *body, size_t len, int64_t *ret_id);

#endif
