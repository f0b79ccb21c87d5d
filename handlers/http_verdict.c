#include "handlers/http_verdict.h"

#include <stdio.h>
#include <string.h>

static const char *outcome_of(const struct http_reply *r, bool retry_4xx)
{
    if (r->error || r->status < 200) {
        return "failed";
    }
    if (r->status < 300) {
        return "done";
    }
    if ((r->status == 429 || r->status == 503) && r->retry_after_s > 0) {
        return "later";
    }
    bool passes = r->status >= 500 || r->status == 408 || r->status == 425 || r->status == 429;
    return passes || retry_4xx ? "failed" : "dead";
}

static void describe(const struct http_reply *r, struct verdict *v)
{
    const char *hint = r->status >= 300 && r->status < 400 ? " (redirects are not followed)" : "";
    int excerpt = (int)strnlen(r->body, EXCERPT_BYTES_MAX);
    if (r->error) {
        (void)snprintf(v->text, sizeof v->text, "%s", r->error);
        (void)snprintf(v->class, sizeof v->class, "%s", r->class);
    } else {
        (void)snprintf(v->text, sizeof v->text, "HTTP %ld%s%s%.*s", r->status, hint,
                       excerpt > 0 ? ": " : "", excerpt, r->body);
        (void)snprintf(v->class, sizeof v->class, "http_%ld", r->status);
    }
}

void verdict_of(const struct http_reply *r, bool retry_4xx, struct verdict *v)
{
    v->answer = (struct pool_answer){.outcome = outcome_of(r, retry_4xx)};
    describe(r, v);
    v->answer.error = v->text;
    if (strcmp(v->answer.outcome, "later") == 0) {
        int64_t s = r->retry_after_s < RETRY_AFTER_S_MAX ? r->retry_after_s : RETRY_AFTER_S_MAX;
        v->answer.delay_ms = 1000 * s;
    } else {
        v->answer.class = v->class;
    }
}
