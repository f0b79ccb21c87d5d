/* The command line of tenon-http. */
#ifndef TENON_HANDLERS_HTTP_SETTINGS_H
#define TENON_HANDLERS_HTTP_SETTINGS_H

#include "handlers/http_signature.h"

enum { HTTP_IN_FLIGHT = 500, HEADERS_FILE_BYTES_MAX = 16384 };

struct http_settings {
    const char *url; /* "{kind}" in it is replaced by the task's kind */
    const char *ca_file;
    int in_flight;
    bool allow_private, retry_4xx, help;
    struct secrets secrets; /* none: nothing is signed */
    struct buf headers;     /* of --headers: a line each */
};

/*   false   CONFIG: an unknown option, a value that is not allowed, a file that cannot be read */
MUST_CHECK bool http_settings_read(struct http_settings *s, int argc, char **argv, struct fault *f);
void http_settings_clear(struct http_settings *s);
void http_settings_help(void);

/* The URL for tasks of this kind. */
void http_settings_put_url(const struct http_settings *s, const char *kind, struct buf *url);

#endif
