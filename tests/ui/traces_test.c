/* label: e2e */
/* only: all */
/* Spans of tasks as a collector gets them: whose children they are, what they link to, what they
 * say of each outcome; of tasks whose worker died; and a collector that is away, or hangs. */
#include "core/base/now.h"
#include "core/http/span.h"
#include "tests/support/working.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define PRODUCER_ID "b7ad6b7169203331"
#define TRACE "00-" TRACE_ID "-" PRODUCER_ID "-01"
#define UNSAMPLED "00-" TRACE_ID "-" PRODUCER_ID "-00"

enum { ERROR_STATUS = 2, CONSUMER = 5, MANY = 9500, FLUSH_CEILING_MS = 9000 };

struct stage {
    struct fixture *fx;
    struct process *collector;
    char url[64];
};

static void path_of(const struct stage *s, const char *name, char path[300])
{
    (void)snprintf(path, 300, "%s/%s", s->fx->dir, name);
}

static void collect(struct stage *s, struct fixture *fx)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/tests/support/collector.py", repository);
    const char *const argv[] = {"python3", path, fx->dir, NULL};
    s->fx = fx;
    s->collector = process_spawn(fx, argv, NULL);
    process_await_line(s->collector, "listening", LIMIT_MS);
    path_of(s, "port", path);
    char *port = file_text(path);
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%s/", port);
    free(port);
}

static void set_mode(const struct stage *s, const char *mode)
{
    char path[300];
    path_of(s, "mode", path);
    file_write(path, mode);
}

/* A worker of the pool handler, and of "shell": what the task's payload is called with. */
static struct process *work(const struct stage *s, const char *shell)
{
    char pool[256], exec[512];
    (void)snprintf(exec, sizeof exec, "shell=%s", shell);
    const char *const args[] = {"worker",
                                "--slots",
                                "4",
                                "--otlp-url",
                                s->url,
                                "--handler",
                                handler(pool, "a=pool:exec %s 16", "pool"),
                                "--handler",
                                exec,
                                NULL};
    return tenon_spawn(s->fx, args, NULL);
}

/* A task with more arguments, such as ", max_attempts => 2". */
static int64_t enqueue(const struct stage *s, const char *trace, const char *payload,
                       const char *more)
{
    return test_sql_int(s->fx, "SELECT tenon.enqueue('a', '%s', trace => nullif('%s', '')%s)",
                        payload, trace, more);
}

static void await_span(const struct stage *s, int64_t task, int attempt, const char *outcome)
{
    char line[80];
    (void)snprintf(line, sizeof line, "span %" PRId64 " %d %s", task, attempt, outcome);
    process_await_line(s->collector, line, LIMIT_MS);
}

/* All that came; json_decref(). */
static json_t *all_spans(const struct stage *s)
{
    char path[300];
    path_of(s, "spans", path);
    char *text = file_text(path), *rest = text, *line;
    json_t *all = json_array();
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *span = json_loads(line, 0, NULL);
        assert_non_null(span);
        assert_int_equal(json_array_append_new(all, span), 0);
    }
    free(text);
    return all;
}

static const json_t *attribute(const json_t *span, const char *key)
{
    return json_object_get(json_object_get(span, "attributes"), key);
}

static const char *text_of(const json_t *span, const char *key)
{
    const json_t *value = json_object_get(span, key);
    return json_is_string(value) ? json_string_value(value) : "";
}

static int64_t ns_of(const json_t *span, const char *key)
{
    return strtoll(text_of(span, key), NULL, 10);
}

/* The n-th span of a task, from 0; NULL = there is none. */
static const json_t *span_of(const json_t *all, int64_t task, int n)
{
    size_t i;
    json_t *span;
    json_array_foreach(all, i, span)
    {
        if (json_integer_value(attribute(span, "tenon.task.id")) == task && n-- == 0) {
            return span;
        }
    }
    return NULL;
}

static const char *link_of(const json_t *span)
{
    const json_t *links = json_object_get(span, "links");
    assert_true(json_array_size(links) <= 1);
    const json_t *first = json_array_get(links, 0);
    if (first) {
        assert_string_equal(text_of(first, "traceId"), TRACE_ID);
    }
    return first ? text_of(first, "spanId") : "";
}

