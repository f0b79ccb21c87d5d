/* An AMQP URL, taken apart: amqp://user:password@host:port/vhost, or amqps:// for TLS. */
#ifndef TENON_CORE_AMQP_URL_H
#define TENON_CORE_AMQP_URL_H

#include "core/fault.h"

struct amqp_url {
    char *text; /* what the others point into */
    size_t bytes;
    const char *host, *user, *password, *vhost;
    int port;
    bool tls;
};

/* Parse a URL. What is missing is guest, guest, localhost, 5672 (TLS: 5671) and the virtual host
 * "/"; "%2f" stands for a slash.
 *   false   CONFIG: not such a URL (the text never shows the password); MEMORY */
MUST_CHECK bool amqp_url_parse(const char *url, struct amqp_url *ret, struct fault *f);
void amqp_url_clear(struct amqp_url *url); /* frees, and wipes the password from memory */

/* "host=mq port=5672 vhost=/ user=app": what a URL names, without its password, for log lines. */
void amqp_url_mask(const char *url, char *text, size_t size);

#endif
