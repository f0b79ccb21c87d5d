/* An AMQP URL, taken apart: amqp://user:password@host:port/vhost, or amqps:// for TLS. Several
 * hosts of one cluster are separated by commas, like in a URL of libpq: a:5672,b:5672,c. */
#ifndef TENON_CORE_AMQP_URL_H
#define TENON_CORE_AMQP_URL_H

#include "core/base/fault.h"

enum { AMQP_URL_HOSTS_MAX = 16 };

struct amqp_host {
    const char *name;
    int port;
};

struct amqp_url {
    char *text; /* what the others point into */
    size_t bytes;
    struct amqp_host hosts[AMQP_URL_HOSTS_MAX];
    int n_hosts; /* 1.. */
    const char *user, *password, *vhost;
    bool tls;
};

/* Parse a URL. What is missing is guest, guest, localhost, 5672 (TLS: 5671) and the virtual host
 * "/"; "%2f" means a slash, and "//" at the end, as others write it, is the virtual host "/".
 *   false   CONFIG: not such a URL (the text never shows the password); MEMORY */
MUST_CHECK bool amqp_url_parse(const char *url, struct amqp_url *ret, struct fault *f);
void amqp_url_clear(struct amqp_url *url); /* frees, and wipes the password from memory */

/* "host=mq port=5672 vhost=/ user=app": the nth host and what goes for all of them, for log lines
 * and faults; no password. */
void amqp_url_where(const struct amqp_url *url, int nth, char *text, size_t size);

/* The same of all its hosts: "host=mq1,mq2 port=5672,5672 ...". */
void amqp_url_mask(const char *url, char *text, size_t size);

const char *amqp_library_version(void); /* of librabbitmq: "0.11.0" */

#endif