static void assert_attribute(const json_t *span, const char *key, const char *value)
{
    const char *got = json_string_value(attribute(span, key));
    assert_string_equal(got ? got : "", value);
}

/* What holds for each. `error_type` "" = it ended well. */
static void assert_span(const json_t *span, int attempt, const char *outcome,
                        const char *error_type)
{
    assert_non_null(span);
    assert_string_equal(text_of(span, "traceId"), TRACE_ID);
    assert_string_equal(text_of(span, "parentSpanId"), PRODUCER_ID);
    assert_int_equal(strlen(text_of(span, "spanId")), SPAN_ID_BYTES - 1);
    assert_string_equal(text_of(span, "name"), "process default");
    assert_int_equal(json_integer_value(json_object_get(span, "kind")), CONSUMER);
    assert_attribute(span, "messaging.system", "tenon");
    assert_attribute(span, "messaging.destination.name", "default");
    assert_attribute(span, "messaging.operation.type", "process");
    assert_int_equal(json_integer_value(attribute(span, "tenon.attempt")), attempt);
    assert_attribute(span, "tenon.outcome", outcome);
    assert_attribute(span, "error.type", error_type);
    const json_t *code = json_object_get(json_object_get(span, "status"), "code");
    assert_int_equal(json_integer_value(code), *error_type ? ERROR_STATUS : 0);
    assert_true(ns_of(span, "startTimeUnixNano") <= ns_of(span, "endTimeUnixNano"));
}

/* One with these payload and arguments comes to this end in its first attempt. */
struct ending {
    const char *payload, *more, *outcome, *error_type, *message;
    int64_t id;
};

static void test_what_spans_say(void **state)
{
    struct stage s;
    struct ending endings[] = {
        {"{}", "", "done", "", "", 0},
        {"{\"do\": \"dead\"}", "", "dead", "_OTHER", "asked to", 0},
        {"{\"do\": \"fail\"}", "", "failed", "_OTHER", "asked to", 0},
        {"{\"do\": \"fail\"}", ", max_attempts => 1", "dead", "_OTHER", "asked to", 0},
        {"{\"do\": \"snooze\"}", "", "snooze", "", "", 0},
        {"{\"do\": \"crash\"}", "", "failed", "_OTHER", "about to crash", 0},
        {"{\"do\": \"sleep\", \"ms\": 60000}", ", timeout => '200 ms'", "timed_out", "timeout",
         "timed out after 200 ms", 0},
    };
    enum { N = sizeof endings / sizeof *endings };
    collect(&s, *state);
    int64_t none = enqueue(&s, "", "{}", ""), unsampled = enqueue(&s, UNSAMPLED, "{}", "");
    int64_t before_ns = now_unix_ns();
    struct process *p = work(&s, "true");
    for (size_t i = 0; i < N; i++) {
        endings[i].id = enqueue(&s, TRACE, endings[i].payload, endings[i].more);
        await_span(&s, endings[i].id, 1, endings[i].outcome);
    }
    await_done(s.fx, 3);
    end_well(p);
    json_t *all = all_spans(&s);
    for (size_t i = 0; i < N; i++) {
        const json_t *span = span_of(all, endings[i].id, 0);
        assert_span(span, 1, endings[i].outcome, endings[i].error_type);
        assert_string_equal(link_of(span), "");
        assert_attribute(span, "tenon.kind", "a");
        assert_contains(text_of(json_object_get(span, "status"), "message"), endings[i].message);
        assert_true(ns_of(span, "startTimeUnixNano") >= before_ns);
        assert_true(ns_of(span, "endTimeUnixNano") <= now_unix_ns());
        assert_null(span_of(all, endings[i].id, 1));
    }
    const json_t *slow = span_of(all, endings[N - 1].id, 0);
    assert_true(ns_of(slow, "endTimeUnixNano") - ns_of(slow, "startTimeUnixNano") >= 200000000);
    assert_null(span_of(all, none, 0));
    assert_null(span_of(all, unsampled, 0));
    json_decref(all);
}

