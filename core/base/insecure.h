/* Connections to other hosts that somebody on the way may read, or answer in the server's place. */
#ifndef TENON_CORE_INSECURE_H
#define TENON_CORE_INSECURE_H

#include <stdbool.h>
#include <stddef.h>

enum { INSECURE_BYTES = 96 };

/* Is it another host: neither a socket's path, nor a loopback address, nor "localhost"? */
bool host_is_remote(const char *host);

/* What the start line says, "PostgreSQL not encrypted, RabbitMQ not encrypted"; NULL = there is
 * nothing to say. TLS to RabbitMQ is always verified.
 *   database   as db_insecure() says it; NULL = it is not
 *   amqp_url   NULL or "none" = there is no RabbitMQ
 *   otlp_url   NULL = there is no collector of traces */
const char *insecure_text(const char *database, const char *amqp_url, const char *otlp_url,
                          char text[INSECURE_BYTES]);

#endif
