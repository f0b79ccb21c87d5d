#include "core/http/span.h"

#include "core/base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, 64-bit
 * numbers are texts, enumerations are numbers. */
enum { KIND_CONSUMER = 5, STATUS_ERROR = 2 };

/* --- its ids --- */

enum { AT_TRACE_ID = 3, AT_SPAN_ID = 36, AT_FLAGS = 53 };

static bool is_all(const char *digits, size_t n, char digit)
{
    size_t same = 0;
    while (same < n && digits[same] == digit) {
        same++;
    }
    return same == n;
}

/* tenon.enqueue() has seen to its form; an id of zeros and the version ff are not valid.
 * https://www.w3.org/TR/trace-context/ */
static bool is_sampled(const char *trace)
{
    if (!trace || strlen(trace) != TRACEPARENT_BYTES - 1 || strncmp(trace, "ff", 2) == 0 ||
        is_all(trace + AT_TRACE_ID, TRACE_ID_BYTES - 1, '0') ||
        is_all(trace + AT_SPAN_ID, SPAN_ID_BYTES - 1, '0')) {
        return false;
    }
    return strtoul(trace + AT_FLAGS, NULL, 16) & 1;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) { /* FNV-1a */
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    }
    return hash;
}

/* The finish of splitmix64: each bit of the hash changes half of the id's. Never 0, no id. */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31;
    return hash ? hash : 1;
}

static void put_id(char id[SPAN_ID_BYTES], const char *trace, int64_t task, int64_t claims)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325ULL, trace, TRACEPARENT_BYTES - 1);
    hash = hash_bytes(hash, &task, sizeof task);
    hash = hash_bytes(hash, &claims, sizeof claims);
    (void)snprintf(id, SPAN_ID_BYTES, "%016" PRIx64, mix(hash));
}

struct span *span_new(const char *trace, int64_t task, int64_t claims, const char *queue,
                      const char *kind)
{
    struct span *s = is_sampled(trace) ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        return NULL;
    }
    memcpy(s->trace_id, trace + AT_TRACE_ID, TRACE_ID_BYTES - 1);
    memcpy(s->parent_id, trace + AT_SPAN_ID, SPAN_ID_BYTES - 1);
    put_id(s->id, trace, task, claims);
    if (claims > 1) {
        put_id(s->link_id, trace, task, claims - 1);
    }
    s->task = task;
    text_shorten(s->queue, sizeof s->queue, queue);
    text_shorten(s->kind, sizeof s->kind, kind);
    return s;
}

void span_fail(struct span *s, const char *error_type, const char *error)
{
    text_shorten(s->error_type, sizeof s->error_type, *error_type ? error_type : "_OTHER");
    text_shorten(s->error, sizeof s->error, error ? error : "");
}

void span_traceparent(const struct span *s, char text[TRACEPARENT_BYTES])
{
    (void)snprintf(text, TRACEPARENT_BYTES, "00-%s-%s-01", s->trace_id, s->id);
}

/* --- as JSON --- */

/* What fails for want of memory is NULL, and jansson hands that on. */
static json_t *number_text(int64_t n)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, n);
    return json_string(text);
}

static bool add_text(json_t *attributes, const char *key, const char *value)
{
    return json_array_append_new(attributes, json_pack("{s:s,s:{s:s}}", "key", key, "value",
                                                       "stringValue", value)) == 0;
}

static bool add_number(json_t *attributes, const char *key, int64_t value)
{
    return json_array_append_new(attributes, json_pack("{s:s,s:{s:o}}", "key", key, "value",
                                                       "intValue", number_text(value))) == 0;
}

/* https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/ */
static json_t *attributes_json(const struct span *s)
{
    json_t *a = json_array();
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRId64, s->task);
    bool ok = add_text(a, "messaging.system", "tenon") &&
              add_text(a, "messaging.destination.name", s->queue) &&
              add_text(a, "messaging.operation.type", "process") &&
              add_text(a, "messaging.operation.name", "process") &&
              add_text(a, "messaging.message.id", id) && add_text(a, "tenon.kind", s->kind) &&
              add_number(a, "tenon.task.id", s->task) &&
              add_number(a, "tenon.attempt", s->attempt) &&
              add_text(a, "tenon.outcome", s->outcome) &&
              (!*s->error_type || add_text(a, "error.type", s->error_type));
    if (!ok) {
        json_decref(a);
        a = NULL;
    }
    return a;
}

static bool add_link(json_t *span, const struct span *s)
{
    return json_object_set_new(span, "links",
                               json_pack("[{s:s,s:s}]", "traceId", s->trace_id, "spanId",
                                         s->link_id)) == 0;
}

static bool add_status(json_t *span, const struct span *s)
{
    return json_object_set_new(span, "status",
                               json_pack("{s:i,s:s}", "code", STATUS_ERROR, "message", s->error)) ==
           0;
}

static json_t *one_json(const struct span *s)
{
    char name[80];
    (void)snprintf(name, sizeof name, "process %s", s->queue);
    json_t *span = json_pack("{s:s,s:s,s:s,s:s,s:i,s:o,s:o,s:o}", "traceId", s->trace_id, "spanId",
                             s->id, "parentSpanId", s->parent_id, "name", name, "kind",
                             KIND_CONSUMER, "startTimeUnixNano", number_text(s->begin_ns),
                             "endTimeUnixNano", number_text(s->end_ns), "attributes",
                             attributes_json(s));
    if (span && ((*s->link_id && !add_link(span, s)) || (*s->error_type && !add_status(span, s)))) {
        json_decref(span);
        span = NULL;
    }
    return span;
}

static json_t *resource_json(const char *service, const char *host, int64_t pid)
{
    json_t *a = json_array();
    if (!add_text(a, "service.name", service) || !add_text(a, "service.version", TENON_VERSION) ||
        (*host && !add_text(a, "host.name", host)) || !add_number(a, "process.pid", pid)) {
        json_decref(a);
        return NULL;
    }
    return json_pack("{s:o}", "attributes", a);
}

char *span_json(const struct span *list, const char *service, const char *host, int64_t pid,
                int *ret_left_out)
{
    const struct span *s;
    json_t *spans = json_array();
    *ret_left_out = 0;
    LL_FOREACH(list, s)
    {
        *ret_left_out += json_array_append_new(spans, one_json(s)) != 0;
    }
    json_t *all = json_pack("{s:[{s:o,s:[{s:{s:s,s:s},s:o}]}]}", "resourceSpans", "resource",
                            resource_json(service, host, pid), "scopeSpans", "scope", "name",
                            "tenon", "version", TENON_VERSION, "spans", spans);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}