/* The attempts of a task are siblings, each linked to the one before. */
static void test_retries_are_linked(void **state)
{
    struct stage s;
    collect(&s, *state);
    struct process *p = work(&s, "true");
    int64_t id = enqueue(&s, TRACE, "{\"do\": \"fail\", \"delay_ms\": 1}", ", max_attempts => 3");
    int64_t other = enqueue(&s, TRACE, "{\"do\": \"once later\", \"delay_ms\": 1}", "");
    await_span(&s, id, 3, "dead");
    await_span(&s, other, 1, "done");
    end_well(p);
    json_t *all = all_spans(&s);
    const char *before = "";
    for (int i = 0; i < 3; i++) {
        const json_t *span = span_of(all, id, i);
        assert_span(span, i + 1, i < 2 ? "failed" : "dead", "_OTHER");
        assert_string_equal(link_of(span), before);
        before = text_of(span, "spanId");
    }
    /* what was put off was no attempt, and yet a run */
    const json_t *later = span_of(all, other, 0), *done = span_of(all, other, 1);
    assert_span(later, 1, "snooze", "");
    assert_span(done, 1, "done", "");
    assert_string_equal(link_of(done), text_of(later, "spanId"));
    assert_string_not_equal(text_of(done, "spanId"), text_of(later, "spanId"));
    json_decref(all);
}

static void assert_got(const struct stage *s, int64_t id, const char *trace)
{
    char *got = test_sql_text(s->fx, "SELECT result #>> '{}' FROM tenon.history WHERE id = %lld",
                              (long long)id);
    assert_string_equal(got ? got : "", trace);
    free(got);
}

/* Handlers go on under the span of their attempt; where there is none, under the producer's. The
 * standard's variables say where to, with which headers, as whom. */
