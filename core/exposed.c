#include "core/exposed.h"

#include "core/amqp_url.h"

#include <stdio.h>
#include <string.h>

bool exposed_host(const char *host)
{
    return *host && *host != '/' && strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0 &&
           strncmp(host, "127.", 4) != 0 && strncmp(host, "::ffff:127.", 11) != 0;
}

static bool amqp_is_exposed(const char *url)
{
    struct fault ignored = {0};
    struct amqp_url parts = {0};
    bool found = false;
    if (!url || strcmp(url, "none") == 0 || !amqp_url_parse(url, &parts, &ignored)) {
        return false;
    }
    for (int i = 0; i < parts.n_hosts && !parts.tls; i++) {
        found = found || exposed_host(parts.hosts[i].name);
    }
    amqp_url_clear(&parts);
    return found;
}

const char *exposed_text(const char *database, const char *amqp_url, char text[EXPOSED_BYTES])
{
    bool amqp = amqp_is_exposed(amqp_url);
    (void)snprintf(text, EXPOSED_BYTES, "%s%s%s%s", database ? "PostgreSQL " : "",
                   database ? database : "", database && amqp ? ", " : "",
                   amqp ? "RabbitMQ not encrypted" : "");
    return database || amqp ? text : NULL;
}
