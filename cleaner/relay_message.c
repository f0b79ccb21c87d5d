#include "cleaner/relay_message.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* The columns of relay_read.sql. */
enum {
    ID,
    ORDER_KEY,
    EXCHANGE,
    ROUTING_KEY,
    MESSAGE_ID,
    CONTENT_TYPE,
    HEADERS,
    PROPERTIES,
    TRACE,
    CREATED_S,
    LEFT_MS,
    BODY, /* in hexadecimal */
    TEXTS = TRACE + 1
};

enum { POOL_BYTES = 4096 };

static const char id_header[] = "tenon-id";

/* --- reading ---------------------------------------------------------------------------------- */

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A text of the row, copied to *at; NULL for SQL's NULL. */
static const char *take(const struct rows *rows, size_t row, int column, char **at)
{
    const char *text = rows_text(rows, row, column);
    if (!text) {
        return NULL;
    }
    size_t bytes = strlen(text) + 1;
    char *copy = memcpy(*at, text, bytes);
    *at += bytes;
    return copy;
}

struct message *message_read(const struct rows *rows, size_t row, int64_t now_ms)
{
    const char *hex = rows_text(rows, row, BODY);
    size_t body = strlen(hex) / 2, texts = 0;
    for (int i = ORDER_KEY; i < TEXTS; i++) {
        texts += rows_bytes(rows, row, i) + 1;
    }
    struct message *m = calloc(1, sizeof *m + texts + body);
    if (!m) {
        return NULL;
    }
    char *at = m->data;
    m->id = rows_int(rows, row, ID);
    m->created_s = rows_int(rows, row, CREATED_S);
    m->deadline_ms = rows_is_null(rows, row, LEFT_MS) ? 0 : now_ms + rows_int(rows, row, LEFT_MS);
    m->order_key = take(rows, row, ORDER_KEY, &at);
    m->exchange = take(rows, row, EXCHANGE, &at);
    m->routing_key = take(rows, row, ROUTING_KEY, &at);
    m->message_id = take(rows, row, MESSAGE_ID, &at);
    m->content_type = take(rows, row, CONTENT_TYPE, &at);
    m->headers = take(rows, row, HEADERS, &at);
    m->properties = take(rows, row, PROPERTIES, &at);
    m->trace = take(rows, row, TRACE, &at);
    m->body = (amqp_bytes_t){.len = body, .bytes = at};
    for (size_t i = 0; i < body; i++) {
        at[i] = (char)(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
    }
    return m;
}

void messages_free(struct message **list)
{
    struct message *m, *next;
    DL_FOREACH_SAFE(*list, m, next)
    {
        free(m);
    }
    *list = NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool put_value(amqp_pool_t *pool, json_t *from, amqp_field_value_t *to);

static bool put_table(amqp_pool_t *pool, json_t *from, size_t more, amqp_table_t *to)
{
    const char *key;
    json_t *value;
    to->num_entries = 0;
    to->entries = amqp_pool_alloc(pool, (json_object_size(from) + more + 1) * sizeof *to->entries);
    bool ok = to->entries != NULL;
    json_object_foreach(from, key, value)
    {
        if (ok) {
            amqp_table_entry_t *entry = &to->entries[to->num_entries++];
            entry->key = amqp_cstring_bytes(key);
            ok = put_value(pool, value, &entry->value);
        }
    }
    return ok;
}

static bool put_array(amqp_pool_t *pool, json_t *from, amqp_array_t *to)
{
    to->num_entries = (int)json_array_size(from);
    to->entries = amqp_pool_alloc(pool, (json_array_size(from) + 1) * sizeof *to->entries);
    bool ok = to->entries != NULL;
    for (int i = 0; ok && i < to->num_entries; i++) {
        ok = put_value(pool, json_array_get(from, (size_t)i), &to->entries[i]);
    }
    return ok;
}

static bool put_value(amqp_pool_t *pool, json_t *from, amqp_field_value_t *to)
{
    switch (json_typeof(from)) {
    case JSON_OBJECT:
        to->kind = AMQP_FIELD_KIND_TABLE;
        return put_table(pool, from, 0, &to->value.table);
    case JSON_ARRAY:
        to->kind = AMQP_FIELD_KIND_ARRAY;
        return put_array(pool, from, &to->value.array);
    case JSON_STRING:
        to->kind = AMQP_FIELD_KIND_UTF8;
        to->value.bytes = (amqp_bytes_t){.len = json_string_length(from),
                                         .bytes = (void *)json_string_value(from)};
        return true;
    case JSON_INTEGER:
        to->kind = AMQP_FIELD_KIND_I64;
        to->value.i64 = json_integer_value(from);
        return true;
    case JSON_REAL:
        to->kind = AMQP_FIELD_KIND_F64;
        to->value.f64 = json_real_value(from);
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        to->kind = AMQP_FIELD_KIND_BOOLEAN;
        to->value.boolean = json_is_true(from);
        return true;
    case JSON_NULL:
    default:
        to->kind = AMQP_FIELD_KIND_VOID;
        return true;
    }
}

/* The headers of the message, its trace and its number. */
static bool put_headers(amqp_pool_t *pool, const struct message *m, json_t *headers,
                        amqp_table_t *to)
{
    if (!put_table(pool, headers, 2, to)) {
        return false;
    }
    amqp_table_entry_t *own = &to->entries[to->num_entries++];
    *own = (amqp_table_entry_t){.key = amqp_cstring_bytes(id_header)};
    own->value.kind = AMQP_FIELD_KIND_I64;
    own->value.value.i64 = m->id;
    if (m->trace) {
        own = &to->entries[to->num_entries++];
        *own = (amqp_table_entry_t){.key = amqp_cstring_bytes("traceparent")};
        own->value.kind = AMQP_FIELD_KIND_UTF8;
        own->value.value.bytes = amqp_cstring_bytes(m->trace);
    }
    return true;
}

static void put_property(json_t *properties, const char *key, amqp_flags_t flag,
                         amqp_basic_properties_t *p, amqp_bytes_t *to)
{
    const char *text = json_string_value(json_object_get(properties, key));
    if (text) {
        *to = amqp_cstring_bytes(text);
        p->_flags |= flag;
    }
}

static void put_properties(const struct message *m, json_t *given, amqp_basic_properties_t *p)
{
    p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG;
    p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
    p->message_id = amqp_cstring_bytes(m->message_id);
    p->content_type = amqp_cstring_bytes(m->content_type);
    p->timestamp = (uint64_t)m->created_s;
    put_property(given, "type", AMQP_BASIC_TYPE_FLAG, p, &p->type);
    put_property(given, "app_id", AMQP_BASIC_APP_ID_FLAG, p, &p->app_id);
    put_property(given, "correlation_id", AMQP_BASIC_CORRELATION_ID_FLAG, p, &p->correlation_id);
    put_property(given, "reply_to", AMQP_BASIC_REPLY_TO_FLAG, p, &p->reply_to);
    put_property(given, "content_encoding", AMQP_BASIC_CONTENT_ENCODING_FLAG, p,
                 &p->content_encoding);
    json_t *priority = json_object_get(given, "priority");
    if (priority) {
        p->priority = (uint8_t)json_integer_value(priority);
        p->_flags |= AMQP_BASIC_PRIORITY_FLAG;
    }
}

/* An empty object if there is none. */
static json_t *read_object(const char *text, const char *what, struct fault *f)
{
    json_error_t error;
    json_t *object = text ? json_loads(text, JSON_ALLOW_NUL, &error) : json_object();
    if (!object) {
        (void)fault_set(f, FAULT_REFUSED, "%s: %s", what, text ? error.text : "no memory");
    }
    return object;
}

bool message_publish(amqp_connection_state_t conn, const struct message *m, int64_t now_ms,
                     int *ret_status, struct fault *f)
{
    amqp_basic_properties_t p = {0};
    amqp_pool_t pool;
    char expiration[24];
    json_t *headers = read_object(m->headers, "headers", f);
    json_t *properties = headers ? read_object(m->properties, "properties", f) : NULL;
    init_amqp_pool(&pool, POOL_BYTES);
    bool ok = properties != NULL;
    if (ok && !put_headers(&pool, m, headers, &p.headers)) {
        ok = fault_set(f, FAULT_REFUSED, "headers: no memory");
    }
    if (ok) {
        put_properties(m, properties, &p);
        if (m->deadline_ms > 0) {
            (void)snprintf(expiration, sizeof expiration, "%lld",
                           (long long)(m->deadline_ms - now_ms));
            p.expiration = amqp_cstring_bytes(expiration);
            p._flags |= AMQP_BASIC_EXPIRATION_FLAG;
        }
        *ret_status = amqp_basic_publish(conn, MESSAGE_CHANNEL, amqp_cstring_bytes(m->exchange),
                                         amqp_cstring_bytes(m->routing_key), 1, 0, &p, m->body);
    }
    empty_amqp_pool(&pool);
    json_decref(properties);
    json_decref(headers);
    return ok;
}

int64_t message_id_of(const amqp_basic_properties_t *p)
{
    bool has = p && (p->_flags & AMQP_BASIC_HEADERS_FLAG);
    for (int i = 0; has && i < p->headers.num_entries; i++) {
        const amqp_table_entry_t *e = &p->headers.entries[i];
        if (e->key.len == sizeof id_header - 1 &&
            memcmp(e->key.bytes, id_header, e->key.len) == 0 &&
            e->value.kind == AMQP_FIELD_KIND_I64) {
            return e->value.value.i64;
        }
    }
    return 0;
}
