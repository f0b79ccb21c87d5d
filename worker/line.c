#include "worker/line.h"

#include "core/text.h"
#include "worker/printed.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void line_put_claim(struct buf *b, const struct claim *task)
{
    buf_put_int(b, task->id);
    buf_put_char(b, '/');
    buf_put_int(b, task->claims);
    buf_put_char(b, '/');
    for (int bit = 60; bit >= 0; bit -= 4) {
        buf_put_char(b, "0123456789abcdef"[(uint64_t)task->key >> bit & 15]);
    }
}

/* `key` stands with its comma, quotes and colon. */
static void put_text_key(struct buf *b, const char *key, const char *text)
{
    buf_put_text(b, key);
    buf_put_json_or_null(b, text);
}

static void put_int_key(struct buf *b, const char *key, int64_t n)
{
    buf_put_text(b, key);
    buf_put_int(b, n);
}

/* A line per task, at 100,000 a second: put together by hand, without printf. */
void line_put_task(struct buf *b, const struct claim *task)
{
    put_int_key(b, "{\"id\":", task->id);
    put_text_key(b, ",\"kind\":", task->kind);
    put_text_key(b, ",\"queue\":", task->queue);
    put_int_key(b, ",\"attempt\":", task->attempt);
    put_int_key(b, ",\"failures\":", task->failures);
    put_int_key(b, ",\"max_attempts\":", task->max_attempts);
    put_int_key(b, ",\"timeout_ms\":", task->timeout_ms);
    buf_put_text(b, ",\"claim\":\"");
    line_put_claim(b, task);
    buf_put_char(b, '"');
    put_text_key(b, ",\"trace\":", task->trace);
    buf_put_text(b, ",\"progress\":");
    buf_put_text(b, task->progress ? task->progress : "null");
    if (task->steps) {
        buf_put_text(b, ",\"steps\":");
        buf_put(b, task->steps, task->steps_bytes);
    }
    buf_put_text(b, ",\"payload\":");
    buf_put(b, task->payload, task->payload_bytes);
    buf_put_text(b, "}\n");
}

void line_put_number(struct buf *b, int n)
{
    put_int_key(b, "{\"tasks\":", n);
    buf_put_text(b, "}\n");
}

void line_put_stop(struct buf *b, int64_t task, const char *why)
{
    buf_put_text(b, "{\"stop\":");
    if (task > 0) {
        buf_put_int(b, task);
    } else {
        buf_put_text(b, "null");
    }
    put_text_key(b, ",\"why\":", why);
    buf_put_text(b, "}\n");
}

void line_put_step(struct buf *b, int64_t task, const char *name, bool recorded)
{
    put_int_key(b, "{\"step\":", task);
    put_text_key(b, ",\"name\":", name);
    buf_put_text(b, recorded ? ",\"recorded\":true}\n" : ",\"recorded\":false}\n");
}

/* The JSON escaping makes it UTF-8 without NUL; jansson undoes the quotes and escapes again. */
char *line_clean_text(const char *text, size_t bytes)
{
    struct buf json;
    buf_init(&json, 8 * ERROR_BYTES_MAX);
    buf_put_json(&json, text, bytes);
    json_t *value = json.failed ? NULL : json_loadb(json.data, json.len, JSON_DECODE_ANY, NULL);
    char *clean = strdup(value ? json_string_value(value) : "");
    json_decref(value);
    buf_clear(&json);
    return clean;
}

/* --- the environment --- */

enum { TASK_VARIABLES = 10, TASK_VARIABLES_BYTES_MAX = 4096 + PROGRESS_BYTES_MAX };

/* Each ends with a NUL. */
static void put_variable(struct buf *b, const char *name, const char *value)
{
    if (value) {
        buf_put_text(b, name);
        buf_put_char(b, '=');
        buf_put(b, value, strlen(value) + 1);
    }
}

static void put_number(struct buf *b, const char *name, int64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%lld", (long long)value);
    put_variable(b, name, digits);
}

static void put_task_variables(struct buf *b, const struct claim *task)
{
    put_number(b, "TENON_TASK_ID", task->id);
    put_variable(b, "TENON_TASK_KIND", task->kind);
    put_variable(b, "TENON_TASK_QUEUE", task->queue);
    put_number(b, "TENON_TASK_ATTEMPT", task->attempt);
    put_number(b, "TENON_TASK_FAILURES", task->failures);
    put_number(b, "TENON_TASK_MAX_ATTEMPTS", task->max_attempts);
    put_number(b, "TENON_TASK_TIMEOUT_MS", task->timeout_ms);
    put_variable(b, "TENON_TASK_TRACE", task->trace);
    put_variable(b, "TENON_TASK_PROGRESS", task->progress);
    buf_put_text(b, "TENON_TASK_CLAIM=");
    line_put_claim(b, task);
    buf_put_char(b, '\0');
}

