#include "intake/rules.h"

#include "core/base/text.h"
#include "core/options/option_value.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 24 };

/* --- options ---------------------------------------------------------------------------------- */

static enum rule rule_of(const char *text, const char **ret_header)
{
    static const char header[] = "header:";
    if (!text) {
        return RULE_FIXED;
    }
    if (strncmp(text, header, sizeof header - 1) == 0) {
        *ret_header = text + sizeof header - 1;
        return RULE_HEADER;
    }
    return strcmp(text, "type") == 0          ? RULE_TYPE
           : strcmp(text, "routing-key") == 0 ? RULE_ROUTING_KEY
           : strcmp(text, "body") == 0        ? RULE_BODY
                                              : RULE_MESSAGE_ID;
}

static bool check(const struct rules *r, struct fault *f)
{
    bool allows = option_items(r->options, OPTION_ALLOW_KINDS) > 0;
    if (option_items(r->options, OPTION_FROM) + option_items(r->options, OPTION_FROM_STREAM) == 0) {
        return fault_set(f, FAULT_CONFIG, "--from or --from-stream is missing");
    }
    if (r->kind_from == RULE_FIXED && !r->kind) {
        return fault_set(f, FAULT_CONFIG, "--kind or --kind-from is missing");
    }
    if (allows != (r->kind_from != RULE_FIXED)) {
        return fault_set(f, FAULT_CONFIG, "--%s requires --%s",
                         allows ? "allow-kinds" : "kind-from",
                         allows ? "kind-from" : "allow-kinds");
    }
    return r->on_invalid == INVALID_REJECT || r->kind ||
           fault_set(f, FAULT_CONFIG,
                     "--on-invalid keep requires --kind, for messages without a kind");
}

bool rules_read(const struct options *o, struct rules *ret, struct fault *f)
{
    *ret = (struct rules){
        .options = o,
        .kind = option_text(o, OPTION_KIND),
        .offset = option_text(o, OPTION_OFFSET),
        .task_queue = option_text(o, OPTION_QUEUE),
        .priority = option_text(o, OPTION_PRIORITY),
        .envelope = option_flag(o, OPTION_ENVELOPE),
        .on_invalid = (enum on_invalid)option_int(o, OPTION_ON_INVALID),
        .prefetch = (int)option_int(o, OPTION_PREFETCH),
    };
    ret->kind_from = rule_of(option_text(o, OPTION_KIND_FROM), &ret->kind_header);
    ret->key_from = rule_of(option_text(o, OPTION_KEY_FROM), &ret->key_header);
    return check(ret, f);
}

/* --- what a message says ---------------------------------------------------------------------- */

const amqp_field_value_t *rules_header(const amqp_basic_properties_t *p, const char *name)
{
    size_t bytes = strlen(name);
    bool has = (p->_flags & AMQP_BASIC_HEADERS_FLAG) != 0;
    for (int i = 0; has && i < p->headers.num_entries; i++) {
        const amqp_table_entry_t *e = &p->headers.entries[i];
        if (e->key.len == bytes && memcmp(e->key.bytes, name, bytes) == 0) {
            return &e->value;
        }
    }
    return NULL;
}

/* A text, or a whole number printed; empty for anything else. */
static amqp_bytes_t bytes_of(const amqp_field_value_t *v, char number[NUMBER_BYTES])
{
    int64_t n;
    switch (v->kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        return v->value.bytes;
    case AMQP_FIELD_KIND_I8:
        n = v->value.i8;
        break;
    case AMQP_FIELD_KIND_U8:
        n = v->value.u8;
        break;
    case AMQP_FIELD_KIND_I16:
        n = v->value.i16;
        break;
    case AMQP_FIELD_KIND_U16:
        n = v->value.u16;
        break;
    case AMQP_FIELD_KIND_I32:
        n = v->value.i32;
        break;
    case AMQP_FIELD_KIND_U32:
        n = v->value.u32;
        break;
    case AMQP_FIELD_KIND_I64:
    case AMQP_FIELD_KIND_U64:
        n = v->value.i64;
        break;
    default:
        return amqp_empty_bytes;
    }
    (void)snprintf(number, NUMBER_BYTES, "%" PRId64, n);
    return amqp_cstring_bytes(number);
}

