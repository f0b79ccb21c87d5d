#include "core/amqp_url.h"

#include <amqp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char form[] = "amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://...";

bool amqp_url_parse(const char *url, struct amqp_url *ret, struct fault *f)
{
    if (!url || !*url) {
        return fault_set(f, FAULT_CONFIG, "there is no AMQP URL; it has the form %s", form);
    }
    if (strchr(url, '?')) {
        return fault_set(f, FAULT_CONFIG,
                         "the AMQP URL has parameters after a \"?\", and none are known; "
                         "a question mark itself is written %%3f");
    }
    struct amqp_connection_info info;
    amqp_default_connection_info(&info);
    char *text = strdup(url);
    if (!text) {
        return fault_memory(f);
    }
    if (amqp_parse_url(text, &info) != AMQP_STATUS_OK || info.port < 1 || info.port > 65535) {
        free(text);
        return fault_set(f, FAULT_CONFIG, "the AMQP URL cannot be read; it has the form %s", form);
    }
    *ret = (struct amqp_url){.text = text,
                             .bytes = strlen(url),
                             .host = info.host,
                             .user = info.user,
                             .password = info.password,
                             .vhost = *info.vhost ? info.vhost : "/",
                             .port = info.port,
                             .tls = info.ssl != 0};
    return true;
}

void amqp_url_clear(struct amqp_url *url)
{
    if (url->text) {
        explicit_bzero(url->text, url->bytes);
        free(url->text);
    }
    *url = (struct amqp_url){0};
}

void amqp_url_mask(const char *url, char *text, size_t size)
{
    struct amqp_url parts = {0};
    struct fault ignored = {0};
    if (!amqp_url_parse(url, &parts, &ignored)) {
        (void)snprintf(text, size, "(not an AMQP URL)");
        return;
    }
    (void)snprintf(text, size, "host=%s port=%d vhost=%s user=%s%s", parts.host, parts.port,
                   parts.vhost, parts.user, parts.tls ? " tls=yes" : "");
    amqp_url_clear(&parts);
}
