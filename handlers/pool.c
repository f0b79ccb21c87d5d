#include "handlers/pool.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, OUT_BYTES_MAX = 256 << 20 };

void pool_open(struct pool *p, int in_flight)
{
    *p = (struct pool){.ended = false};
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
        ssize_t n = write(STDOUT_FILENO, p->out.data + done, p->out.len - done);
        if (n < 0 && errno != EINTR) {
            return fault_set(f, FAULT_RETRY, "could not write to stdout: %s", strerror(errno));
        }
        done += n > 0 ? (size_t)n : 0;
    }
    buf_empty(&p->out);
    return true;
}

/* --- a line, without copying or rounding what stands in it --- */

/* The end of a string that begins at `at`: behind its last quote. */
static char *after_string(char *at)
{
    for (at++; *at && *at != '"'; at++) {
        at += *at == '\\' && at[1];
    }
    return *at ? at + 1 : at;
}

/* The end of any value. */
static char *after_value(char *at)
{
    int depth = 0;
    while (*at && (depth > 0 || (*at != ',' && *at != '}'))) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at = *at == '"' ? after_string(at) : at + 1;
    }
    return at;
}

/* One member of an object: its key and its value, each ended by a NUL. What tenon writes into
 * texts (names, claims, traces) needs no escapes. NULL: that is no member. */
static char *next_member(char *at, const char **key, char **value, size_t *bytes)
{
    if (*at != '"') {
        return NULL;
    }
    char *end = after_string(at);
    *key = at + 1;
    if (*end != ':') {
        return NULL;
    }
    end[-1] = '\0';
    *value = end + 1;
    end = after_value(*value);
    if (*end != ',' && *end != '}') {
        return NULL;
    }
    *bytes = (size_t)(end - *value);
    bool last = *end == '}';
    *end = '\0';
    return last ? end : end + 1;
}

static const char *text_of(char *value, size_t bytes)
{
    if (*value != '"' || bytes < 2) {
        return NULL; /* null */
    }
    value[bytes - 1] = '\0';
    return value + 1;
}

static void take_number(struct pool_task *task, const char *key, const char *value)
{
    const struct {
        const char *key;
        int64_t *number;
    } numbers[] = {{"id", &task->id},
                   {"attempt", &task->attempt},
                   {"failures", &task->failures},
                   {"max_attempts", &task->max_attempts},
                   {"timeout_ms", &task->timeout_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].number = strtoll(value, NULL, 10);
        }
    }
}

static void take_text(struct pool_task *task, const char *key, char *value, size_t bytes)
{
    const struct {
        const char *key;
        const char **text;
    } texts[] = {{"kind", &task->kind},
                 {"queue", &task->queue},
                 {"claim", &task->claim},
                 {"trace", &task->trace}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            *texts[i].text = text_of(value, bytes);
        }
    }
}

static void take_member(struct pool_message *m, const char *key, char *value, size_t bytes)
{
    if (strcmp(key, "payload") == 0) {
        m->task.payload = value;
        m->task.payload_bytes = bytes;
    } else if (strcmp(key, "progress") == 0) {
        m->task.progress = value;
    } else if (strcmp(key, "stop") == 0) {
        m->stop = strtoll(value, NULL, 10);
        m->type = m->stop > 0 ? POOL_STOP : POOL_DRAIN;
    } else {
        take_number(&m->task, key, value);
        take_text(&m->task, key, value, bytes);
    }
}

static bool is_whole(const struct pool_task *t)
{
    return t->id > 0 && t->timeout_ms > 0 && t->kind && t->queue && t->claim && t->payload;
}

/* `line` is the caller's copy, which the task keeps. */
static bool read_line(char *line, struct pool_message *ret)
{
    const char *key;
    char *value, *at = *line == '{' ? line + 1 : NULL;
    size_t bytes;
    *ret = (struct pool_message){.type = POOL_TASK, .task = {.line = line}};
    while (at && *at) {
        at = next_member(at, &key, &value, &bytes);
        if (at) {
            take_member(ret, key, value, bytes);
        }
    }
    return at && (ret->type != POOL_TASK || is_whole(&ret->task));
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
              fault_set(f, FAULT_REFUSED, "that is no line of a worker's: %.60s", from);
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

/* Would the worker read this line? It would end a child that says anything else. */
static bool is_read(const struct buf *line, size_t members)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    if (line->failed || line->len > POOL_REPLY_BYTES_MAX) {
        return false;
    }
    json_t *parsed = json_loadb(line->data, line->len, flags, NULL);
    bool ok = json_object_size(parsed) == members; /* what brings more of them is no value */
    json_decref(parsed);
    return ok;
}

static void put_line_feedless(struct buf *b, const char *text, size_t bytes)
{
    size_t at = b->len;
    buf_put(b, text, bytes);
    for (; at < b->len; at++) {
        if (b->data[at] == '\n' || b->data[at] == '\r') {
            b->data[at] = ' '; /* in JSON they stand between values only */
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

void pool_done(struct pool *p, int64_t id, const char *result, size_t bytes, const char *otherwise)
{
    struct buf line;
    buf_init(&line, POOL_REPLY_BYTES_MAX);
    buf_printf(&line, "{\"id\":%lld,\"outcome\":\"done\"", (long long)id);
    size_t head = line.len;
    if (result) {
        buf_put_text(&line, ",\"result\":");
        put_line_feedless(&line, result, bytes);
        buf_put_char(&line, '}');
    }
    if (result && is_read(&line, 3)) {
        buf_put(&p->out, line.data, line.len);
    } else {
        buf_put(&p->out, line.data, head);
        put_text(&p->out, ",\"result\":", otherwise);
        buf_put_char(&p->out, '}');
    }
    buf_put_char(&p->out, '\n');
    buf_clear(&line);
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
    struct buf line;
    buf_init(&line, POOL_PROGRESS_BYTES_MAX + 64);
    buf_printf(&line, "{\"id\":%lld,\"progress\":", (long long)id);
    put_line_feedless(&line, json, bytes);
    buf_put_char(&line, '}');
    bool ok = bytes <= POOL_PROGRESS_BYTES_MAX && is_read(&line, 2);
    if (ok) {
        buf_put(&p->out, line.data, line.len);
        buf_put_char(&p->out, '\n');
    }
    buf_clear(&line);
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