char **line_environment(char *const *own_env, const struct claim *task)
{
    struct buf text;
    size_t own = 0, n = 0;
    buf_init(&text, TASK_VARIABLES_BYTES_MAX);
    if (task) {
        put_task_variables(&text, task);
    }
    while (own_env[own]) {
        own++;
    }
    size_t pointers = own + TASK_VARIABLES + 1;
    char **env = text.failed ? NULL : malloc(pointers * sizeof *env + text.len);
    if (env) {
        for (; n < own; n++) {
            env[n] = own_env[n];
        }
        char *at = (char *)(env + pointers), *end = at + text.len;
        memcpy(at, buf_text(&text), text.len);
        for (; at < end; at += strlen(at) + 1) {
            env[n++] = at;
        }
        env[n] = NULL;
    }
    buf_clear(&text);
    return env;
}

/* --- lines of a pool child --- */

static json_t *parse_object(const char *line, size_t bytes, struct fault *f)
{
    json_error_t error;
    /* what is in a result is none of our business: \u0000, an integer over 64 bits */
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *object = json_loadb(line, bytes, flags, &error);
    if (!object) {
        object = json_loadb(line, bytes, flags | JSON_DECODE_INT_AS_REAL, &error);
    }
    if (!object && json_error_code(&error) == json_error_out_of_memory) {
        (void)fault_memory(f);
        return NULL;
    }
    if (!json_is_object(object)) {
        json_decref(object);
        (void)fault_set(f, FAULT_REFUSED, "a line is no JSON object: %.60s",
                        bytes > 0 ? line : "(empty)");
        return NULL;
    }
    return object;
}

bool line_parse_hello(const char *line, size_t bytes, struct hello *ret, struct fault *f)
{
    json_t *hello = parse_object(line, bytes, f);
    if (!hello) {
        return false;
    }
    const char *word = json_string_value(json_object_get(hello, "hello"));
    json_t *in_flight = json_object_get(hello, "in_flight");
    json_int_t n = in_flight ? json_integer_value(in_flight) : 1;
    bool ok = true;
    if (!word || strcmp(word, "tenon") != 0) {
        ok = fault_set(f, FAULT_REFUSED, "the first line is not {\"hello\":\"tenon\"}");
    } else if (n < 1 || n > IN_FLIGHT_MAX) {
        ok = fault_set(f, FAULT_REFUSED, "in_flight is not a number from 1 to %d", IN_FLIGHT_MAX);
    } else {
        ret->in_flight = (int)n;
        ret->stop = json_is_true(json_object_get(hello, "stop"));
        ret->take = json_is_true(json_object_get(hello, "take"));
    }
    json_decref(hello);
    return ok;
}

static bool parse_outcome(const char *word, enum claim_outcome *ret)
{
    static const struct {
        const char *word;
        enum claim_outcome outcome;
    } words[] = {{"done", OUTCOME_DONE},   {"failed", OUTCOME_FAILED},
                 {"later", OUTCOME_LATER}, {"interrupted", OUTCOME_RELEASED},
                 {"wait", OUTCOME_WAIT},   {"dead", OUTCOME_DEAD}};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) == 0) {
            *ret = words[i].outcome;
            return true;
        }
    }
    return false;
}

/* 1 ms to 30 days; what is not there leaves `*ret` as it is. */
static bool parse_ms(const json_t *value, int64_t *ret)
{
    double ms = json_number_value(value);
    if (value && (!json_is_number(value) || ms < 1 || ms > (double)DELAY_MS_MAX)) {
        return false;
    }
    *ret = value ? (int64_t)ms : *ret;
    return true;
}

static bool parse_delay(const json_t *delay, struct event *event)
{
    event->delay_ms = event->outcome == OUTCOME_LATER ? (int64_t)LATER_DELAY_MS : -1;
    return event->outcome == OUTCOME_RELEASED || parse_ms(delay, &event->delay_ms);
}

/* An id may come as a real number, when the line holds an integer over 64 bits elsewhere. */
static bool parse_id(const json_t *id, struct event *event)
{
    double real = json_number_value(id);
    if (!json_is_number(id) || real < 1 || real >= 9223372036854775808.0) {
        return false;
    }
    event->id = json_is_integer(id) ? json_integer_value(id) : (int64_t)real;
    return true;
}

