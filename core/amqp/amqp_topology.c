#include "core/amqp/amqp_topology.h"

#include "core/amqp/amqp_link.h"

#include <stdio.h>

enum { GOODBYE_MS = 250 };

void topology_name(const char *exchange, const char *key, char name[TOPOLOGY_NAME_BYTES])
{
    (void)snprintf(name, TOPOLOGY_NAME_BYTES, "%s.%s", exchange, key);
}

bool topology_declare_exchange(struct link *l, const char *exchange, struct fault *f)
{
    (void)amqp_exchange_declare(l->conn, LINK_CHANNEL, amqp_cstring_bytes(exchange),
                                amqp_cstring_bytes("direct"), 0, 1, 0, 0, amqp_empty_table);
    return link_answer(l, "could not declare the exchange", f);
}

static amqp_table_entry_t entry_number(const char *key, int32_t number)
{
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key)};
    entry.value.kind = AMQP_FIELD_KIND_I32;
    entry.value.value.i32 = number;
    return entry;
}

static bool declare(struct link *l, const char *name, struct fault *f)
{
    char doing[TOPOLOGY_NAME_BYTES + 128];
    amqp_table_entry_t arguments[] = {link_entry_text("x-queue-type", "classic"),
                                      entry_number("x-max-length", TOPOLOGY_WINDOW_IDS),
                                      link_entry_text("x-overflow", "reject-publish"),
                                      entry_number("x-message-ttl", TOPOLOGY_TTL_MS),
                                      entry_number("x-expires", TOPOLOGY_EXPIRES_MS)};
    (void)snprintf(doing, sizeof doing,
                   "could not declare the queue %s (if it was declared otherwise, delete it: it "
                   "holds nothing but wake-ups)",
                   name);
    (void)amqp_queue_declare(l->conn, LINK_CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0,
                             (amqp_table_t){.num_entries = sizeof arguments / sizeof *arguments,
                                            .entries = arguments});
    return link_answer(l, doing, f);
}

bool topology_declare_queue(struct link *l, const char *exchange, const char *key, struct fault *f)
{
    char name[TOPOLOGY_NAME_BYTES], doing[TOPOLOGY_NAME_BYTES + 128];
    topology_name(exchange, key, name);
    (void)snprintf(doing, sizeof doing,
                   "could not bind the queue %s to the exchange, which tenon setup and the cleaner "
                   "declare",
                   name);
    if (!declare(l, name, f)) {
        return false;
    }
    (void)amqp_queue_bind(l->conn, LINK_CHANNEL, amqp_cstring_bytes(name),
                          amqp_cstring_bytes(exchange), amqp_cstring_bytes(key), amqp_empty_table);
    return link_answer(l, doing, f);
}

bool amqp_declare(const char *url, const char *exchange, struct fault *f)
{
    struct amqp_url parts = {0};
    struct link *l = NULL;
    bool ok = amqp_url_parse(url, &parts, f) && link_open(&parts, "tenon setup", NULL, &l, f) &&
              topology_declare_exchange(l, exchange, f);
    link_close(l, GOODBYE_MS);
    amqp_url_clear(&parts);
    return ok;
}
