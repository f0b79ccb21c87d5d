#include "tests/fuzz/fuzz.h"

#include "core/amqp/amqp_url.h"
#include "core/db/db.h"
#include "core/options/option_value.h"

#include <stdlib.h>
#include <string.h>

int fuzz_url(const uint8_t *data, size_t size)
{
    char masked[256];
    struct fault f = {0};
    struct amqp_url parts = {0};
    char *url = fuzz_string(data, size);
    bool ok = amqp_url_parse(url, &parts, &f);
    fuzz_fault(ok, &f);
    if (ok) {
        fuzz_that(parts.n_hosts >= 1 && parts.n_hosts <= AMQP_URL_HOSTS_MAX, "no host");
        for (int i = 0; i < parts.n_hosts; i++) {
            fuzz_that(parts.hosts[i].name != NULL, "a host is missing");
            fuzz_that(parts.hosts[i].port >= 1 && parts.hosts[i].port <= 65535, "no port");
        }
        fuzz_that(parts.user && parts.password && *parts.vhost, "a part is missing");
        amqp_url_clear(&parts);
    }
    amqp_url_mask(url, masked, sizeof masked);
    db_url_mask(url, masked, sizeof masked);
    (void)fits_amqp_url(url);
    free(url);
    return 0;
}
