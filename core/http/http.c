#include "core/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOST_BYTES = 256, PORT_BYTES = 6, BACKLOG = 64 };

struct http {
    int fd;
    struct MHD_Daemon *daemon; /* NULL = it does not serve yet */
    http_handler *handler;
    void *owner;
    struct sockaddr_storage at;
    char where[HOST_BYTES + PORT_BYTES + 4];
    int port;
};

/* --- the address ---------------------------------------------------------------------------- */

/* "[::1]:7070" -> "::1", "7070" */
static bool address_split(const char *text, char host[HOST_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!colon || digits == 0 || digits >= PORT_BYTES || colon[1 + digits] ||
        strtol(colon + 1, NULL, 10) > UINT16_MAX) {
        return false;
    }
    size_t n = (size_t)(colon - text);
    bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (bracketed) {
        text++;
        n -= 2;
    }
    if (n == 0 || n >= HOST_BYTES || (!bracketed && memchr(text, ':', n))) {
        return false;
    }
    (void)snprintf(host, HOST_BYTES, "%.*s", (int)n, text);
    (void)snprintf(port, PORT_BYTES, "%s", colon + 1);
    return true;
}

static bool where_read(struct http *h)
{
    socklen_t size = sizeof h->at;
    char host[INET6_ADDRSTRLEN] = "";
    if (getsockname(h->fd, (struct sockaddr *)&h->at, &size) != 0) {
        return false;
    }
    bool six = h->at.ss_family == AF_INET6;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&h->at;
    const struct sockaddr_in6 *long_one = (const struct sockaddr_in6 *)&h->at;
    const void *number = six ? (const void *)&long_one->sin6_addr : &four->sin_addr;
    (void)inet_ntop(h->at.ss_family, number, host, sizeof host);
    h->port = ntohs(six ? long_one->sin6_port : four->sin_port);
    (void)snprintf(h->where, sizeof h->where, six ? "[%s]:%d" : "%s:%d", host, h->port);
    return true;
}

bool http_is_loopback(const struct http *h)
{
    if (h->at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *at = (const struct sockaddr_in6 *)&h->at;
        return IN6_IS_ADDR_LOOPBACK(&at->sin6_addr);
    }
    const struct sockaddr_in *at = (const struct sockaddr_in *)&h->at;
    return ntohl(at->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static int socket_open(const struct addrinfo *info)
{
    int one = 1, fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int saved = errno;
        (void)close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static bool socket_listen(const char *address, int *ret, struct fault *f)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    struct addrinfo *info = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (!address_split(address, host, port)) {
        return fault_set(f, FAULT_CONFIG, "\"%.100s\" is not an address such as 127.0.0.1:7070",
                         address);
    }
    int code = getaddrinfo(host, port, &hints, &info);
    if (code != 0) {
        return fault_set(f, FAULT_CONFIG, "cannot listen at %.100s: %s", address,
                         gai_strerror(code));
    }
    *ret = socket_open(info);
    freeaddrinfo(info);
    return *ret >= 0 ||
           fault_set(f, FAULT_CONFIG, "cannot listen at %.100s: %s", address, strerror(errno));
}

/* --- requests ------------------------------------------------------------------------------- */

const char *http_header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_HEADER_KIND, name);
}

const char *http_argument(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_GET_ARGUMENT_KIND, name);
}

struct counted {
    const char *name; /* that is counted; NULL: names that are none */
    int n;
    const char *last; /* value */
};

/* The characters of a token (RFC 9110). */
static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *name && strspn(name, allowed) == strlen(name);
}

static enum MHD_Result count_header(void *owner, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct counted *c = owner;
    bool counts = c->name ? strcasecmp(name, c->name) == 0 : !is_token(name);
    (void)kind;
    c->n += counts;
    c->last = counts ? value : c->last;
    return MHD_YES;
}

bool http_headers_named_well(const struct http_request *r)
{
    struct counted wrong = {.name = NULL};
    (void)MHD_get_connection_values(r->inner, MHD_HEADER_KIND, count_header, &wrong);
    return wrong.n == 0;
}

bool http_header_again(const struct http_request *r, const char *name)
{
    struct counted same = {.name = name};
    (void)MHD_get_connection_values(r->inner, MHD_HEADER_KIND, count_header, &same);
    return same.n > 1;
}

const char *http_header_last(const struct http_request *r, const char *name)
{
    struct counted same = {.name = name};
    (void)MHD_get_connection_values(r->inner, MHD_HEADER_KIND, count_header, &same);
    return same.last;
}

void http_peer(const struct http_request *r, char text[HTTP_PEER_BYTES])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->inner, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *text = '\0';
    if (info && getnameinfo(info->client_addr,
                            info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                     : sizeof(struct sockaddr_in),
                            text, HTTP_PEER_BYTES, NULL, 0, NI_NUMERICHOST) != 0) {
        *text = '\0';
    }
}

