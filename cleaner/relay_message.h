/* A message of the outbox as the relay holds it, and as AMQP has it. Inside the relay only. */
#ifndef TENON_CLEANER_RELAY_MESSAGE_H
#define TENON_CLEANER_RELAY_MESSAGE_H

#include "core/base/fault.h"
#include "core/db/db.h"

#include <amqp.h>
#include <stdint.h>

enum { MESSAGE_CHANNEL = 1 }; /* LINK_CHANNEL */

struct message {
    struct message *prev, *next; /* of the list that it is in (utlist.h) */
    int64_t id;
    uint64_t tag;        /* of its publish; 0 = not sent */
    int64_t deadline_ms; /* worthless from then on, by now_ms(); 0 = never */
    int64_t created_s;   /* since 1970 */
    bool returned;       /* no queue got it */
    const char *order_key, *headers, *properties, *trace; /* NULL = none */
    const char *exchange, *routing_key, *message_id, *content_type;
    amqp_bytes_t body;
    char data[]; /* what the pointers point to */
};

/* The message in a row of relay_read.sql; free() it. NULL: no memory. */
struct message *message_read(const struct rows *rows, size_t row, int64_t now_ms);

void messages_free(struct message **list);

/* Send it: persistent, mandatory, with its id as the header tenon-id.
 *   ret_status  the library's
 *   false       REFUSED: its headers cannot be sent; nothing was */
MUST_CHECK bool message_publish(amqp_connection_state_t conn, const struct message *m,
                                int64_t now_ms, int *ret_status, struct fault *f);

/* The header tenon-id of a message that came back; 0 = it has none. */
int64_t message_id_of(const amqp_basic_properties_t *properties);

#endif
