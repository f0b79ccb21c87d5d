#include "intake/envelope.h"

#include <inttypes.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdint.h>

static void put_text(struct buf *b, amqp_bytes_t text)
{
    buf_put_json(b, text.len > 0 ? text.bytes : "", text.len);
}

static void put_value(struct buf *b, const amqp_field_value_t *v, int depth);

static void put_table(struct buf *b, const amqp_table_t *t, int depth)
{
    buf_put_char(b, '{');
    for (int i = 0; i < t->num_entries; i++) {
        buf_put_text(b, i > 0 ? ", " : "");
        put_text(b, t->entries[i].key);
        buf_put_text(b, ": ");
        put_value(b, &t->entries[i].value, depth + 1);
    }
    buf_put_char(b, '}');
}

static void put_array(struct buf *b, const amqp_array_t *a, int depth)
{
    buf_put_char(b, '[');
    for (int i = 0; i < a->num_entries; i++) {
        buf_put_text(b, i > 0 ? ", " : "");
        put_value(b, &a->entries[i], depth + 1);
    }
    buf_put_char(b, ']');
}

static void put_real(struct buf *b, double real)
{
    if (isfinite(real)) {
        buf_printf(b, "%.17g", real);
    } else {
        buf_put_text(b, "null");
    }
}

/* Tables nest as deep as RabbitMQ lets them. */
static void put_value(struct buf *b, const amqp_field_value_t *v, int depth)
{
    switch (depth < ENVELOPE_DEPTH_MAX ? v->kind : AMQP_FIELD_KIND_VOID) {
    case AMQP_FIELD_KIND_BOOLEAN:
        buf_put_text(b, v->value.boolean ? "true" : "false");
        break;
    case AMQP_FIELD_KIND_I8:
        buf_put_int(b, v->value.i8);
        break;
    case AMQP_FIELD_KIND_U8:
        buf_put_int(b, v->value.u8);
        break;
    case AMQP_FIELD_KIND_I16:
        buf_put_int(b, v->value.i16);
        break;
    case AMQP_FIELD_KIND_U16:
        buf_put_int(b, v->value.u16);
        break;
    case AMQP_FIELD_KIND_I32:
        buf_put_int(b, v->value.i32);
        break;
    case AMQP_FIELD_KIND_U32:
        buf_put_int(b, v->value.u32);
        break;
    case AMQP_FIELD_KIND_I64:
        buf_put_int(b, v->value.i64);
        break;
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
        buf_printf(b, "%" PRIu64, v->value.u64);
        break;
    case AMQP_FIELD_KIND_F32:
        put_real(b, (double)v->value.f32);
        break;
    case AMQP_FIELD_KIND_F64:
        put_real(b, v->value.f64);
        break;
    case AMQP_FIELD_KIND_DECIMAL:
        buf_printf(b, "%" PRIu32 "e-%d", v->value.decimal.value, v->value.decimal.decimals);
        break;
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        put_text(b, v->value.bytes);
        break;
    case AMQP_FIELD_KIND_ARRAY:
        put_array(b, &v->value.array, depth);
        break;
    case AMQP_FIELD_KIND_TABLE:
        put_table(b, &v->value.table, depth);
        break;
    default:
        buf_put_text(b, "null");
    }
}

static void put_property(struct buf *b, const amqp_basic_properties_t *p, amqp_flags_t flag,
                         const char *name, amqp_bytes_t text)
{
    if (p->_flags & flag) {
        buf_printf(b, ", \"%s\": ", name);
        put_text(b, text);
    }
}

void envelope_put(struct buf *b, const char *queue, const amqp_basic_deliver_t *d,
                  const amqp_basic_properties_t *p, int64_t offset)
{
    buf_put_text(b, "{\"queue\": ");
    put_text(b, amqp_cstring_bytes(queue));
    buf_put_text(b, ", \"exchange\": ");
    put_text(b, d->exchange);
    buf_put_text(b, ", \"routing_key\": ");
    put_text(b, d->routing_key);
    put_property(b, p, AMQP_BASIC_MESSAGE_ID_FLAG, "message_id", p->message_id);
    put_property(b, p, AMQP_BASIC_TYPE_FLAG, "type", p->type);
    put_property(b, p, AMQP_BASIC_APP_ID_FLAG, "app_id", p->app_id);
    put_property(b, p, AMQP_BASIC_USER_ID_FLAG, "user_id", p->user_id);
    put_property(b, p, AMQP_BASIC_CORRELATION_ID_FLAG, "correlation_id", p->correlation_id);
    put_property(b, p, AMQP_BASIC_REPLY_TO_FLAG, "reply_to", p->reply_to);
    put_property(b, p, AMQP_BASIC_CONTENT_TYPE_FLAG, "content_type", p->content_type);
    put_property(b, p, AMQP_BASIC_CONTENT_ENCODING_FLAG, "content_encoding", p->content_encoding);
    put_property(b, p, AMQP_BASIC_EXPIRATION_FLAG, "expiration", p->expiration);
    if (p->_flags & AMQP_BASIC_TIMESTAMP_FLAG) {
        buf_printf(b, ", \"timestamp\": %" PRIu64, p->timestamp);
    }
    if (p->_flags & AMQP_BASIC_PRIORITY_FLAG) {
        buf_printf(b, ", \"priority\": %d", p->priority);
    }
    if (offset >= 0) {
        buf_printf(b, ", \"offset\": %" PRId64, offset);
    }
    if (p->_flags & AMQP_BASIC_HEADERS_FLAG) {
        buf_put_text(b, ", \"headers\": ");
        put_table(b, &p->headers, 0);
    }
}

void envelope_put_base64(struct buf *b, const void *data, size_t bytes)
{
    enum { PIECE = 3 * 1024 };
    const unsigned char *at = data;
    buf_put_char(b, '"');
    for (size_t left = bytes; left > 0;) {
        unsigned char text[4 * (PIECE / 3) + 1];
        int n = (int)(left < PIECE ? left : PIECE);
        buf_put(b, text, (size_t)EVP_EncodeBlock(text, at, n));
        at += n;
        left -= (size_t)n;
    }
    buf_put_char(b, '"');
}