void http_answer_header(struct http_answer *a, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    bool fits = a->n_headers < HTTP_HEADERS_MAX;
    char *value = fits ? a->headers[a->n_headers].value : NULL;
    int n = fits ? vsnprintf(value, HTTP_HEADER_BYTES, fmt, args) : -1;
    va_end(args);
    if (n < 0 || n >= HTTP_HEADER_BYTES) {
        a->body.failed = true;
        return;
    }
    a->headers[a->n_headers++].name = name;
}

/* --- answers -------------------------------------------------------------------------------- */

static struct MHD_Response *response_of(struct http_answer *a)
{
    static char nothing[] = "the answer is too long, or there is no memory for it\n";
    const void *data = a->constant ? a->constant : buf_text(&a->body);
    size_t bytes = a->constant ? a->constant_bytes : a->body.len;
    enum MHD_ResponseMemoryMode mode = a->constant ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY;
    if (a->body.failed) {
        a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
        a->type = "text/plain; charset=utf-8";
        data = nothing;
        bytes = sizeof nothing - 1;
        mode = MHD_RESPMEM_PERSISTENT;
    }
    return MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)data, mode);
}

static enum MHD_Result answer_send(struct MHD_Connection *connection, struct http_answer *a)
{
    struct MHD_Response *response = response_of(a);
    if (!response) {
        return MHD_NO; /* closes the connection */
    }
    if (a->type) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    }
    for (size_t i = 0; i < a->n_headers; i++) {
        (void)MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
    }
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)a->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(struct http *h, struct MHD_Connection *connection, const char *url,
                              const char *method, const struct buf *body)
{
    struct http_request r = {.method = method,
                             .path = url,
                             .body = buf_text(body),
                             .inner = connection};
    struct http_answer a = {.status = MHD_HTTP_OK};
    buf_init(&a.body, HTTP_ANSWER_BYTES_MAX);
    if (body->failed) {
        a.status = MHD_HTTP_CONTENT_TOO_LARGE;
        a.type = "text/plain; charset=utf-8";
        buf_printf(&a.body, "the body is over the limit of %d bytes\n", HTTP_BODY_BYTES_MAX);
    } else {
        h->handler(h->owner, &r, &a);
    }
    enum MHD_Result result = answer_send(connection, &a);
    buf_clear(&a.body);
    return result;
}

/* Called once when the headers are there, once for each piece of the body, once at its end. */
static enum MHD_Result on_request(void *owner, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *piece,
                                  size_t *piece_bytes, void **state)
{
    struct buf *body = *state;
    (void)version;
    if (!body) {
        body = calloc(1, sizeof *body);
        if (!body) {
            return MHD_NO;
        }
        buf_init(body, HTTP_BODY_BYTES_MAX);
        *state = body;
        return MHD_YES;
    }
    if (*piece_bytes > 0) {
        buf_put(body, piece, *piece_bytes);
        *piece_bytes = 0;
        return MHD_YES;
    }
    return answer(owner, connection, url, method, body);
}

static void on_end(void *owner, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode why)
{
    (void)owner;
    (void)connection;
    (void)why;
    if (*state) {
        buf_clear(*state);
        free(*state);
        *state = NULL;
    }
}

/* What libmicrohttpd says of clients that go away is nobody's concern. */
static void on_log(void *owner, const char *fmt, va_list args)
{
    (void)owner;
    (void)fmt;
    (void)args;
}

static struct MHD_Daemon *daemon_start(struct http *h)
{
    unsigned of_address = http_is_loopback(h) ? HTTP_CONNECTIONS_MAX : HTTP_ADDRESS_CONNECTIONS_MAX;
    return MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                                MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG,
                            0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_NOTIFY_COMPLETED, on_end,
                            NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
                            MHD_OPTION_PER_IP_CONNECTION_LIMIT, of_address,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_LIMIT_S,
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)HTTP_HEAD_BYTES_MAX, MHD_OPTION_END);
}

bool http_listen(const char *address, struct http **ret, struct fault *f)
{
    int fd = -1;
    if (!socket_listen(address, &fd, f)) {
        return false;
    }
    struct http *h = calloc(1, sizeof *h);
    if (!h) {
        (void)close(fd);
        return fault_memory(f);
    }
    h->fd = fd;
    if (!where_read(h)) {
        http_close(h);
        return fault_set(f, FAULT_RETRY, "could not listen at %.100s: %s", address,
                         strerror(errno));
    }
    *ret = h;
    return true;
}

bool http_serve(struct http *h, http_handler *handler, void *owner, struct fault *f)
{
    h->handler = handler;
    h->owner = owner;
    h->daemon = daemon_start(h);
    return h->daemon ||
           fault_set(f, FAULT_RETRY, "could not serve HTTP at %s: %s", h->where, strerror(errno));
}

void http_close(struct http *h)
{
    if (h && h->daemon) {
        MHD_stop_daemon(h->daemon); /* and closes its socket */
    } else if (h) {
        (void)close(h->fd);
    }
    free(h);
}

const char *http_where(const struct http *h)
{
    return h->where;
}

int http_port(const struct http *h)
{
    return h->port;
}

const char *http_library_version(void)
{
    return MHD_get_version();
}
