/* What the options say of messages: of which kind a task is, what a message is recognized by, and
 * what becomes of one that cannot be a task. */
#ifndef TENON_INTAKE_RULES_H
#define TENON_INTAKE_RULES_H

#include "core/options/option.h"

#include <amqp.h>

/* Of texts, with their NUL. A longer key is hashed. */
enum { RULES_KEY_BYTES = 256, RULES_KIND_BYTES = 101, RULES_TRACE_BYTES = 56 };

enum rule {
    RULE_FIXED,
    RULE_TYPE,
    RULE_ROUTING_KEY,
    RULE_HEADER,
    RULE_MESSAGE_ID,
    RULE_BODY,
};

/* In the order of the choices of --on-invalid. */
enum on_invalid { INVALID_REJECT, INVALID_KEEP };

struct rules {
    const struct options *options; /* which own the texts */
    enum rule kind_from, key_from;
    const char *kind_header, *key_header;
    const char *kind; /* of all, or of those that choose none; NULL = there is none */
    const char *offset;
    const char *task_queue; /* NULL = the kind's */
    const char *priority;   /* the same */
    bool envelope;
    enum on_invalid on_invalid;
    int prefetch; /* 0 = as commits are fast */
};

/* false: CONFIG, options that do not go together. */
MUST_CHECK bool rules_read(const struct options *o, struct rules *ret, struct fault *f);

/* A header by its name; NULL = the message has none. */
const amqp_field_value_t *rules_header(const amqp_basic_properties_t *p, const char *name);

/* The kind of the message's task. False: it has none. */
MUST_CHECK bool rules_kind(const struct rules *r, const amqp_basic_properties_t *p,
                           amqp_bytes_t routing_key, char ret[RULES_KIND_BYTES]);

/* What the message is recognized by. False: nothing; or, with RULE_BODY, a hash of its body. */
MUST_CHECK bool rules_key(const struct rules *r, const amqp_basic_properties_t *p,
                          char ret[RULES_KEY_BYTES]);
void rules_body_key(const char *body, size_t bytes, char ret[RULES_KEY_BYTES]);

/* The header traceparent. False: it has none, or not in that form. */
MUST_CHECK bool rules_trace(const amqp_basic_properties_t *p, char ret[RULES_TRACE_BYTES]);

#endif
