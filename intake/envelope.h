/* What a message has besides its body, as JSON. */
#ifndef TENON_INTAKE_ENVELOPE_H
#define TENON_INTAKE_ENVELOPE_H

#include "core/base/buf.h"

#include <amqp.h>

enum { ENVELOPE_BYTES_MAX = 1 << 20, ENVELOPE_DEPTH_MAX = 32 };

/* Put `{"queue": ..., "exchange": ..., ..., "headers": {...}`, without the bracket that ends it.
 * Texts that are not UTF-8 get U+FFFD, bytes that are a table deeper than that are null.
 *   offset   in a stream; -1 = it is none */
void envelope_put(struct buf *b, const char *queue, const amqp_basic_deliver_t *d,
                  const amqp_basic_properties_t *p, int64_t offset);

/* Bytes as base64, with its quotes. */
void envelope_put_base64(struct buf *b, const void *data, size_t bytes);

#endif
