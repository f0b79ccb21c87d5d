#include "handlers/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static bool is_private_4(uint32_t address)
{
    static const struct {
        uint32_t from;
        int bits;
    } special[] = {
        {0x00000000, 8},  /* 0.0.0.0/8, this host */
        {0x0a000000, 8},  /* 10.0.0.0/8 */
        {0x64400000, 10}, /* 100.64.0.0/10, carriers' */
        {0x7f000000, 8},  /* 127.0.0.0/8 */
        {0xa9fe0000, 16}, /* 169.254.0.0/16, link-local, and clouds' metadata */
        {0xac100000, 12}, /* 172.16.0.0/12 */
        {0xc0000000, 24}, /* 192.0.0.0/24 */
        {0xc0000200, 24}, /* 192.0.2.0/24, for examples, as two below */
        {0xc0586300, 24}, /* 192.88.99.0/24, relays */
        {0xc0a80000, 16}, /* 192.168.0.0/16 */
        {0xc6120000, 15}, /* 198.18.0.0/15, for measurements */
        {0xc6336400, 24}, /* 198.51.100.0/24 */
        {0xcb007100, 24}, /* 203.0.113.0/24 */
        {0xe0000000, 3},  /* 224.0.0.0/4 and 240.0.0.0/4: multicast, reserved, broadcast */
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if ((address ^ special[i].from) >> (32 - special[i].bits) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t number_at(const uint8_t *bytes)
{
    uint32_t n;
    memcpy(&n, bytes, sizeof n);
    return ntohl(n);
}

/* Global addresses are in 2000::/3; the rest is special, except forms of an IPv4 address. */
static bool is_private_6(const uint8_t *a)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};    /* 64:ff9b::/96 */
    uint32_t head = number_at(a);
    if (memcmp(a, mapped, sizeof mapped) == 0 || memcmp(a, nat64, sizeof nat64) == 0) {
        return is_private_4(number_at(a + 12));
    }
    if (head >> 16 == 0x2002) { /* 6to4 */
        return is_private_4(number_at(a + 2));
    }
    return head >> 29 != 1 || head >> 9 == 0x20010000 >> 9 || /* 2001::/23, Teredo and others */
           head == 0x20010db8 || head >> 12 == 0x3fff0;       /* for examples */
}

bool address_is_private(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return is_private_4(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        return is_private_6(in6.sin6_addr.s6_addr);
    }
    return true;
}