/* A copy of a reply, from which PostgreSQL takes the result: numbers stay as they are. */
static char *keep_reply(const char *reply, size_t bytes)
{
    return printed_bytes(reply, bytes) <= PRINTED_BYTES_MAX
               ? strndup(reply, bytes)
               : round_result_note(RESULT_NOT_KEPT ", it is longer than 2 MiB as text");
}

/* PostgreSQL takes the progress from the line: numbers stay as they are. */
static bool read_progress(const json_t *reply, const char *line, size_t bytes, struct event *event,
                          struct fault *f)
{
    event->type = EVENT_PROGRESS;
    if (!parse_ms(json_object_get(reply, "extend_ms"), &event->extend_ms)) {
        return fault_set(f, FAULT_REFUSED, "\"extend_ms\" is not 1 ms to 30 days");
    }
    if (!json_object_get(reply, "progress")) {
        return true;
    }
    if (printed_bytes(line, bytes) > PROGRESS_LINE_BYTES_MAX) {
        return fault_set(f, FAULT_REFUSED, "a \"progress\" is longer than 64 KiB as text");
    }
    event->progress = strndup(line, bytes);
    return event->progress || fault_memory(f);
}

/* The name of a step, or of a signal. */
static bool read_name(const json_t *name, struct event *event)
{
    size_t bytes = json_string_length(name);
    if (bytes == 0 || bytes >= sizeof event->name || memchr(json_string_value(name), 0, bytes)) {
        return false;
    }
    memcpy(event->name, json_string_value(name), bytes + 1);
    return true;
}

static bool is_progress(const json_t *reply)
{
    return !json_object_get(reply, "outcome") &&
           (json_object_get(reply, "progress") || json_object_get(reply, "extend_ms"));
}

/* PostgreSQL takes the value from the line. */
static bool read_step(const json_t *reply, const char *line, size_t bytes, struct event *event,
                      struct fault *f)
{
    const json_t *step = json_object_get(reply, "step");
    event->type = EVENT_STEP;
    if (is_progress(reply)) {
        return fault_set(f, FAULT_REFUSED,
                         "a line has a \"step\", and \"progress\" or \"extend_ms\"");
    }
    if (!read_name(json_object_get(step, "name"), event)) {
        return fault_set(f, FAULT_REFUSED, "a \"step\" has no \"name\" of 1 to 100 bytes");
    }
    if (printed_bytes(line, bytes) > STEP_LINE_BYTES_MAX) {
        return fault_set(f, FAULT_REFUSED, "a \"step\" is longer than 1 MiB as text");
    }
    event->step = strndup(line, bytes);
    return event->step || fault_memory(f);
}

/* `timeout_ms`, else as long as there is. */
static bool read_wait(const json_t *reply, struct event *event, struct fault *f)
{
    const json_t *timeout = json_object_get(reply, "timeout_ms");
    double ms = timeout ? json_number_value(timeout) : (double)WAIT_MS_MAX;
    if (!read_name(json_object_get(reply, "signal"), event)) {
        return fault_set(f, FAULT_REFUSED, "\"signal\" is not a text of 1 to 100 bytes");
    }
    if ((timeout && !json_is_number(timeout)) || ms < 1 || ms > (double)WAIT_MS_MAX) {
        return fault_set(f, FAULT_REFUSED, "\"timeout_ms\" is not 1 ms to 365 days");
    }
    event->delay_ms = (int64_t)ms;
    event->signal = strdup(event->name);
    return event->signal || fault_memory(f);
}

/* From now on it takes more tasks at once, or fewer. */
static bool read_room(const json_t *in_flight, struct event *event, struct fault *f)
{
    json_int_t n = json_integer_value(in_flight);
    bool ok = n >= 1 && n <= IN_FLIGHT_MAX;
    event->type = EVENT_CHILD_READY;
    event->room = ok ? (int)n : 0;
    return ok ||
           fault_set(f, FAULT_REFUSED, "in_flight is not a number from 1 to %d", IN_FLIGHT_MAX);
}

