/* Which of the exchange and queues that should be there RabbitMQ has; changes nothing. */
#ifndef TENON_CORE_AMQP_INSPECT_H
#define TENON_CORE_AMQP_INSPECT_H

#include "core/amqp/amqp_topology.h"

struct amqp_state {
    char version[32];                       /* the server's; "" = it does not say */
    char missing[TOPOLOGY_NAME_BYTES + 16]; /* "the exchange tenon"; "" = nothing is */
    bool exchange;                          /* that is the exchange, not a queue */
};

/* Connect, ask for the exchange and for the queues of these routing keys up to the first that is
 * missing, and leave.
 *   false   CONFIG: the URL, the login, a right; RETRY: it does not answer */
MUST_CHECK bool amqp_inspect(const char *url, const char *exchange, const char *const *keys,
                             size_t n, struct amqp_state *ret, struct fault *f);

#endif
