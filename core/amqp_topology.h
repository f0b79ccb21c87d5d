/* The exchange, the queues and their bindings in RabbitMQ: exchange `tenon` (direct, durable),
 * queue `tenon.<queue>` (durable, classic or quorum), routing key = the queue's name. Everything
 * tunable is left to policies. Only core/amqp_*.c use this. */
#ifndef TENON_CORE_AMQP_TOPOLOGY_H
#define TENON_CORE_AMQP_TOPOLOGY_H

#include "core/amqp_link.h"

#define TOPOLOGY_EXCHANGE "tenon"

enum {
    TOPOLOGY_QUEUE_BYTES = 64, /* of a queue's name with its NUL; PostgreSQL allows 63 */
    TOPOLOGY_NAME_BYTES = TOPOLOGY_QUEUE_BYTES + 6,
};

/* "tenon.<queue>". */
void topology_name(const char *queue, char name[TOPOLOGY_NAME_BYTES]);

/* These ask on `channel`, which is open before, and also after a fault unless the link is broken. A
 * fault CONFIG means that RabbitMQ refused, and link_code() why: 404 missing, 403 not allowed. */
MUST_CHECK bool topology_declare_exchange(struct link *l, amqp_channel_t channel, struct fault *f);

/* A queue that exists with another type or other arguments is bound as it is.
 *   type   "classic" or "quorum" */
MUST_CHECK bool topology_declare_queue(struct link *l, amqp_channel_t channel, const char *queue,
                                       const char *type, struct fault *f);

/* How many messages are ready in the queue, and how many consumers it has. */
MUST_CHECK bool topology_look(struct link *l, amqp_channel_t channel, const char *queue,
                              int64_t *ret_ready, int64_t *ret_consumers, struct fault *f);

#endif