static amqp_bytes_t header_bytes(const amqp_basic_properties_t *p, const char *name,
                                 char number[NUMBER_BYTES])
{
    const amqp_field_value_t *v = rules_header(p, name);
    return v ? bytes_of(v, number) : amqp_empty_bytes;
}

/* False: it is longer than that, or has a NUL. */
static bool copy(amqp_bytes_t from, char *to, size_t size)
{
    if (from.len >= size || (from.len > 0 && memchr(from.bytes, 0, from.len))) {
        return false;
    }
    memcpy(to, from.len > 0 ? from.bytes : "", from.len);
    to[from.len] = '\0';
    return true;
}

/* --- the kind --------------------------------------------------------------------------------- */

static bool is_allowed(const struct rules *r, const char *kind)
{
    if (!fits_kind(kind)) {
        return false;
    }
    for (size_t i = 0; i < option_items(r->options, OPTION_ALLOW_KINDS); i++) {
        const char *item = option_item(r->options, OPTION_ALLOW_KINDS, i);
        size_t bytes = strcspn(item, "*");
        if (strncmp(kind, item, bytes) == 0 && (item[bytes] == '*' || !kind[bytes])) {
            return true;
        }
    }
    return false;
}

bool rules_kind(const struct rules *r, const amqp_basic_properties_t *p, amqp_bytes_t routing_key,
                char ret[RULES_KIND_BYTES])
{
    char number[NUMBER_BYTES];
    amqp_bytes_t said = amqp_empty_bytes;
    if (r->kind_from == RULE_HEADER) {
        said = header_bytes(p, r->kind_header, number);
    } else if (r->kind_from == RULE_ROUTING_KEY) {
        said = routing_key;
    } else if (r->kind_from == RULE_TYPE && (p->_flags & AMQP_BASIC_TYPE_FLAG)) {
        said = p->type;
    }
    if (said.len > 0 && copy(said, ret, RULES_KIND_BYTES) && is_allowed(r, ret)) {
        return true;
    }
    (void)snprintf(ret, RULES_KIND_BYTES, "%s", r->kind ? r->kind : "");
    return r->kind != NULL;
}

/* --- the key ---------------------------------------------------------------------------------- */

static void hash(const void *data, size_t bytes, char ret[RULES_KEY_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    (void)SHA256(data, bytes, digest);
    size_t at = (size_t)snprintf(ret, RULES_KEY_BYTES, "sha256:");
    for (size_t i = 0; i < sizeof digest; i++) {
        at += (size_t)snprintf(ret + at, RULES_KEY_BYTES - at, "%02x", digest[i]);
    }
}

/* What PostgreSQL cannot store, or is too long, by its hash. */
bool rules_key(const struct rules *r, const amqp_basic_properties_t *p, char ret[RULES_KEY_BYTES])
{
    char number[NUMBER_BYTES];
    amqp_bytes_t said = amqp_empty_bytes;
    if (r->key_from == RULE_HEADER) {
        said = header_bytes(p, r->key_header, number);
    } else if (r->key_from == RULE_MESSAGE_ID && (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)) {
        said = p->message_id;
    }
    if (said.len > 0 && (!copy(said, ret, RULES_KEY_BYTES) || !text_is_utf8(ret))) {
        hash(said.bytes, said.len, ret);
    }
    return said.len > 0;
}

void rules_body_key(const char *body, size_t bytes, char ret[RULES_KEY_BYTES])
{
    hash(body, bytes, ret);
}

bool rules_trace(const amqp_basic_properties_t *p, char ret[RULES_TRACE_BYTES])
{
    char number[NUMBER_BYTES];
    return copy(header_bytes(p, "traceparent", number), ret, RULES_TRACE_BYTES) && fits_trace(ret);
}