static void test_what_handlers_get(void **state)
{
    struct stage s;
    char pool[256], endpoint[128];
    collect(&s, *state);
    (void)snprintf(endpoint, sizeof endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT=%s", s.url);
    const char *const env[] = {endpoint, "OTEL_SERVICE_NAME=shop",
                               "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b, x-other=c", NULL};
    const char *const args[] = {"worker",
                                "--handler",
                                handler(pool, "a=pool:exec %s", "pool"),
                                "--handler",
                                "shell=printf '%s' \"$TENON_TASK_TRACE\"",
                                NULL};
    struct process *p = tenon_spawn(s.fx, args, env);
    int64_t none = enqueue(&s, "", "{\"do\": \"trace\"}", "");
    int64_t unsampled = enqueue(&s, UNSAMPLED, "{\"do\": \"trace\"}", "");
    int64_t ids[] = {enqueue(&s, TRACE, "{\"do\": \"trace\"}", ""),
                     test_sql_int(s.fx, "SELECT tenon.enqueue('shell', trace => '" TRACE "')")};
    await_span(&s, ids[0], 1, "done");
    await_span(&s, ids[1], 1, "done");
    await_done(s.fx, 4);
    end_well(p);
    assert_got(&s, none, "none");
    assert_got(&s, unsampled, UNSAMPLED);
    json_t *all = all_spans(&s);
    for (size_t i = 0; i < 2; i++) {
        char trace[TRACEPARENT_BYTES];
        const json_t *span = span_of(all, ids[i], 0);
        assert_span(span, 1, "done", "");
        (void)snprintf(trace, sizeof trace, "00-" TRACE_ID "-%s-01", text_of(span, "spanId"));
        assert_got(&s, ids[i], trace);
        const json_t *headers = json_object_get(span, "headers");
        assert_string_equal(text_of(headers, "x-key"), "a b");
        assert_string_equal(text_of(headers, "x-other"), "c");
        assert_string_equal(text_of(headers, "content-type"), "application/json");
        assert_string_equal(text_of(json_object_get(span, "resource"), "service.name"), "shop");
    }
    json_decref(all);
}

/* The worker that dies tells nothing of its task. The cleaner does, under the id that the handler
 * got, so that what the handler did before is found below it; and the next attempt links to it. */
static void test_a_worker_that_dies(void **state)
{
    struct stage s;
    char path[300], shell[400];
    collect(&s, *state);
    path_of(&s, "got", path);
    (void)snprintf(shell, sizeof shell,
                   "cd %s; test -e got || { printf '%%s' \"$TENON_TASK_TRACE\" > new; mv new got;"
                   " exec sleep 1000; }",
                   s.fx->dir);
    struct process *p = work(&s, shell);
    int64_t id = test_sql_int(s.fx, "SELECT tenon.enqueue('shell', trace => '" TRACE "')");
    while (access(path, F_OK) != 0) {
        test_sql(s.fx, "SELECT pg_sleep(0.005)");
    }
    process_kill(p);
    test_sql(s.fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now()"
                   " WHERE ended_at IS NULL");
    free(TENON_RUN(s.fx, 0, "cleaner", "--once", "--otlp-url", s.url));
    await_span(&s, id, 1, "crashed");
    p = work(&s, shell);
    await_span(&s, id, 2, "done");
    end_well(p);
    char *got = file_text(path);
    json_t *all = all_spans(&s);
    const json_t *crashed = span_of(all, id, 0), *done = span_of(all, id, 1);
    assert_span(crashed, 1, "crashed", "crash");
    assert_span(done, 2, "done", "");
    assert_contains(got, text_of(crashed, "spanId"));
    assert_string_equal(link_of(done), text_of(crashed, "spanId"));
    json_decref(all);
    free(got);
}

/* A number of the newest line of statistics. */
static int64_t statistic(struct process *p, const char *key)
{
    size_t before = process_lines(p, "event=statistics");
    process_signal(p, SIGUSR1);
    while (process_lines(p, "event=statistics") == before) {
        process_await_line(p, "event=statistics", LIMIT_MS);
    }
    char *log = file_text(p->log), *last = log, *next = log;
    while ((next = strstr(next, "event=statistics"))) {
        last = next++;
    }
    char *at = strstr(last, key);
    int64_t n = at ? strtoll(at + strlen(key), NULL, 10) : -1;
    free(log);
    return n;
}

/* What the queue does not take is dropped and counted; nothing waits. Afterwards the rest comes. */
static void test_a_collector_that_refuses(void **state)
{
    struct stage s;
    collect(&s, *state);
    set_mode(&s, "503");
    test_sql(s.fx,
             "SELECT count(tenon.enqueue('a', trace => '" TRACE "'))"
             " FROM generate_series(1, %d)",
             MANY);
    struct process *p = work(&s, "true");
    await_done(s.fx, MANY);
    int64_t dropped = statistic(p, "spans_dropped=");
    assert_true(dropped > 0 && dropped < MANY);
    assert_int_equal(statistic(p, "spans_sent="), 0);
    set_mode(&s, "200");
    process_await_line(p, "event=spans_sent_again", LIMIT_MS);
    while (statistic(p, "spans_sent=") + dropped < MANY) {
    }
    assert_int_equal(process_lines(p, "event=spans_not_sent"), 1);
    end_well(p);
    json_t *all = all_spans(&s);
    assert_int_equal(json_array_size(all), MANY - dropped);
    json_decref(all);
}

/* One that never answers does not hold up tasks, nor the end for longer than the flush may take. */
static void test_a_collector_that_hangs(void **state)
{
    struct stage s;
    collect(&s, *state);
    set_mode(&s, "hang");
    struct process *p = work(&s, "true");
    (void)enqueue(&s, TRACE, "{}", "");
    process_await_line(s.collector, "refused", LIMIT_MS);
    for (int i = 0; i < 20; i++) {
        (void)enqueue(&s, TRACE, "{}", "");
    }
    await_done(s.fx, 21);
    int64_t from_ms = now_ms();
    end_well(p);
    assert_took(from_ms, FLUSH_CEILING_MS); /* else a request's 10 s */
}

static void test_no_collector(void **state)
{
    struct stage s = {.fx = *state};
    (void)snprintf(s.url, sizeof s.url, "http://127.0.0.1:1");
    struct process *p = work(&s, "true");
    (void)enqueue(&s, TRACE, "{}", "");
    process_await_line(p, "event=spans_not_sent", LIMIT_MS);
    (void)enqueue(&s, TRACE, "{}", "");
    await_done(s.fx, 2);
    end_well(p);
    assert_int_equal(process_lines(p, "event=spans_not_sent"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_what_spans_say),
        WITH_DATABASE(test_retries_are_linked),
        WITH_DATABASE(test_what_handlers_get),
        WITH_DATABASE(test_a_worker_that_dies),
        WITH_DATABASE(test_a_collector_that_refuses),
        WITH_DATABASE(test_a_collector_that_hangs),
        WITH_DATABASE(test_no_collector),
    };
    return RUN_GROUP(tests);
}
