/* A message as it came: put together from its frames, and with what the rules found in it. */
#ifndef TENON_INTAKE_INCOMING_H
#define TENON_INTAKE_INCOMING_H

#include "core/base/fault.h"
#include "intake/rules.h"

#include <amqp.h>
#include <stdint.h>

enum { INCOMING_NAME_BYTES = 256 };

struct incoming {
    struct incoming *prev, *next; /* of its owner's list (utlist.h) */
    uint64_t tag;
    int64_t offset;      /* in a stream; -1 = it is none */
    const char *problem; /* why it cannot be a task, as far as its frames tell; NULL = it can */
    char *rejected;      /* why it is not one, see batch.h; free() */
    bool has_kind, has_key, has_trace;
    char kind[RULES_KIND_BYTES], key[RULES_KEY_BYTES], trace[RULES_TRACE_BYTES];
    char message_id[INCOMING_NAME_BYTES], routing_key[INCOMING_NAME_BYTES]; /* for the log */
    char *envelope; /* without the bracket that ends it; NULL = none is wanted */
    uint64_t bytes; /* of its body */
    char *body;     /* with a NUL behind it; NULL = it is too long to be kept */
};

void incoming_free(struct incoming *m); /* NULL is fine */

/* What is put together. */
struct assembly {
    const struct rules *rules;
    const char *queue;
    uint64_t bytes_max; /* of a body that is kept */
    struct incoming *m; /* NULL: the next frame begins a message */
    amqp_basic_deliver_t deliver;
    amqp_pool_t pool; /* what `deliver` points to, until the header comes */
    uint64_t filled;
};

void assembly_init(struct assembly *a, const struct rules *rules, const char *queue);
void assembly_clear(struct assembly *a); /* what is not complete is dropped */

/* Take the next frame of the channel.
 *   ret     the message that it completes, the caller's; NULL = there is more to come
 *   false   RETRY: frames in an order that AMQP does not have; MEMORY */
MUST_CHECK bool assembly_take(struct assembly *a, const amqp_frame_t *frame, struct incoming **ret,
                              struct fault *f);

#endif
