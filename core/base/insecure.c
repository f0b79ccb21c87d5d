#include "core/base/insecure.h"

#include "core/amqp/amqp_url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool host_is_remote(const char *host)
{
    return *host && *host != '/' && strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0 &&
           strncmp(host, "127.", 4) != 0 && strncmp(host, "::ffff:127.", 11) != 0;
}

static bool amqp_is_insecure(const char *url)
{
    struct fault ignored = {0};
    struct amqp_url parts = {0};
    bool found = false;
    if (!url || strcmp(url, "none") == 0 || !amqp_url_parse(url, &parts, &ignored)) {
        return false;
    }
    for (int i = 0; i < parts.n_hosts && !parts.tls; i++) {
        found = found || host_is_remote(parts.hosts[i].name);
    }
    amqp_url_clear(&parts);
    return found;
}

/* "http://[::1]:4318/path"; an option's check has seen to its form. */
static bool otlp_is_insecure(const char *url)
{
    static const char plain[] = "http://";
    char host[256];
    if (!url || strncasecmp(url, plain, sizeof plain - 1) != 0) {
        return false;
    }
    const char *at = url + sizeof plain - 1;
    bool bracketed = *at == '[';
    at += bracketed;
    (void)snprintf(host, sizeof host, "%.*s", (int)strcspn(at, bracketed ? "]" : ":/?#"), at);
    return host_is_remote(host);
}

static void add(char text[INSECURE_BYTES], const char *what, const char *how)
{
    size_t at = strlen(text);
    (void)snprintf(text + at, INSECURE_BYTES - at, "%s%s %s", at > 0 ? ", " : "", what, how);
}

const char *insecure_text(const char *database, const char *amqp_url, const char *otlp_url,
                          char text[INSECURE_BYTES])
{
    text[0] = '\0';
    if (database) {
        add(text, "PostgreSQL", database);
    }
    if (amqp_is_insecure(amqp_url)) {
        add(text, "RabbitMQ", "not encrypted");
    }
    if (otlp_is_insecure(otlp_url)) {
        add(text, "collector", "not encrypted");
    }
    return *text ? text : NULL;
}
