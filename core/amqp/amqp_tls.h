/* TLS to RabbitMQ: the system's certificates, the peer's name checked, TLS 1.2 or newer. */
#ifndef TENON_CORE_AMQP_TLS_H
#define TENON_CORE_AMQP_TLS_H

#include "core/base/fault.h"

#include <amqp.h>

enum { TLS_TEXT_BYTES = 160 };

/* Give `conn` a TLS socket that will accept only a certificate for `host` (a name or an address).
 *   why   outlives the connection; says what was wrong with the peer's certificate, "" = nothing */
MUST_CHECK bool tls_socket(amqp_connection_state_t conn, const char *host, char why[TLS_TEXT_BYTES],
                           amqp_socket_t **ret, struct fault *f);

#endif
