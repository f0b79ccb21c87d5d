/* The JSON API under /api/, as docs/ui.md has it. */
#ifndef TENON_UI_API_H
#define TENON_UI_API_H

#include "ui/auth.h"
#include "ui/pool.h"

#include <jansson.h>

struct ui {
    const struct options *options;
    struct http *http;
    struct auth *auth;
    struct pool *pool;
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
api_call read_session, read_overview, read_rates, read_tasks, read_task, read_dead, read_flows,
    read_flow, read_limits, read_schedules, read_workers, read_audit;

/* ui/change.c */
api_call change_preview, change_act, change_pause, change_resume, change_schedule, change_flow,
    change_limit;

/* Put "key": and a row's text, which is JSON, or null; and texts as JSON's strings. */
void json_put_raw(struct buf *b, const char *key, const char *json);
void json_put_string(struct buf *b, const char *key, const char *text);

#endif