static bool read_reply(const json_t *reply, const char *line, size_t bytes, struct event *event,
                       struct fault *f)
{
    const json_t *id = json_object_get(reply, "id");
    const json_t *error = json_object_get(reply, "error");
    event->type = EVENT_REPLY;
    if (!id && json_is_true(json_object_get(reply, "bye"))) {
        event->type = EVENT_CHILD_RETIRES;
        return true;
    }
    if (!id && json_object_get(reply, "in_flight")) {
        return read_room(json_object_get(reply, "in_flight"), event, f);
    }
    if (!parse_id(id, event)) {
        return fault_set(f, FAULT_REFUSED, "a reply has no \"id\" of a task");
    }
    if (json_object_get(reply, "step") && !json_object_get(reply, "outcome")) {
        return read_step(reply, line, bytes, event, f);
    }
    if (is_progress(reply)) {
        return read_progress(reply, line, bytes, event, f);
    }
    if (!parse_outcome(json_string_value(json_object_get(reply, "outcome")), &event->outcome)) {
        return fault_set(f, FAULT_REFUSED,
                         "\"outcome\" is not done, failed, later, wait, interrupted or dead");
    }
    if (event->outcome == OUTCOME_WAIT) {
        return read_wait(reply, event, f);
    }
    if (!parse_delay(json_object_get(reply, "delay_ms"), event)) {
        return fault_set(f, FAULT_REFUSED, "\"delay_ms\" is not 1 ms to 30 days");
    }
    if (json_is_string(error)) {
        char text[ERROR_BYTES_MAX];
        text_shorten(text, sizeof text, json_string_value(error));
        event->error = strdup(text);
    }
    const char *class = json_string_value(json_object_get(reply, "error_class"));
    text_shorten(event->error_class, sizeof event->error_class, class ? class : "");
    if (event->outcome == OUTCOME_DONE && json_object_get(reply, "result")) {
        event->reply = keep_reply(line, bytes);
        return event->reply || fault_memory(f);
    }
    return true;
}

bool line_parse(const char *line, size_t bytes, struct event *event, struct fault *f)
{
    json_t *reply = parse_object(line, bytes, f);
    if (!reply) {
        return false;
    }
    bool ok = read_reply(reply, line, bytes, event, f);
    json_decref(reply);
    return ok;
}

/* --- the end of a child --- */

char *line_child_error(const struct child *c, const char *how)
{
    struct buf error;
    size_t bytes = c->tail_bytes;
    while (bytes > 0 && c->tail[bytes - 1] == '\n') {
        bytes--;
    }
    const char *tail = c->tail_bytes == CHILD_TAIL_BYTES ? text_whole(c->tail) : c->tail;
    buf_init(&error, ERROR_BYTES_MAX);
    buf_put_text(&error, how);
    if (c->tail + bytes > tail) {
        buf_put_text(&error, c->tail_bytes == CHILD_TAIL_BYTES ? ": ... " : ": ");
        buf_put(&error, tail, (size_t)(c->tail + bytes - tail));
    }
    char *clean = line_clean_text(buf_text(&error), error.len);
    buf_clear(&error);
    return clean;
}

/* jansson takes a NUL for the end of the text. */
static bool is_text(const char *text, size_t bytes)
{
    return bytes == 0 || !memchr(text, '\0', bytes);
}

/* What it printed as a reply; NULL when it printed nothing. False: no memory. */
static bool exec_result(const struct child *c, char **ret)
{
    static const char cut[] = " [cut: the output is longer than 256 KiB]";
    struct buf reply;
    size_t bytes = c->output.len;
    while (bytes > 0 && (c->output.data[bytes - 1] == '\n' || c->output.data[bytes - 1] == '\r')) {
        bytes--;
    }
    *ret = NULL;
    if (bytes == 0) {
        return true;
    }
    json_t *value = c->output_cut || !is_text(c->output.data, bytes)
                        ? NULL
                        : json_loadb(c->output.data, bytes,
                                     JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    buf_init(&reply, 8 * RESULT_BYTES_MAX);
    buf_put_text(&reply, "{\"result\":");
    if (value) {
        buf_put(&reply, c->output.data, bytes);
    } else {
        struct buf text;
        buf_init(&text, 2 * RESULT_BYTES_MAX);
        buf_put(&text, c->output.data, bytes);
        buf_put_text(&text, c->output_cut ? cut : "");
        buf_put_json(&reply, buf_text(&text), text.len);
        reply.failed = reply.failed || text.failed;
        buf_clear(&text);
    }
    buf_put_char(&reply, '}');
    json_decref(value);
    *ret = reply.failed ? NULL : keep_reply(reply.data, reply.len);
    buf_clear(&reply);
    return *ret != NULL;
}

void line_exec_outcome(const struct child *c, int status, const char *text, struct event *event)
{
    event->delay_ms = -1;
    if (status == EXIT_DONE) {
        bool ok = exec_result(c, &event->reply);
        event->outcome = ok ? OUTCOME_DONE : OUTCOME_FAILED; /* rather again than without result */
        event->error = ok ? NULL : strdup("no memory for the result");
        return;
    }
    event->outcome = status == EXIT_DEAD    ? OUTCOME_DEAD
                     : status == EXIT_LATER ? OUTCOME_LATER
                                            : OUTCOME_FAILED;
    if (status == EXIT_LATER) {
        event->delay_ms = LATER_DELAY_MS;
    }
    event->error = line_child_error(c, text);
}
