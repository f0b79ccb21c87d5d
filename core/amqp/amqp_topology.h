/* The topology in RabbitMQ: a durable direct exchange, whose name is a setting of the schema, and
 * for each queue and kind that some worker serves one durable classic queue
 * `<exchange>.<queue>/<kind>`, bound with routing key `<queue>/<kind>`. A wake-up older than ten
 * seconds is worth nothing, so the queues are bounded in time, and in length: a full one
 * refuses the next.
 *
 * Who consumes, declares: a worker its queues; `tenon setup` and the cleaner the exchange. */
#ifndef TENON_CORE_AMQP_TOPOLOGY_H
#define TENON_CORE_AMQP_TOPOLOGY_H

#include "core/amqp/amqp_url.h"

enum {
    TOPOLOGY_EXCHANGE_BYTES = 64, /* of a name with its NUL; the schema allows 63 */
    TOPOLOGY_KEY_BYTES = 165,     /* of "<queue>/<kind>": 63, 1 and 100 */
    TOPOLOGY_NAME_BYTES = TOPOLOGY_EXCHANGE_BYTES + TOPOLOGY_KEY_BYTES,
    TOPOLOGY_WINDOW_IDS = 10000, /* wake-ups that a queue holds before it refuses */
    TOPOLOGY_TTL_MS = 10000,
    TOPOLOGY_EXPIRES_MS = 86400000, /* a queue that nobody consumes for a day goes */
};

struct link;

/* "<exchange>.<queue>/<kind>", the queue of a routing key. */
void topology_name(const char *exchange, const char *key, char name[TOPOLOGY_NAME_BYTES]);

/* These ask and wait. false: CONFIG RabbitMQ refuses, RETRY it does not answer. */
MUST_CHECK bool topology_declare_exchange(struct link *l, const char *exchange, struct fault *f);
MUST_CHECK bool topology_declare_queue(struct link *l, const char *exchange, const char *key,
                                       struct fault *f);

/* Connect, declare the exchange, and leave. false also: CONFIG the URL. */
MUST_CHECK bool amqp_declare(const char *url, const char *exchange, struct fault *f);

#endif
