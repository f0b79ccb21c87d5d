/* One task as one POST. */
#ifndef TENON_HANDLERS_HTTP_REQUEST_H
#define TENON_HANDLERS_HTTP_REQUEST_H

#include "handlers/http_settings.h"
#include "handlers/http_verdict.h"

#include <curl/curl.h>

enum {
    CONNECT_LIMIT_MS = 10000, /* to resolve, connect, and for TLS */
    ANSWER_MARGIN_MS = 1000,  /* a request ends at least this long before its task's deadline */
};

struct http_request {
    const struct http_settings *settings;
    CURL *easy; /* lives as long as the request's struct, for many tasks */
    struct pool_task task;
    struct curl_slist *headers;
    struct buf body;
    bool cut;               /* the response is longer than what is read */
    bool refused;           /* its address was private */
    int64_t retry_after_ms; /* as the response says; -1 = it does not */
    char error[CURL_ERROR_SIZE];
    struct http_request *next; /* in the caller's list */
};

MUST_CHECK bool http_request_new(const struct http_settings *s, struct http_request **ret,
                                 struct fault *f);
void http_request_free(struct http_request *r); /* NULL is fine */

/* Make it the request for `task`, which it takes over; the caller runs `easy`. */
MUST_CHECK bool http_request_begin(struct http_request *r, struct pool_task *task, struct fault *f);

/* It has ended with `code`: answer its task. */
void http_request_answer(struct http_request *r, CURLcode code, struct pool *p);

/* Forget its task. */
void http_request_end(struct http_request *r);

#endif
