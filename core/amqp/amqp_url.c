#include "core/amqp/amqp_url.h"

#include "core/base/buf.h"

#include <amqp.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES_MAX = 4096 };

static const char form[] = "amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://..., where "
                           "HOST:PORT,HOST:PORT are several hosts of one cluster, and a slash "
                           "within a name is written %2f";

/* Where the hosts begin: behind the user. They end where the virtual host begins. */
static const char *hosts_of(const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *from = scheme ? scheme + 3 : url;
    const char *at = memchr(from, '@', strcspn(from, "/"));
    return at ? at + 1 : from;
}

/* The library knows URLs of one host: ret->text has room for one of each, and the rest points into
 * them. */
static bool parse_all(const char *url, size_t size, struct amqp_url *ret)
{
    const char *hosts = hosts_of(url), *vhost = hosts + strcspn(hosts, "/"), *host = hosts;
    bool several = hosts[strcspn(hosts, ",/")] == ',';
    for (size_t len;; host += len + 1) {
        struct amqp_connection_info info;
        char *text = ret->text + (size_t)ret->n_hosts * size;
        len = strcspn(host, ",/");
        if (ret->n_hosts == AMQP_URL_HOSTS_MAX || (several && len == 0)) {
            return false;
        }
        (void)snprintf(text, size, "%.*s%.*s%s", (int)(hosts - url), url, (int)len, host,
                       strcmp(vhost, "//") == 0 ? "/" : vhost);
        amqp_default_connection_info(&info);
        if (amqp_parse_url(text, &info) != AMQP_STATUS_OK || info.port < 1 || info.port > 65535) {
            return false;
        }
        ret->hosts[ret->n_hosts++] = (struct amqp_host){info.host, info.port};
        if (host[len] != ',') {
            ret->user = info.user;
            ret->password = info.password;
            ret->vhost = *info.vhost ? info.vhost : "/";
            ret->tls = info.ssl != 0;
            return true;
        }
    }
}

bool amqp_url_parse(const char *url, struct amqp_url *ret, struct fault *f)
{
    if (!url || !*url) {
        return fault_set(f, FAULT_CONFIG, "there is no AMQP URL; it has the form %s", form);
    }
    const char *vhost = strchr(hosts_of(url), '/');
    if (isspace((unsigned char)*url) || isspace((unsigned char)url[strlen(url) - 1])) {
        return fault_set(f, FAULT_CONFIG,
                         "the AMQP URL begins or ends with a blank or a newline; remove it");
    }
    if (vhost && strchr(vhost, '@')) {
        return fault_set(
            f, FAULT_CONFIG,
            "the user or the password in the AMQP URL contains an \"@\" or a \"/\"; write "
            "%%40 for \"@\" and %%2F for \"/\"");
    }
    if (strchr(url, '?')) {
        return fault_set(f, FAULT_CONFIG,
                         "the AMQP URL has parameters after a \"?\", and none are known; "
                         "a question mark itself is written %%3f");
    }
    size_t size = strlen(url) + 1;
    *ret = (struct amqp_url){.text = calloc(AMQP_URL_HOSTS_MAX, size),
                             .bytes = AMQP_URL_HOSTS_MAX * size};
    if (!ret->text) {
        return fault_memory(f);
    }
    if (!parse_all(url, size, ret)) {
        amqp_url_clear(ret);
        return fault_set(f, FAULT_CONFIG,
                         "the AMQP URL cannot be read; it has at most %d hosts and the form %s",
                         AMQP_URL_HOSTS_MAX, form);
    }
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

/* The hosts from the nth to before `end`, and what goes for all of them. */
static void put_where(const struct amqp_url *url, int nth, int end, char *text, size_t size)
{
    struct buf b;
    buf_init(&b, WHERE_BYTES_MAX);
    for (int i = nth; i < end; i++) {
        buf_printf(&b, "%s%s", i == nth ? "host=" : ",", url->hosts[i].name);
    }
    for (int i = nth; i < end; i++) {
        buf_printf(&b, "%s%d", i == nth ? " port=" : ",", url->hosts[i].port);
    }
    buf_printf(&b, " vhost=%s user=%s%s", url->vhost, url->user, url->tls ? " tls=yes" : "");
    (void)snprintf(text, size, "%s", buf_text(&b));
    buf_clear(&b);
}

void amqp_url_where(const struct amqp_url *url, int nth, char *text, size_t size)
{
    put_where(url, nth, nth + 1, text, size);
}

void amqp_url_mask(const char *url, char *text, size_t size)
{
    struct amqp_url parts = {0};
    struct fault ignored = {0};
    if (!amqp_url_parse(url, &parts, &ignored)) {
        (void)snprintf(text, size, "(not an AMQP URL)");
        return;
    }
    put_where(&parts, 0, parts.n_hosts, text, size);
    amqp_url_clear(&parts);
}

const char *amqp_library_version(void)
{
    return amqp_version();
}
