/* A small HTTP/1.1 server, for the page and for metrics. The only place that knows libmicrohttpd.
 *
 * Each connection has a thread of its own; there are HTTP_CONNECTIONS_MAX of them, of which one
 * address gets a share: a client that holds connections and sends nothing does not keep others
 * out. On loopback all have one address (a proxy), or as many as they like. The handler
 * gets a whole request and fills in a whole answer; it may be called by many threads at once. */
#ifndef TENON_CORE_HTTP_H
#define TENON_CORE_HTTP_H

#include "core/base/buf.h"

#include <stdint.h>

enum {
    HTTP_CONNECTIONS_MAX = 64,
    HTTP_ADDRESS_CONNECTIONS_MAX = 16, /* of one address, where others than loopback's come in */
    HTTP_IDLE_LIMIT_S = 15,            /* of a connection that says nothing */
    HTTP_HEAD_BYTES_MAX = 32768,       /* of a request's line and headers */
    HTTP_BODY_BYTES_MAX = 262144,      /* of a request's body; 413 beyond it */
    HTTP_ANSWER_BYTES_MAX = 16 << 20,
    HTTP_HEADERS_MAX = 16,
    HTTP_HEADER_BYTES = 256,
    HTTP_PEER_BYTES = 64,
};

struct http;

struct http_request {
    const char *method, *path; /* "GET", "/api/tasks"; the path is decoded */
    const char *body;          /* a string; "" when there is none */
    void *inner;
};

struct http_answer {
    int status;           /* 200 unless it is set */
    const char *type;     /* borrowed: "application/json" */
    struct buf body;      /* or else: */
    const void *constant; /* bytes that live for ever */
    size_t constant_bytes;
    size_t n_headers;
    struct {
        const char *name; /* borrowed */
        char value[HTTP_HEADER_BYTES];
    } headers[HTTP_HEADERS_MAX];
};

typedef void http_handler(void *owner, const struct http_request *r, struct http_answer *a);

/* Listen at "127.0.0.1:7070", "[::1]:7070" or "localhost:0" (0 = any free port).
 *   false   CONFIG: no such address, or it is in use; MEMORY */
MUST_CHECK bool http_listen(const char *address, struct http **ret, struct fault *f);

/* From now on call the handler.
 *   owner   borrowed, handed to every call
 *   false   RETRY: no threads */
MUST_CHECK bool http_serve(struct http *h, http_handler *handler, void *owner, struct fault *f);
void http_close(struct http *h); /* waits for requests that are under way; NULL is fine */

/* "127.0.0.1:7070", with the port that was taken; and that port. */
const char *http_where(const struct http *h);
int http_port(const struct http *h);

/* Is it an address that only programs of this machine can reach? */
bool http_is_loopback(const struct http *h);

/* NULL when the request has none. Borrowed for the call. */
const char *http_header(const struct http_request *r, const char *name);
const char *http_argument(const struct http_request *r, const char *name); /* ?name=... */

/* Does each header's name consist of the characters that it may have? A proxy may take the space of
 * "Content-Length : 2" away; this server would not know the header. */
bool http_headers_named_well(const struct http_request *r);

/* Has the request this header more than once? http_header() gives the first of them. */
bool http_header_again(const struct http_request *r, const char *name);

/* The last of them, which is that of the nearest proxy; NULL when the request has none. */
const char *http_header_last(const struct http_request *r, const char *name);

/* Who asks: an address without its port. */
void http_peer(const struct http_request *r, char text[HTTP_PEER_BYTES]);

/* Add a header; one that does not fit fails the answer with 500. */
void http_answer_header(struct http_answer *a, const char *name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

const char *http_library_version(void);

#endif
