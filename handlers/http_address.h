/* Which addresses are nobody's but this network's: what an endpoint's name must not lead to. */
#ifndef TENON_HANDLERS_HTTP_ADDRESS_H
#define TENON_HANDLERS_HTTP_ADDRESS_H

#include <stdbool.h>

struct sockaddr;

/* Loopback, private, link-local, multicast and reserved addresses, also within an IPv6 address
 * (mapped, 6to4, NAT64), and all that is neither IPv4 nor IPv6. By IANA's special-purpose address
 * registries. */
bool address_is_private(const struct sockaddr *address);

#endif
