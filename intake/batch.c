#include "intake/batch.h"

#include "core/base/array.h"
#include "core/base/scan.h"
#include "intake/envelope.h"
#include "intake/statements.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void batch_init(struct batch *b, const struct rules *rules, const char *queue, bool is_stream)
{
    struct buf *all[] = {&b->keys, &b->kinds, &b->payloads, &b->traces, &b->offsets, &b->payload};
    *b = (struct batch){.rules = rules, .queue = queue, .is_stream = is_stream};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_init(all[i], BATCH_ARRAY_BYTES_MAX);
    }
}

void batch_clear(struct batch *b)
{
    struct buf *all[] = {&b->keys, &b->kinds, &b->payloads, &b->traces, &b->offsets, &b->payload};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_clear(all[i]);
    }
}

size_t batch_size(const struct incoming *list, int64_t *ret_bytes)
{
    size_t n = 0;
    *ret_bytes = 0;
    for (const struct incoming *m = list; m && n < BATCH_ROWS_MAX; m = m->next) {
        int64_t bytes = m->body ? (int64_t)m->bytes : 0;
        if (n > 0 && *ret_bytes + bytes > BATCH_BYTES_MAX) {
            break;
        }
        *ret_bytes += bytes;
        n++;
    }
    return n;
}

/* --- one message ------------------------------------------------------------------------------ */

static bool reject(struct incoming *m, struct fault *f, const char *fmt, ...) PRINTF_LIKE(3, 4);
static bool reject(struct incoming *m, struct fault *f, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    free(m->rejected);
    m->rejected = strdup(text);
    return m->rejected || fault_memory(f);
}

static void put_body(struct buf *b, const struct incoming *m, const char *json, size_t bytes,
                     const char *problem)
{
    buf_put_text(b, m->envelope ? m->envelope : "{");
    if (m->envelope) {
        buf_put_text(b, ", \"body\": ");
        buf_put(b, json, bytes);
    }
    if (problem) {
        buf_put_text(b, m->envelope ? ", \"base64\": " : "\"base64\": ");
        envelope_put_base64(b, m->body, (size_t)m->bytes);
        buf_put_text(b, ", \"problem\": ");
        buf_put_json(b, problem, strlen(problem));
    }
    buf_put_char(b, '}');
}

/* Why the body is no payload; NULL = it is one, and `ret` is where. */
static const char *problem_of(const struct incoming *m, struct scanned *ret)
{
    if (!scan_value(m->body, (size_t)m->bytes, ret)) {
        return "its body is not JSON";
    }
    if (ret->why) {
        return ret->why;
    }
    return ret->loose ? "its body is not JSON: it has NaN, Infinity, a control character, or bytes "
                        "that are not UTF-8"
                      : NULL;
}

/* The payload, a text with a NUL behind it; NULL = the message is rejected, or there is no memory
 * (`f` is set). */
static const char *payload_of(struct batch *b, struct incoming *m, struct fault *f)
{
    struct scanned body = {.text = NULL};
    const char *problem = m->problem;
    if (m->body && m->has_kind && !problem) {
        problem = problem_of(m, &body);
    }
    bool kept = problem && m->body && !m->problem && b->rules->on_invalid == INVALID_KEEP;
    if (problem && !kept) {
        (void)reject(m, f, "%s", problem);
        return NULL;
    }
    buf_empty(&b->payload);
    if (m->envelope || kept) {
        put_body(&b->payload, m, kept ? "null" : body.text, kept ? 4 : body.bytes, problem);
        if (b->payload.failed) {
            (void)fault_memory(f);
            return NULL;
        }
        if (!scan_value(b->payload.data, b->payload.len, &body) || body.loose || body.why) {
            (void)reject(m, f, "PostgreSQL cannot store it: %s", body.why ? body.why : "headers");
            return NULL;
        }
    }
    if ((int64_t)body.printed > b->payload_bytes_max) {
        (void)reject(m, f, "its payload would have %zu bytes, and %" PRId64 " are allowed",
                     body.printed, b->payload_bytes_max);
        return NULL;
    }
    b->counts.kept += kept;
    return body.text;
}

static bool put(struct batch *b, struct incoming *m, struct fault *f)
{
    const char *payload = payload_of(b, m, f);
    if (!payload) {
        b->counts.rejected++;
        return f->code == FAULT_NONE;
    }
    array_put_text(&b->payloads, payload);
    array_put_text(&b->kinds, m->kind);
    array_put_text(&b->keys, m->has_key ? m->key : NULL);
    array_put_text(&b->traces, m->has_trace ? m->trace : NULL);
    array_put_int(&b->offsets, m->offset);
    b->counts.unkeyed += !m->has_key && !b->is_stream;
    b->n++;
    return true;
}

/* --- the piece -------------------------------------------------------------------------------- */

static bool put_all(struct batch *b, struct incoming *list, size_t n, int64_t *ret_up_to,
                    struct fault *f)
{
    struct buf *all[] = {&b->keys, &b->kinds, &b->payloads, &b->traces, &b->offsets};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        array_begin(all[i]);
    }
    b->n = 0;
    b->counts = (struct batch_counts){0};
    bool ok = true;
    for (struct incoming *m = list; ok && n > 0; m = m->next, n--) {
        free(m->rejected);
        m->rejected = NULL;
        *ret_up_to = m->offset;
        ok = put(b, m, f);
    }
    return ok;
}

bool batch_take(struct batch *b, struct db *db, struct incoming *list, size_t n, struct fault *f)
{
    int64_t last = -1;
    char up_to[24];
    struct rows *rows = NULL;
    if (!put_all(b, list, n, &last, f)) {
        return false;
    }
    (void)snprintf(up_to, sizeof up_to, "%" PRId64, last);
    const char *const params[] = {b->queue,
                                  array_end(&b->keys),
                                  array_end(&b->kinds),
                                  array_end(&b->payloads),
                                  array_end(&b->traces),
                                  b->is_stream ? array_end(&b->offsets) : NULL,
                                  b->is_stream ? up_to : NULL,
                                  b->rules->task_queue,
                                  b->rules->priority};
    if (!params[1] || !params[2] || !params[3] || !params[4] || b->offsets.failed) {
        return fault_memory(f);
    }
    if (b->n == 0 && !b->is_stream) {
        return true;
    }
    if (!db_exec(db, &sql_take_in, params, 9, &rows, f)) {
        return false;
    }
    b->counts.taken = rows_int(rows, 0, 0);
    b->counts.repeated = (int64_t)b->n - b->counts.taken;
    b->payload_bytes_max = rows_int(rows, 0, 1);
    rows_free(rows);
    return true;
}
