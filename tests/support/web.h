/* Requests to `tenon ui` as any program may send them, byte by byte. */
#ifndef TENON_TESTS_SUPPORT_WEB_H
#define TENON_TESTS_SUPPORT_WEB_H

#include "tests/support/process.h"

#include <jansson.h>

struct web {
    struct process *process;
    int port;
    char token[64];
};

struct web_answer {
    int status;
    char *head, *body; /* free with web_clear() */
};

/* Start `tenon ui` on a free port with more arguments, NULL = the end; wait until it is ready. */
#define WEB_OPEN(fx, web, ...) web_open((fx), (web), (const char *const[]){__VA_ARGS__, NULL}, NULL)
void web_open(struct fixture *fx, struct web *w, const char *const *args, const char *const *env);

/* SIGTERM; it must exit with 0, and AddressSanitizer finds nothing that it kept. */
void web_close(struct web *w);

/* One request on a connection of its own.
 *   headers   whole lines, each with its \r\n; Host is added where they have none */
void web_request(const struct web *w, const char *method, const char *path, const char *headers,
                 const char *body, struct web_answer *ret);
void web_clear(struct web_answer *a);

/* The status alone. */
int web_status(const struct web *w, const char *method, const char *path, const char *headers,
               const char *body);

/* With the token as a bearer, and the headers of a program that may do so; the answer must have
 * this status, and be JSON: json_decref(). */
json_t *web_get(const struct web *w, int status, const char *path);
json_t *web_post(const struct web *w, int status, const char *path, const char *body);

/* The lines of whoever posts, without a token. */
extern const char web_posting[];

#endif
