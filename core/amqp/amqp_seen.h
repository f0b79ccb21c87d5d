/* What a RabbitMQ has of what should stand there, for whoever wants to know and change nothing. */
#ifndef TENON_CORE_AMQP_SEEN_H
#define TENON_CORE_AMQP_SEEN_H

#include "core/amqp/amqp_topology.h"

struct amqp_seen {
    char version[32];                       /* the server's; "" = it does not say */
    char missing[TOPOLOGY_NAME_BYTES + 16]; /* "the exchange tenon"; "" = nothing is */
    bool exchange;                          /* that is the exchange, not a queue */
};

/* Connect, ask for the exchange and for the queues of these routing keys up to the first that is
 * missing, and leave.
 *   false   CONFIG: the URL, the login, a right; RETRY: it does not answer */
MUST_CHECK bool amqp_see(const char *url, const char *exchange, const char *const *keys, size_t n,
                         struct amqp_seen *ret, struct fault *f);

#endif
