#include "ui/gate.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 256 };

void gate_headers(struct http_answer *a)
{
    http_answer_header(a, "Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                       "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'");
    http_answer_header(a, "X-Frame-Options", "DENY");
    http_answer_header(a, "X-Content-Type-Options", "nosniff");
    http_answer_header(a, "Referrer-Policy", "no-referrer");
    http_answer_header(a, "Cross-Origin-Opener-Policy", "same-origin");
    http_answer_header(a, "Cross-Origin-Resource-Policy", "same-origin");
}

bool gate_request(const struct options *o, const struct http_request *r, struct fault *f)
{
    const char *const names[] = {
        "Host",           "Origin",         "Authorization",
        "Content-Type",   "Content-Length", "Transfer-Encoding",
        "Sec-Fetch-Site", "X-Tenon",        option_text(o, OPTION_USER_HEADER)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i] && http_header_again(r, names[i])) {
            return fault_set(f, FAULT_REFUSED, "the header %s occurs more than once", names[i]);
        }
    }
    if (!http_headers_named_well(r)) {
        return fault_set(f, FAULT_REFUSED,
                         "the name of a header has a character that none may have");
    }
    return !http_header(r, "Content-Length") || !http_header(r, "Transfer-Encoding") ||
           fault_set(f, FAULT_REFUSED, "the body has two lengths");
}

/* "[::1]:7070" -> "::1" */
static bool host_name(const char *host, char name[NAME_BYTES])
{
    const char *end = *host == '[' ? strchr(host, ']') : host + strcspn(host, ":");
    const char *begin = host + (*host == '[');
    if (!end || end == begin || end - begin >= NAME_BYTES) {
        return false;
    }
    (void)snprintf(name, NAME_BYTES, "%.*s", (int)(end - begin), begin);
    return true;
}

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool may_be_named(const struct options *o, const char *name)
{
    bool may = is_address(name) || strcasecmp(name, "localhost") == 0;
    for (size_t i = 0; i < option_items(o, OPTION_HOSTS) && !may; i++) {
        may = strcasecmp(name, option_item(o, OPTION_HOSTS, i)) == 0;
    }
    return may;
}

bool gate_host(const struct options *o, const struct http_request *r, struct fault *f)
{
    const char *host = http_header(r, "Host");
    char name[NAME_BYTES];
    return (host && host_name(host, name) && may_be_named(o, name)) ||
           fault_set(f, FAULT_REFUSED,
                     "the host \"%.100s\" is not known here: to reach the page by that name, start "
                     "tenon ui with --hosts",
                     host ? host : "");
}

static const char other_page[] = "the request comes from another page";

bool gate_origin(const struct http_request *r, bool changes, struct fault *f)
{
    const char *ours = http_header(r, "X-Tenon"), *origin = http_header(r, "Origin");
    const char *host = http_header(r, "Host"), *site = http_header(r, "Sec-Fetch-Site");
    const char *where = origin ? strstr(origin, "://") : NULL;
    if (!changes) {
        return !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0 ||
               fault_set(f, FAULT_REFUSED, other_page);
    }
    if (!ours) {
        return fault_set(f, FAULT_REFUSED,
                         "a request that changes something needs the header "
                         "X-Tenon: 1");
    }
    if ((origin && !(where && host && strcasecmp(where + 3, host) == 0)) ||
        (site && strcmp(site, "same-origin") != 0)) {
        return fault_set(f, FAULT_REFUSED, other_page);
    }
    return true;
}
