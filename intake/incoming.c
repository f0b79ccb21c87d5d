#include "intake/incoming.h"

#include "intake/envelope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void incoming_free(struct incoming *m)
{
    if (m) {
        free(m->rejected);
        free(m->envelope);
        free(m->body);
        free(m);
    }
}

void assembly_init(struct assembly *a, const struct rules *rules, const char *queue)
{
    *a = (struct assembly){.rules = rules, .queue = queue};
    init_amqp_pool(&a->pool, 1024);
}

void assembly_clear(struct assembly *a)
{
    incoming_free(a->m);
    a->m = NULL;
    empty_amqp_pool(&a->pool);
    init_amqp_pool(&a->pool, 1024);
}

/* --- the method ------------------------------------------------------------------------------- */

static bool keep(struct assembly *a, amqp_bytes_t from, amqp_bytes_t *to)
{
    amqp_pool_alloc_bytes(&a->pool, from.len, to);
    if (from.len > 0 && !to->bytes) {
        return false;
    }
    if (from.len > 0) {
        memcpy(to->bytes, from.bytes, from.len);
    }
    return true;
}

static bool begin(struct assembly *a, const amqp_basic_deliver_t *d, struct fault *f)
{
    assembly_clear(a);
    a->m = calloc(1, sizeof *a->m);
    if (!a->m || !keep(a, d->exchange, &a->deliver.exchange) ||
        !keep(a, d->routing_key, &a->deliver.routing_key)) {
        return fault_memory(f);
    }
    a->m->tag = d->delivery_tag;
    a->filled = 0;
    return true;
}

/* --- the header ------------------------------------------------------------------------------- */

static void copy_name(char to[INCOMING_NAME_BYTES], amqp_bytes_t from)
{
    (void)snprintf(to, INCOMING_NAME_BYTES, "%.*s", (int)from.len,
                   from.len > 0 ? (const char *)from.bytes : "");
}

static int64_t offset_of(const amqp_basic_properties_t *p)
{
    const amqp_field_value_t *v = rules_header(p, "x-stream-offset");
    return v && (v->kind == AMQP_FIELD_KIND_I64 || v->kind == AMQP_FIELD_KIND_U64) ? v->value.i64
                                                                                   : -1;
}

static bool make_envelope(struct assembly *a, const amqp_basic_properties_t *p)
{
    struct buf b;
    buf_init(&b, ENVELOPE_BYTES_MAX);
    envelope_put(&b, a->queue, &a->deliver, p, a->m->offset);
    a->m->envelope = b.failed ? NULL : b.data;
    if (b.failed) {
        buf_clear(&b);
    }
    return a->m->envelope != NULL;
}

static bool make_room(struct assembly *a, struct fault *f)
{
    struct incoming *m = a->m;
    if (m->bytes > a->bytes_max) {
        m->problem = "its body is too large";
        return true;
    }
    m->body = malloc((size_t)m->bytes + 1);
    return m->body || fault_memory(f);
}

static bool take_header(struct assembly *a, const amqp_basic_properties_t *p, uint64_t bytes,
                        struct fault *f)
{
    struct incoming *m = a->m;
    m->bytes = bytes;
    m->offset = offset_of(p);
    m->has_kind = rules_kind(a->rules, p, a->deliver.routing_key, m->kind);
    m->has_key = rules_key(a->rules, p, m->key);
    m->has_trace = rules_trace(p, m->trace);
    copy_name(m->routing_key, a->deliver.routing_key);
    if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) {
        copy_name(m->message_id, p->message_id);
    }
    if (a->rules->envelope && !make_envelope(a, p)) {
        m->problem = "its headers are too large";
    }
    if (!m->has_kind) {
        m->problem = "it names no kind of --allow-kinds, and there is no --kind";
    }
    return make_room(a, f);
}

/* --- the body --------------------------------------------------------------------------------- */

static bool take_body(struct assembly *a, amqp_bytes_t part, struct fault *f)
{
    if (part.len == 0 || part.len > a->m->bytes - a->filled) {
        return fault_set(f, FAULT_RETRY, "RabbitMQ sent a body that is longer than it said");
    }
    if (a->m->body) {
        memcpy(a->m->body + a->filled, part.bytes, part.len);
    }
    a->filled += part.len;
    return true;
}

static struct incoming *finish(struct assembly *a)
{
    struct incoming *m = a->m;
    if (m->body) {
        m->body[m->bytes] = '\0';
    }
    if (m->body && a->rules->key_from == RULE_BODY) {
        rules_body_key(m->body, (size_t)m->bytes, m->key);
        m->has_key = true;
    }
    a->m = NULL;
    return m;
}

bool assembly_take(struct assembly *a, const amqp_frame_t *frame, struct incoming **ret,
                   struct fault *f)
{
    const amqp_method_t *method = &frame->payload.method;
    bool ok;
    *ret = NULL;
    if (frame->frame_type == AMQP_FRAME_METHOD && method->id == AMQP_BASIC_DELIVER_METHOD) {
        return begin(a, method->decoded, f);
    }
    if (frame->frame_type == AMQP_FRAME_HEADER && a->m) {
        ok = take_header(a, frame->payload.properties.decoded, frame->payload.properties.body_size,
                         f);
    } else if (frame->frame_type == AMQP_FRAME_BODY && a->m) {
        ok = take_body(a, frame->payload.body_fragment, f);
    } else {
        return fault_set(f, FAULT_RETRY,
                         "RabbitMQ sent frames in an order that AMQP does not have");
    }
    if (ok && a->filled == a->m->bytes) {
        *ret = finish(a);
    }
    return ok;
}
