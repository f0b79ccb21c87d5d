#include "handlers/pool.h"

#include "core/base/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, OUT_BYTES_MAX = 256 << 20, REPLY_HEAD_BYTES = 128 };

void pool_open(struct pool *p, int in_flight)
{
    *p = (struct pool){.fd = STDOUT_FILENO};
    buf_init(&p->in, POOL_LINE_BYTES_MAX + READ_BYTES);
    buf_init(&p->out, OUT_BYTES_MAX);
    buf_printf(&p->out, "{\"hello\":\"tenon\",\"in_flight\":%d,\"stop\":true}\n", in_flight);
}

void pool_close(struct pool *p)
{
    buf_clear(&p->in);
    buf_clear(&p->out);
}

bool pool_read(struct pool *p, struct fault *f)
{
    buf_drop(&p->in, p->taken);
    p->taken = 0;
    char *room = buf_room(&p->in, READ_BYTES);
    if (!room) {
        return fault_set(f, FAULT_REFUSED, "a line is longer than %d bytes", POOL_LINE_BYTES_MAX);
    }
    ssize_t n;
    do {
        n = read(STDIN_FILENO, room, READ_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fault_set(f, FAULT_RETRY, "could not read stdin: %s", strerror(errno));
    }
    buf_added(&p->in, (size_t)n);
    p->ended = n == 0;
    return true;
}

bool pool_flush(struct pool *p, struct fault *f)
{
    size_t done = 0;
    if (p->out.failed) {
        return fault_memory(f);
    }
    while (done < p->out.len) {
        ssize_t n = write(p->fd, p->out.data + done, p->out.len - done);
        if (n < 0 && errno != EINTR) {
            return fault_set(f, FAULT_RETRY, "could not write to stdout: %s", strerror(errno));
        }
        done += n > 0 ? (size_t)n : 0;
    }
    buf_empty(&p->out);
    return true;
}

/* --- a line, without rounding its numbers --- */

enum { TEXTS = 4, NUMBERS = 5, PAYLOAD = TEXTS + NUMBERS, PROGRESS, STOP, KEYS };

/* What tenon writes into texts (names, claims, traces) needs no escapes. */
static const char *end_text(char *line, const struct scanned *v)
{
    if (!scanned_is_text(v)) {
        return NULL; /* null */
    }
    line[v->text + v->bytes - 1 - line] = '\0';
    return v->text + 1;
}

static const char *end_value(char *line, const struct scanned *v)
{
    if (v->text) {
        line[v->text + v->bytes - line] = '\0';
    }
    return v->text;
}

static void take_members(char *line, const struct scan_member m[KEYS], struct pool_task *task)
{
    const char **texts[TEXTS] = {&task->kind, &task->queue, &task->claim, &task->trace};
    int64_t *numbers[NUMBERS] = {&task->id, &task->attempt, &task->failures, &task->max_attempts,
                                 &task->timeout_ms};
    for (int i = 0; i < NUMBERS; i++) {
        *numbers[i] = m[TEXTS + i].value.text ? strtoll(m[TEXTS + i].value.text, NULL, 10) : 0;
    }
    for (int i = 0; i < TEXTS; i++) {
        *texts[i] = end_text(line, &m[i].value);
    }
    task->payload = end_value(line, &m[PAYLOAD].value);
    task->payload_bytes = m[PAYLOAD].value.bytes;
    task->progress = end_value(line, &m[PROGRESS].value);
}

static bool is_whole(const struct pool_task *t)
{
    return t->id > 0 && t->timeout_ms > 0 && t->kind && t->queue && t->claim && t->payload;
}

/* `line` is the caller's copy, which the task keeps. */
static bool read_line(char *line, struct pool_message *ret)
{
    struct scan_member m[KEYS] = {{.key = "kind"},       {.key = "queue"},
                                  {.key = "claim"},      {.key = "trace"},
                                  {.key = "id"},         {.key = "attempt"},
                                  {.key = "failures"},   {.key = "max_attempts"},
                                  {.key = "timeout_ms"}, {.key = "payload"},
                                  {.key = "progress"},   {.key = "stop"}};
    bool ok = scan_object(line, strlen(line), m, KEYS);
    *ret = (struct pool_message){.type = POOL_TASK, .task = {.line = line}};
    if (ok && m[STOP].times > 0) {
        ret->stop = strtoll(m[STOP].value.text, NULL, 10); /* null: all of them */
        ret->type = ret->stop > 0 ? POOL_STOP : POOL_DRAIN;
        return true;
    }
    take_members(line, m, &ret->task);
    return ok && is_whole(&ret->task);
}

bool pool_take(struct pool *p, struct pool_message *ret, struct fault *f)
{
    char *from = p->in.data ? p->in.data + p->taken : NULL;
    char *end = from ? memchr(from, '\n', p->in.len - p->taken) : NULL;
    *ret = (struct pool_message){.type = POOL_NOTHING};
    if (!end) {
        return true;
    }
    p->taken = (size_t)(end - p->in.data) + 1;
    char *line = strndup(from, (size_t)(end - from));
    if (!line) {
        return fault_memory(f);
    }
    bool ok = read_line(line, ret) ||
              fault_set(f, FAULT_REFUSED, "not a line of a worker: %.60s", from);
    if (!ok || ret->type != POOL_TASK) {
        free(line);
        ret->task = (struct pool_task){.line = NULL};
    }
    return ok;
}

void pool_task_clear(struct pool_task *task)
{
    free(task->line);
    *task = (struct pool_task){.line = NULL};
}

/* --- answers --- */

static void put_line_feedless(struct buf *b, const char *text, size_t bytes)
{
    size_t at = b->len;
    buf_put(b, text, bytes);
    for (; at < b->len; at++) {
        if (b->data[at] == '\n' || b->data[at] == '\r') {
            b->data[at] = ' '; /* in JSON they only occur between values */
        }
    }
}

static void put_text(struct buf *b, const char *key, const char *text)
{
    if (text) {
        buf_put_text(b, key);
        buf_put_json(b, text, strlen(text));
    }
}

/* Is it one JSON value that fits into a line? What PostgreSQL cannot store of it, the worker
 * judges. */
static bool is_value(const char *json, size_t bytes, size_t most, struct scanned *ret)
{
    return json && scan_value(json, bytes, ret) && ret->bytes <= most;
}

void pool_done(struct pool *p, int64_t id, const char *result, size_t bytes, const char *otherwise)
{
    struct scanned value;
    buf_printf(&p->out, "{\"id\":%lld,\"outcome\":\"done\"", (long long)id);
    if (is_value(result, bytes, POOL_REPLY_BYTES_MAX - REPLY_HEAD_BYTES, &value)) {
        buf_put_text(&p->out, ",\"result\":");
        put_line_feedless(&p->out, value.text, value.bytes);
    } else {
        put_text(&p->out, ",\"result\":", otherwise);
    }
    buf_put_text(&p->out, "}\n");
}

void pool_answer(struct pool *p, int64_t id, const struct pool_answer *answer)
{
    buf_printf(&p->out, "{\"id\":%lld,\"outcome\":\"%s\"", (long long)id, answer->outcome);
    put_text(&p->out, ",\"error\":", answer->error);
    put_text(&p->out, ",\"error_class\":", answer->class);
    if (answer->delay_ms > 0) {
        buf_printf(&p->out, ",\"delay_ms\":%lld", (long long)answer->delay_ms);
    }
    buf_put_text(&p->out, "}\n");
}

bool pool_progress(struct pool *p, int64_t id, const char *json, size_t bytes)
{
    struct scanned value;
    bool ok = is_value(json, bytes, POOL_PROGRESS_BYTES_MAX, &value);
    if (ok) {
        buf_printf(&p->out, "{\"id\":%lld,\"progress\":", (long long)id);
        put_line_feedless(&p->out, value.text, value.bytes);
        buf_put_text(&p->out, "}\n");
    }
    return ok;
}

void pool_extend(struct pool *p, int64_t id, int64_t ms)
{
    buf_printf(&p->out, "{\"id\":%lld,\"extend_ms\":%lld}\n", (long long)id, (long long)ms);
}

void pool_in_flight(struct pool *p, int n)
{
    buf_printf(&p->out, "{\"in_flight\":%d}\n", n);
}

void pool_bye(struct pool *p)
{
    buf_put_text(&p->out, "{\"bye\":true}\n");
}
