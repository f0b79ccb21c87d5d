#include "worker/run_one.h"

#include "core/base/file.h"
#include "core/base/now.h"
#include "core/base/scan.h"
#include "worker/children.h"
#include "worker/line.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAYLOAD_BYTES_MAX = 16 << 20, RUN_ONE_LIMIT_MS = 3600000 };

struct run_one {
    struct children children;
    struct claim *task;
    int handler;
    bool given, over;
    enum claim_outcome outcome;
    char *reply, *error;
};

/* Valid JSON on one line, otherwise unchanged: a line feed in JSON is only white space. */
static bool one_line(struct buf *payload, struct fault *f)
{
    struct scanned value;
    if (!scan_value(buf_text(payload), payload->len, &value) || value.loose) {
        return fault_set(f, FAULT_CONFIG, "the payload is not JSON: %.60s", buf_text(payload));
    }
    if (value.why) {
        return fault_set(f, FAULT_CONFIG, "PostgreSQL cannot store the payload: %s", value.why);
    }
    for (size_t i = 0; i < payload->len; i++) {
        if (payload->data[i] == '\n' || payload->data[i] == '\r') {
            payload->data[i] = ' ';
        }
    }
    return true;
}

static bool has_task(void *owner, int slot, int64_t id)
{
    struct run_one *r = owner;
    (void)slot;
    return id == r->task->id && r->outcome == OUTCOME_NONE;
}

static void take_event(void *owner, const struct event *event)
{
    struct run_one *r = owner;
    if (event->type == EVENT_CHILD_READY && !r->given) { /* later it may say that it takes more */
        r->given = true;
        children_give(&r->children, 0, r->task, 1, true);
    } else if (event->type == EVENT_REPLY) {
        r->outcome = event->outcome;
        r->reply = event->reply;
        r->error = event->signal ? event->signal : event->error;
        children_close(&r->children, 0);
    } else if (event->type == EVENT_PROGRESS) {
        bool refused = event->extend_ms < 0 || (event->progress && !*event->progress);
        (void)fprintf(stderr, "%s\n",
                      refused           ? "its progress, or its request for more time, is refused"
                      : event->progress ? event->progress
                                        : "more time is asked for");
        free(event->progress);
    } else if (event->type == EVENT_LOG) {
        (void)fprintf(stderr, "%s%s%s\n", event->message, event->fields ? " " : "",
                      event->fields ? event->fields : "");
    } else if (event->type == EVENT_STEP) {
        bool recorded = *event->step != '\0';
        (void)fprintf(stderr, "%s\n", recorded ? event->step : "a step is refused");
        free(event->step);
        children_tell_step(&r->children, 0, event->id, event->name, recorded);
    } else if (event->type == EVENT_CHILD_GONE) {
        r->over = true;
        r->error = r->outcome == OUTCOME_NONE ? strdup(event->text) : r->error;
    }
}

static void run(struct run_one *r, struct handler *h)
{
    struct pollfd fds[CHILDREN_FDS_PER_SLOT];
    h->own_stderr = true;
    children_spawn(&r->children, 0, r->handler, h->pool ? NULL : r->task);
    for (int64_t until = now_ms() + RUN_ONE_LIMIT_MS; !r->over && now_ms() < until;) {
        children_flush(&r->children);
        children_poll(&r->children, fds);
        (void)poll(fds, CHILDREN_FDS_PER_SLOT, 1000);
        children_dispatch(&r->children, fds);
    }
    r->outcome = r->outcome == OUTCOME_NONE ? OUTCOME_FAILED : r->outcome;
}

static void print_result(const char *reply)
{
    struct scan_member result = {.key = "result"};
    if (scan_object(reply, strlen(reply), &result, 1)) {
        (void)printf("%.*s\n", (int)result.value.bytes, result.value.text);
    }
}

static int print_outcome(const struct run_one *r)
{
    static const struct {
        const char *word;
        int exit_code;
    } ends[] = {[OUTCOME_DONE] = {"done", EXIT_DONE},
                [OUTCOME_FAILED] = {"failed", 1},
                [OUTCOME_SNOOZE] = {"snooze", EXIT_SNOOZE},
                [OUTCOME_RELEASED] = {"interrupted", EXIT_SNOOZE},
                [OUTCOME_WAIT_SIGNAL] = {"wait_signal", EXIT_SNOOZE},
                [OUTCOME_DEAD] = {"dead", EXIT_DEAD}};
    if (r->reply) {
        print_result(r->reply);
    }
    if (r->outcome != OUTCOME_DONE) {
        (void)fprintf(stderr, "%s%s%s\n", ends[r->outcome].word, r->error ? ": " : "",
                      r->error ? r->error : "");
    }
    return ends[r->outcome].exit_code;
}

static bool prepare(struct run_one *r, const struct options *o, const struct handlers *handlers,
                    struct fault *f)
{
    const char *kind = option_text(o, OPTION_RUN_ONE);
    struct buf payload;
    if (options_args(o) != 1) {
        return fault_set(f, FAULT_CONFIG, "--run-one KIND needs a payload file, or - for stdin");
    }
    r->handler = handlers_find(handlers, kind);
    r->handler = r->handler < 0 ? handlers_any(handlers) : r->handler;
    if (r->handler < 0) {
        return fault_set(f, FAULT_CONFIG, "no handler is given for kind \"%s\"", kind);
    }
    bool ok = file_read(options_arg(o, 0), "payload", PAYLOAD_BYTES_MAX, &payload, f) &&
              one_line(&payload, f);
    r->task = ok ? claim_new(1, "default", kind, NULL, buf_text(&payload), payload.len) : NULL;
    buf_clear(&payload);
    if (!r->task) {
        return fault_memory(f);
    }
    r->task->claims = 1;
    r->task->attempt = 1;
    r->task->max_attempts = 25;
    r->task->timeout_ms = RUN_ONE_LIMIT_MS;
    return children_init(&r->children, 1, handlers, f);
}

int run_one_main(const struct options *o)
{
    struct fault f = {0};
    struct handlers handlers = {0};
    struct run_one r = {0};
    int code;
    if (handlers_load(o, &handlers, &f) && prepare(&r, o, &handlers, &f)) {
        r.children.emit = take_event;
        r.children.is_given = has_task;
        r.children.owner = &r;
        run(&r, &handlers.items[r.handler]);
        code = print_outcome(&r);
    } else {
        (void)fprintf(stderr, "tenon worker: %s\n", f.text);
        code = fault_exit_code(&f);
    }
    children_clear(&r.children);
    claim_free(r.task);
    free(r.reply);
    free(r.error);
    handlers_clear(&handlers);
    return code;
}
