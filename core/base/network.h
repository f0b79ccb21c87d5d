/* Addresses and networks of IPv4 and IPv6, such as 10.0.0.7, 10.0.0.0/8 and fd00::/8. */
#ifndef TENON_CORE_NETWORK_H
#define TENON_CORE_NETWORK_H

#include <stdbool.h>

struct network {
    unsigned char bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
    int bits;                /* how many of them belong to the network; 128 = one address */
};

/* false: it is neither an address nor a network */
bool network_read(const char *text, struct network *ret);

/* Is this address, as a text, in the network? */
bool network_has(const struct network *n, const char *address);

#endif
