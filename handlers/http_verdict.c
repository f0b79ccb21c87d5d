#include "handlers/http_verdict.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits with a sign and a point at most, not all that strtod() takes. */
static bool is_seconds(const char *said, double *ret)
{
    size_t bytes = strspn(said, "+-.0123456789");
    char *end;
    *ret = strtod(said, &end);
    return end > said && end == said + bytes && said[bytes + strspn(said + bytes, " \t")] == '\0';
}

int64_t retry_after_ms(const char *said, time_t now_s)
{
    double s;
    said += strspn(said, " \t");
    if (!is_seconds(said, &s)) {
        /* a date begins with a weekday; curl would also take less for one */
        time_t at_s = (*said >= 'A' && *said <= 'Z') ? curl_getdate(said, NULL) : -1;
        if (at_s == -1) {
            return RETRY_AFTER_MS_UNREAD;
        }
        s = (double)(at_s - now_s);
    }
    return s < RETRY_AFTER_MS_MIN / 1000.0   ? RETRY_AFTER_MS_MIN
           : s > RETRY_AFTER_MS_MAX / 1000.0 ? RETRY_AFTER_MS_MAX
                                             : (int64_t)(1000 * s);
}

static const char *outcome_of(const struct http_reply *r, bool retry_4xx)
{
    if (r->error || r->status < 200) {
        return "failed";
    }
    if (r->status < 300) {
        return "done";
    }
    if ((r->status == 429 || r->status == 503) && r->retry_after_ms >= 0) {
        return "snooze";
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
    if (strcmp(v->answer.outcome, "snooze") == 0) {
        v->answer.delay_ms = r->retry_after_ms;
    } else {
        v->answer.class = v->class;
    }
}
