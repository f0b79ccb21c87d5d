#include "handlers/http_request.h"

#include "handlers/http_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER_BYTES_MAX = HEADERS_FILE_BYTES_MAX + 1,
    URL_BYTES_MAX = 8192,
    RETRY_AFTER_BYTES = 128
};

/* --- what curl calls --- */

/* The address that is connected to, whatever the name meant when it was asked for. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_request *r = data;
    (void)purpose;
    if (!r->settings->allow_private && address_is_private(&address->addr)) {
        r->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_body(char *data, size_t one, size_t bytes, void *to)
{
    struct http_request *r = to;
    size_t room = RESPONSE_BYTES_MAX - r->body.len;
    (void)one;
    buf_put(&r->body, data, bytes < room ? bytes : room);
    r->cut = bytes > room;
    return r->cut ? 0 : bytes; /* 0 ends the transfer */
}

/* A header of the response, or its first line: of several responses the last one counts. */
static size_t take_header(char *line, size_t one, size_t bytes, void *to)
{
    static const char name[] = "Retry-After:";
    struct http_request *r = to;
    char said[RETRY_AFTER_BYTES] = "";
    (void)one;
    if (bytes > 5 && memcmp(line, "HTTP/", 5) == 0) {
        r->retry_after_ms = -1;
    } else if (bytes >= sizeof name - 1 && strncasecmp(line, name, sizeof name - 1) == 0) {
        size_t from = sizeof name - 1, n = bytes - from;
        n -= n > 0 && line[bytes - 1] == '\n';
        n -= n > 0 && line[from + n - 1] == '\r';
        memcpy(said, line + from, n < sizeof said ? n : 0); /* longer is none that can be read */
        r->retry_after_ms = retry_after_ms(said, time(NULL));
    }
    return bytes;
}

/* --- its life --- */

static void set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* What is the same for all tasks. TLS is verified, and no redirect followed, by default. */
static void set_up(struct http_request *r)
{
    CURL *e = r->easy;
    const char *authorities = getenv("SSL_CERT_FILE"); /* which libcurl does not read */
    set_protocols(e);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, r);
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_PROXY, ""); /* its address would be checked, not theirs */
    (void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "tenon-http/" TENON_VERSION);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_LIMIT_MS);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, r);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
    (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, r);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->error);
    /* over HTTP/2 all share one connection; that it is spoken is known after the handshake */
    (void)curl_easy_setopt(e, CURLOPT_PIPEWAIT,
                           (long)(strncmp(r->settings->url, "https:", 6) == 0));
    if (r->settings->ca_file) {
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, r->settings->ca_file);
        (void)curl_easy_setopt(e, CURLOPT_CAPATH, NULL); /* else the system's count as well */
    } else if (authorities && *authorities) {
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, authorities);
    }
}

bool http_request_new(const struct http_settings *s, struct http_request **ret, struct fault *f)
{
    struct http_request *r = calloc(1, sizeof *r);
    if (!r || !(r->easy = curl_easy_init())) {
        free(r);
        return fault_memory(f);
    }
    r->settings = s;
    buf_init(&r->body, RESPONSE_BYTES_MAX);
    set_up(r);
    *ret = r;
    return true;
}

void http_request_free(struct http_request *r)
{
    if (r) {
        http_request_end(r);
        curl_easy_cleanup(r->easy);
        buf_clear(&r->body);
        free(r);
    }
}

void http_request_end(struct http_request *r)
{
    curl_slist_free_all(r->headers);
    r->headers = NULL;
    pool_task_clear(&r->task);
}

/* --- its headers --- */

static bool add_header(struct http_request *r, const char *header)
{
    struct curl_slist *list = curl_slist_append(r->headers, header);
    r->headers = list ? list : r->headers;
    return list != NULL;
}

static bool add_text(struct http_request *r, const char *name, const char *value)
{
    char header[256];
    (void)snprintf(header, sizeof header, "%s: %s", name, value);
    return add_header(r, header);
}

static bool add_number(struct http_request *r, const char *name, int64_t value)
{
    char header[64];
    (void)snprintf(header, sizeof header, "%s: %lld", name, (long long)value);
    return add_header(r, header);
}

static bool add_signature(struct http_request *r, const char *url)
{
    struct buf header;
    buf_init(&header, HEADER_BYTES_MAX);
    signature_put(&header, &r->settings->secrets, (int64_t)time(NULL), &r->task, url);
    bool ok = !header.failed && add_header(r, header.data);
    buf_clear(&header);
    return ok;
}

