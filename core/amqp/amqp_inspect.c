#include "core/amqp/amqp_inspect.h"

#include "core/amqp/amqp_link.h"

#include <stdio.h>
#include <string.h>

enum { GOODBYE_MS = 250 };

static void read_version(const struct link *l, char *ret, size_t size)
{
    static const char key[] = "version";
    const amqp_table_t *all = amqp_get_server_properties(l->conn);
    for (int i = 0; all && i < all->num_entries; i++) {
        const amqp_table_entry_t *one = &all->entries[i];
        if (one->value.kind == AMQP_FIELD_KIND_UTF8 && one->key.len == strlen(key) &&
            memcmp(one->key.bytes, key, one->key.len) == 0) {
            (void)snprintf(ret, size, "%.*s", (int)one->value.value.bytes.len,
                           (const char *)one->value.value.bytes.bytes);
        }
    }
}

/* After a passive declaration: was the answer that there is no such thing? */
static bool is_missing(struct link *l)
{
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(l->conn);
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION ||
        reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD) {
        return false;
    }
    const amqp_channel_close_t *closed = reply.reply.decoded;
    return closed->reply_code == AMQP_NOT_FOUND;
}

static bool see_exchange(struct link *l, const char *exchange, struct amqp_state *ret,
                         struct fault *f)
{
    (void)amqp_exchange_declare(l->conn, LINK_CHANNEL, amqp_cstring_bytes(exchange),
                                amqp_cstring_bytes("direct"), 1, 1, 0, 0, amqp_empty_table);
    ret->exchange = is_missing(l);
    if (ret->exchange) {
        (void)snprintf(ret->missing, sizeof ret->missing, "the exchange %s", exchange);
    }
    return ret->exchange || link_answer(l, "could not ask for the exchange", f);
}

static bool see_queue(struct link *l, const char *name, struct amqp_state *ret, struct fault *f)
{
    (void)amqp_queue_declare(l->conn, LINK_CHANNEL, amqp_cstring_bytes(name), 1, 1, 0, 0,
                             amqp_empty_table);
    if (is_missing(l)) {
        (void)snprintf(ret->missing, sizeof ret->missing, "the queue %s", name);
        return true;
    }
    return link_answer(l, "could not ask for a queue", f);
}

bool amqp_inspect(const char *url, const char *exchange, const char *const *keys, size_t n,
                  struct amqp_state *ret, struct fault *f)
{
    struct amqp_url parts = {0};
    struct link *l = NULL;
    char name[TOPOLOGY_NAME_BYTES];
    *ret = (struct amqp_state){0};
    bool ok = amqp_url_parse(url, &parts, f) && link_open(&parts, "tenon doctor", NULL, &l, f);
    if (ok) {
        read_version(l, ret->version, sizeof ret->version);
        ok = see_exchange(l, exchange, ret, f);
    }
    for (size_t i = 0; ok && !ret->missing[0] && i < n; i++) {
        topology_name(exchange, keys[i], name);
        ok = see_queue(l, name, ret, f);
    }
    link_close(l, ret->missing[0] ? 0 : GOODBYE_MS);
    amqp_url_clear(&parts);
    return ok;
}
