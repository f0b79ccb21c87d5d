#include "core/base/network.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IPV4_AT = 12, BITS_MAX = 128, BITS_DIGITS_MAX = 3 };

static const unsigned char mapped[IPV4_AT] = {[10] = 0xFF, [11] = 0xFF};

static bool address_read(const char *text, struct network *ret, bool *ret_ipv4)
{
    *ret_ipv4 = inet_pton(AF_INET, text, ret->bytes + IPV4_AT) == 1;
    if (*ret_ipv4) {
        memcpy(ret->bytes, mapped, sizeof mapped);
    }
    return *ret_ipv4 || inet_pton(AF_INET6, text, ret->bytes) == 1;
}

bool network_read(const char *text, struct network *ret)
{
    char address[INET6_ADDRSTRLEN];
    size_t n = strcspn(text, "/");
    const char *bits = text[n] ? text + n + 1 : NULL;
    bool ipv4;
    *ret = (struct network){.bits = BITS_MAX};
    if (n >= sizeof address) {
        return false;
    }
    (void)snprintf(address, sizeof address, "%.*s", (int)n, text);
    if (!address_read(address, ret, &ipv4)) {
        return false;
    }
    if (bits) {
        size_t digits = strspn(bits, "0123456789");
        if (digits == 0 || digits > BITS_DIGITS_MAX || bits[digits]) {
            return false;
        }
        ret->bits = (int)strtol(bits, NULL, 10) + (ipv4 ? 8 * IPV4_AT : 0);
    }
    return ret->bits <= BITS_MAX;
}

bool network_has(const struct network *n, const char *address)
{
    struct network other;
    int whole = n->bits / 8, rest = n->bits % 8;
    return network_read(address, &other) && other.bits == BITS_MAX &&
           memcmp(n->bytes, other.bytes, (size_t)whole) == 0 &&
           (rest == 0 || ((n->bytes[whole] ^ other.bytes[whole]) >> (8 - rest)) == 0);
}
