/* A span: what a trace knows of one attempt of a task, and how OTLP writes it down.
 *
 * Its id follows from the task's traceparent, its number and the number of its claim. So the
 * worker that runs a claim, the next one, which links to it, and a cleaner that speaks for a worker
 * that died all know it, and nothing is stored. docs/traces.md says what a span has. */
#ifndef TENON_CORE_SPAN_H
#define TENON_CORE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_ID_BYTES = 33, /* 32 digits and NUL */
    SPAN_ID_BYTES = 17,
    TRACEPARENT_BYTES = 56,
    SPAN_ERROR_BYTES = 512, /* of an error's text, the rest is cut */
};

struct span {
    char trace_id[TRACE_ID_BYTES], id[SPAN_ID_BYTES];
    char parent_id[SPAN_ID_BYTES]; /* the producer's span */
    char link_id[SPAN_ID_BYTES];   /* the claim before; "" = there was none */
    char queue[64], kind[128];
    int64_t task, attempt;
    const char *outcome;  /* a constant */
    char error_type[128]; /* "" = no error */
    char error[SPAN_ERROR_BYTES];
    int64_t begin_ns, end_ns; /* since 1970 */
    struct span *prev, *next; /* of its owner */
};

/* The span of a claim, with its ids, task, queue and kind; free() it.
 *   trace    the task's traceparent; NULL = none
 *   claims   the number of the claim, 1..
 *   ret      NULL when there is nothing to tell: no traceparent, none that is sampled or valid; or
 *            no memory */
struct span *span_new(const char *trace, int64_t task, int64_t claims, const char *queue,
                      const char *kind);

/* It did not end well: status error, with its class, "" = not known, and its text, or NULL. */
void span_fail(struct span *s, const char *error_type, const char *error);

/* What the handler gets, so that its own spans are children of this one. */
void span_traceparent(const struct span *s, char text[TRACEPARENT_BYTES]);

/* A batch as the body of POST /v1/traces; free() it. NULL when there is no memory.
 *   service, host   UTF-8; host "" = not known
 *   ret_left_out    how many spans are not in it: a text of theirs is not UTF-8 */
char *span_json(const struct span *list, const char *service, const char *host, int64_t pid,
                int *ret_left_out);

#endif