static bool add_own(struct http_request *r)
{
    const char *at = buf_text(&r->settings->headers);
    char header[HEADER_BYTES_MAX];
    bool ok = true;
    while (ok && *at) {
        int bytes = (int)strcspn(at, "\r\n");
        (void)snprintf(header, sizeof header, "%.*s", bytes, at);
        ok = bytes == 0 || add_header(r, header);
        at += bytes + (at[bytes] != '\0');
    }
    return ok;
}

static bool add_headers(struct http_request *r, const char *url)
{
    const struct pool_task *t = &r->task;
    return add_header(r, "Content-Type: application/json") && add_header(r, "Expect:") &&
           add_number(r, "Tenon-Task-Id", t->id) && add_number(r, "Tenon-Attempt", t->attempt) &&
           add_text(r, "Tenon-Kind", t->kind) && add_text(r, "Tenon-Queue", t->queue) &&
           (!t->trace || add_text(r, "traceparent", t->trace)) &&
           (r->settings->secrets.n == 0 || add_signature(r, url)) && add_own(r);
}

static bool set_url_and_headers(struct http_request *r)
{
    struct buf url;
    buf_init(&url, URL_BYTES_MAX);
    http_settings_put_url(r->settings, r->task.kind, &url);
    bool ok = !url.failed && curl_easy_setopt(r->easy, CURLOPT_URL, buf_text(&url)) == CURLE_OK &&
              add_headers(r, buf_text(&url));
    buf_clear(&url);
    return ok;
}

bool http_request_begin(struct http_request *r, struct pool_task *task, struct fault *f)
{
    int64_t margin_ms = task->timeout_ms / 10;
    r->task = *task;
    *task = (struct pool_task){.line = NULL};
    r->cut = r->refused = false;
    r->retry_after_ms = -1;
    r->error[0] = '\0';
    buf_empty(&r->body);
    if (!set_url_and_headers(r)) {
        return fault_memory(f);
    }
    margin_ms = margin_ms < ANSWER_MARGIN_MS ? margin_ms : ANSWER_MARGIN_MS;
    (void)curl_easy_setopt(r->easy, CURLOPT_TIMEOUT_MS, (long)(r->task.timeout_ms - margin_ms));
    (void)curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    (void)curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->task.payload_bytes);
    (void)curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->task.payload);
    return true;
}

/* --- its answer --- */

static const char *class_of(CURLcode code)
{
    static const struct {
        CURLcode code;
        const char *class;
    } classes[] = {
        {CURLE_COULDNT_RESOLVE_HOST, "name_not_resolved"},
        {CURLE_COULDNT_CONNECT, "not_connected"},
        {CURLE_OPERATION_TIMEDOUT, "timeout"},
        {CURLE_SSL_CONNECT_ERROR, "tls"},
        {CURLE_PEER_FAILED_VERIFICATION, "tls"},
        {CURLE_SSL_CACERT_BADFILE, "tls"},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].code == code) {
            return classes[i].class;
        }
    }
    return "network";
}

static void describe_failure(const struct http_request *r, CURLcode code, struct http_reply *reply)
{
    reply->error = *r->error ? r->error : curl_easy_strerror(code);
    reply->class = class_of(code);
    if (r->refused && code == CURLE_COULDNT_CONNECT) {
        reply->error = "the URL leads to a private address, which is refused without "
                       "--allow-private";
        reply->class = "private_address";
    }
}

void http_request_answer(struct http_request *r, CURLcode code, struct pool *p)
{
    struct http_reply reply = {.body = buf_text(&r->body), .retry_after_ms = r->retry_after_ms};
    struct verdict v;
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &reply.status);
    if (code != CURLE_OK && !r->cut) {
        describe_failure(r, code, &reply);
    }
    verdict_of(&reply, r->settings->retry_4xx, &v);
    if (strcmp(v.answer.outcome, "done") != 0) {
        pool_answer(p, r->task.id, &v.answer);
    } else if (r->cut) {
        pool_done(p, r->task.id, NULL, 0,
                  "tenon: the result was not kept: the response is longer than 64 KiB");
    } else {
        pool_done(p, r->task.id, r->body.len > 0 ? r->body.data : NULL, r->body.len, NULL);
    }
}
