/* The JSON API under /api/, as docs/ui.md has it. */
#ifndef TENON_UI_API_H
#define TENON_UI_API_H

#include "ui/auth.h"
#include "ui/pool.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

enum { UI_FINDINGS_BYTES_MAX = 1 << 20 };

struct ui {
    const struct options *options;
    struct http *http;
    struct auth *auth;
    struct pool *pool;
    struct findings {
        pthread_mutex_t lock; /* one request looks, the others wait for what it finds */
        struct buf json;
        int64_t at_ms;        /* 0 = nobody has looked */
        atomic_bool outdated; /* something was changed since they were found */
    } findings;
};

/* One request. */
struct call {
    struct ui *ui;
    const struct http_request *request;
    struct http_answer *answer; /* its body is JSON */
    struct who who;
    const char *rest;   /* what of the path is a parameter: "17" of /api/tasks/17 */
    const json_t *body; /* of a POST: an object */
};

/* Answer a request whose path begins with /api/. */
void api_answer(struct ui *ui, const struct http_request *r, struct http_answer *a);

/* What the table of ui/api.c names. They fill in the answer's body.
 *   false   a fault, which becomes the answer: REFUSED and ROW 400, ABSENT 404, AGAIN 409, RETRY
 *           503, what the role may not do 403 */
typedef bool api_call(struct call *c, struct fault *f);

/* ui/read.c */
api_call read_session, read_overview, read_rates, read_load, read_kinds, read_names, read_tasks,
    read_task, read_dead, read_flows, read_flow, read_limits, read_schedules, read_workers,
    read_audit;

/* ui/findings.c */
api_call read_doctor;

/* After an act the next request looks again. It does not wait for one that is looking. */
void findings_forget(struct findings *seen);

/* ui/outbox.c */
api_call read_outbox, change_outbox_retry, change_outbox_delete;

/* ui/change.c */
api_call change_preview, change_act, change_pause, change_resume, change_drain, change_schedule,
    change_flow, change_limit;

/* Run a statement that changes something, in one transaction with the user's name. What was sent is
 * never sent twice. */
MUST_CHECK bool exec_as(struct call *c, const struct statement *statement,
                        const char *const *params, int n, struct rows **ret, struct fault *f);

/* ui/openapi.json, which describes the API. */
extern const char api_description[];

/* Put "key": and a row's text, which is JSON, or null; and texts as JSON's strings. */
void json_put_raw(struct buf *b, const char *key, const char *json);
void json_put_string(struct buf *b, const char *key, const char *text);

#endif
