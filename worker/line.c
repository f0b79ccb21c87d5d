#include "worker/line.h"

#include "core/base/scan.h"
#include "core/base/text.h"
#include "worker/decide/round.h"
#include "worker/decide/slots.h"
#include "worker/handler_log.h"

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

/* `key` includes its comma, quotes and colon. */
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

/* The JSON escaping makes it UTF-8 without NUL. */
char *line_clean_text(const char *text, size_t bytes)
{
    struct buf json, clean;
    struct scanned value;
    buf_init(&json, 8 * ERROR_BYTES_MAX);
    buf_init(&clean, 8 * ERROR_BYTES_MAX);
    buf_put_json(&json, text, bytes);
    if (!json.failed && scan_value(json.data, json.len, &value)) {
        scanned_put(&value, &clean);
    }
    char *copy = strdup(buf_text(&clean));
    buf_clear(&json);
    buf_clear(&clean);
    return copy;
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

static bool refuse_line(const char *line, size_t bytes, struct fault *f)
{
    return fault_set(f, FAULT_REFUSED, "a line is not a JSON object: %.60s",
                     bytes > 0 ? line : "(empty)");
}

static bool read_room(const struct scanned *in_flight, int *ret, struct fault *f)
{
    double n;
    bool ok = scanned_number(in_flight, &n) && n >= 1 && n <= IN_FLIGHT_MAX;
    *ret = ok ? (int)n : 0;
    return ok ||
           fault_set(f, FAULT_REFUSED, "in_flight is not a number from 1 to %d", IN_FLIGHT_MAX);
}

/* Something else than the protocol has come first, such as what `npm start` prints. */
static bool not_hello(const char *line, struct fault *f)
{
    char said[64];
    text_shorten(said, sizeof said, *line ? line : "an empty line");
    return fault_set(f, FAULT_REFUSED,
                     "expected a hello on stdout, got: %s (stdout is for the protocol "
                     "only: print to stderr; for npm: npm start --silent)",
                     said);
}

/* What is said of it is one line. */
static bool keep_starting(const struct scan_member *member, struct hello *ret)
{
    struct buf does;
    if (!scanned_is_text(&member->value)) {
        return false;
    }
    buf_init(&does, LINE_BYTES_MAX);
    scanned_put(&member->value, &does);
    text_shorten(ret->starting, sizeof ret->starting, does.len > 0 ? buf_text(&does) : "?");
    buf_clear(&does);
    for (char *c = ret->starting; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    return true;
}

bool line_parse_hello(const char *line, size_t bytes, struct hello *ret, struct fault *f)
{
    enum { HELLO, IN_FLIGHT, STOP, CHUNKS, KINDS, STARTING, N };
    struct scan_member m[N] = {[HELLO] = {.key = "hello"}, [IN_FLIGHT] = {.key = "in_flight"},
                               [STOP] = {.key = "stop"},   [CHUNKS] = {.key = "chunks"},
                               [KINDS] = {.key = "kinds"}, [STARTING] = {.key = "starting"}};
    *ret = (struct hello){0};
    if (!scan_object(line, bytes, m, N)) {
        return not_hello(line, f);
    }
    if (m[HELLO].times == 0 && keep_starting(&m[STARTING], ret)) {
        return true;
    }
    if (!scanned_is(&m[HELLO].value, "tenon")) {
        return not_hello(line, f);
    }
    int room = 1;
    if (m[IN_FLIGHT].times > 0 && !read_room(&m[IN_FLIGHT].value, &room, f)) {
        return false;
    }
    *ret = (struct hello){.in_flight = room,
                          .stop = scanned_is_true(&m[STOP].value),
                          .chunks = scanned_is_true(&m[CHUNKS].value),
                          .kinds = m[KINDS].value};
    return true;
}

enum key {
    ID,
    OUTCOME,
    RESULT,
    ERROR,
    CLASS,
    DELAY,
    SIGNAL,
    TIMEOUT,
    PROGRESS,
    EXTEND,
    STEP,
    LOG,
    BYE,
    ROOM,
    KEYS
};

/* A line, of which nothing has been judged. */
struct reading {
    struct scan_member m[KEYS];
    bool cut;
};

static bool has(const struct reading *r, enum key key)
{
    return r->m[key].times > 0;
}

static const struct scanned *value_of(const struct reading *r, enum key key)
{
    return &r->m[key].value;
}

static bool parse_outcome(const struct scanned *word, enum claim_outcome *ret)
{
    static const struct {
        const char *word;
        enum claim_outcome outcome;
    } words[] = {{"done", OUTCOME_DONE},
                 {"failed", OUTCOME_FAILED},
                 {"snooze", OUTCOME_SNOOZE},
                 {"interrupted", OUTCOME_RELEASED},
                 {"wait_signal", OUTCOME_WAIT_SIGNAL},
                 {"dead", OUTCOME_DEAD}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (scanned_is(word, words[i].word)) {
            *ret = words[i].outcome;
            return true;
        }
    }
    return false;
}

/* 1 ms to `most`; what is not there leaves `*ret` as it is. */
static bool parse_ms(const struct reading *r, enum key key, int64_t most, int64_t *ret)
{
    double ms;
    if (!has(r, key)) {
        return true;
    }
    bool ok = scanned_number(value_of(r, key), &ms) && ms >= 1 && ms <= (double)most;
    *ret = ok ? (int64_t)ms : *ret;
    return ok;
}

/* The name of a step, or of a signal: 1 to 100 bytes that PostgreSQL can store. */
static bool read_name(const struct scanned *name, struct event *event)
{
    struct buf b;
    if (!scanned_is_text(name) || name->why) {
        return false;
    }
    buf_init(&b, sizeof event->name - 1);
    scanned_put(name, &b);
    bool ok = !b.failed && b.len > 0;
    text_shorten(event->name, sizeof event->name, buf_text(&b));
    buf_clear(&b);
    return ok;
}

/* A copy of a text, with U+FFFD for what PostgreSQL cannot store, that is no longer than `size`. */
static bool read_text(const struct scanned *text, char *to, size_t size)
{
    struct buf b;
    *to = '\0';
    if (!scanned_is_text(text)) {
        return true;
    }
    buf_init(&b, 3 * text->bytes);
    scanned_put(text, &b);
    text_shorten(to, size, buf_text(&b));
    bool ok = !b.failed;
    buf_clear(&b);
    return ok;
}

/* An object with one key. NULL: no memory. */
static char *object_of(const char *key, const struct scanned *value)
{
    struct buf b;
    buf_init(&b, value->bytes + 64);
    buf_put_text(&b, "{\"");
    buf_put_text(&b, key);
    buf_put_text(&b, "\":");
    buf_put(&b, value->text, value->bytes);
    buf_put_char(&b, '}');
    if (b.failed) {
        buf_clear(&b);
    }
    return b.data;
}

/* PostgreSQL takes the result from the text: numbers stay as they are. */
static char *keep_result(const struct scanned *result)
{
    char note[128];
    if (result->why) {
        (void)snprintf(note, sizeof note, RESULT_NOT_KEPT ": %s", result->why);
        return round_result_note(note);
    }
    return result->printed <= PRINTED_BYTES_MAX
               ? object_of("result", result)
               : round_result_note(RESULT_NOT_KEPT ", it is longer than 2 MiB as text");
}

/* Of what a running task says an empty text is refused, visibly. */
static char *keep_said(const char *key, const struct scanned *value, size_t most)
{
    bool kept = value->text && !value->why && value->printed <= most;
    return kept ? object_of(key, value) : strdup("");
}

static bool read_progress(const struct reading *r, struct event *event, struct fault *f)
{
    event->type = EVENT_PROGRESS;
    if (!parse_ms(r, EXTEND, DELAY_MS_MAX, &event->extend_ms)) {
        event->extend_ms = -1;
    }
    if (has(r, PROGRESS)) {
        event->progress = keep_said("progress", value_of(r, PROGRESS), PROGRESS_BYTES_MAX);
        return event->progress || fault_memory(f);
    }
    return true;
}

/* A step without a name that can be is refused under as much of it as there is. */
static bool read_step(const struct reading *r, struct event *event, struct fault *f)
{
    const struct scanned *step = value_of(r, STEP);
    struct scan_member name = {.key = "name"};
    bool both = has(r, PROGRESS) || has(r, EXTEND);
    event->type = EVENT_STEP;
    bool whole = step->text && scan_object(step->text, step->bytes, &name, 1);
    if (whole && !both && read_name(&name.value, event)) {
        event->step = keep_said("step", step, STEP_LINE_BYTES_MAX);
    } else {
        event->step = read_text(&name.value, event->name, sizeof event->name) ? strdup("") : NULL;
    }
    return event->step || fault_memory(f);
}

/* What is wrong with a reply, NULL = nothing. */
static const char *read_outcome(const struct reading *r, struct event *event)
{
    event->delay_ms = -1;
    if (!parse_outcome(value_of(r, OUTCOME), &event->outcome)) {
        return r->cut && !has(r, OUTCOME)
                   ? "a line is longer than 2 MiB"
                   : "\"outcome\" is not done, failed, snooze, wait_signal, interrupted or dead";
    }
    if (event->outcome == OUTCOME_WAIT_SIGNAL) {
        event->delay_ms = WAIT_MS_MAX; /* else as long as there is */
        return !read_name(value_of(r, SIGNAL), event) ? "\"signal\" is not a text of 1 to 100 bytes"
               : !parse_ms(r, TIMEOUT, WAIT_MS_MAX, &event->delay_ms)
                   ? "\"timeout_ms\" is not 1 ms to 365 days"
                   : NULL;
    }
    event->delay_ms = event->outcome == OUTCOME_SNOOZE ? (int64_t)SNOOZE_DELAY_MS : -1;
    bool ok = event->outcome == OUTCOME_RELEASED ||
              parse_ms(r, DELAY, DELAY_MS_MAX, &event->delay_ms);
    return ok ? NULL : "\"delay_ms\" is not 1 ms to 30 days";
}

/* The task is told, so it fails, and nobody else. */
static bool fail_alone(struct event *event, const char *what, struct fault *f)
{
    char error[128];
    (void)snprintf(error, sizeof error, "protocol error: %s", what);
    event->outcome = OUTCOME_FAILED;
    event->delay_ms = -1;
    event->error = strdup(error);
    return event->error || fault_memory(f);
}

static bool read_reply(const struct reading *r, struct event *event, struct fault *f)
{
    char error[ERROR_BYTES_MAX];
    event->type = EVENT_REPLY;
    const char *wrong = read_outcome(r, event);
    if (wrong) {
        return fail_alone(event, wrong, f);
    }
    if (!read_text(value_of(r, ERROR), error, sizeof error) ||
        !read_text(value_of(r, CLASS), event->error_class, sizeof event->error_class)) {
        return fault_memory(f);
    }
    char **kept = event->outcome == OUTCOME_DONE && has(r, RESULT) ? &event->reply
                  : event->outcome == OUTCOME_WAIT_SIGNAL          ? &event->signal
                  : scanned_is_text(value_of(r, ERROR))            ? &event->error
                                                                   : NULL;
    if (kept) {
        *kept = kept == &event->reply    ? keep_result(value_of(r, RESULT))
                : kept == &event->signal ? strdup(event->name)
                                         : strdup(error);
    }
    return !kept || *kept || fault_memory(f);
}

/* What is said of no task. */
static bool read_general(const struct reading *r, struct event *event, struct fault *f)
{
    if (r->cut) {
        return fault_set(f, FAULT_REFUSED, "a line is longer than 2 MiB");
    }
    if (!has(r, ID) && scanned_is_true(value_of(r, BYE))) {
        event->type = EVENT_CHILD_RETIRES;
        return true;
    }
    if (!has(r, ID) && has(r, ROOM)) {
        event->type = EVENT_CHILD_READY;
        return read_room(value_of(r, ROOM), &event->room, f);
    }
    return fault_set(f, FAULT_REFUSED, "a reply has no \"id\" of a task");
}

bool line_parse(const char *line, size_t bytes, struct event *event, struct fault *f)
{
    struct reading r = {.m = {{.key = "id"},
                              {.key = "outcome"},
                              {.key = "result"},
                              {.key = "error"},
                              {.key = "error_class"},
                              {.key = "delay_ms"},
                              {.key = "signal"},
                              {.key = "timeout_ms"},
                              {.key = "progress"},
                              {.key = "extend_ms"},
                              {.key = "step"},
                              {.key = "log"},
                              {.key = "bye"},
                              {.key = "in_flight"}}};
    if (!scan_object(line, bytes, r.m, KEYS)) {
        r.cut = bytes > LINE_BYTES_MAX;
        if (!r.cut) {
            return refuse_line(line, bytes, f);
        }
    }
    if (r.m[ID].times != 1 || !scanned_id(value_of(&r, ID), &event->id)) {
        return read_general(&r, event, f);
    }
    if (!has(&r, OUTCOME) && has(&r, LOG)) {
        return handler_log_read(value_of(&r, LOG), event) || fault_memory(f);
    }
    if (!has(&r, OUTCOME) && has(&r, STEP)) {
        return read_step(&r, event, f);
    }
    if (!has(&r, OUTCOME) && (has(&r, PROGRESS) || has(&r, EXTEND))) {
        return read_progress(&r, event, f);
    }
    return read_reply(&r, event, f);
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
    if (*c->starting && !c->said_hello) {
        buf_printf(&error, ", starting: %s", c->starting);
    }
    if (c->tail + bytes > tail) {
        buf_put_text(&error, c->tail_bytes == CHILD_TAIL_BYTES ? ": ... " : ": ");
        buf_put(&error, tail, (size_t)(c->tail + bytes - tail));
    }
    char *clean = line_clean_text(buf_text(&error), error.len);
    buf_clear(&error);
    return clean;
}

/* What it printed as a reply; NULL when it printed nothing. False: no memory. */
static bool exec_result(const struct child *c, char **ret)
{
    static const char cut[] = " [cut: the output is longer than 256 KiB]";
    struct buf text, json;
    struct scanned result;
    size_t bytes = c->output.len;
    while (bytes > 0 && (c->output.data[bytes - 1] == '\n' || c->output.data[bytes - 1] == '\r')) {
        bytes--;
    }
    *ret = NULL;
    if (bytes == 0) {
        return true;
    }
    if (!c->output_cut && scan_value(c->output.data, bytes, &result) && !result.loose) {
        *ret = keep_result(&result);
        return *ret != NULL;
    }
    buf_init(&text, 2 * RESULT_BYTES_MAX);
    buf_init(&json, 8 * RESULT_BYTES_MAX);
    buf_put(&text, c->output.data, bytes);
    buf_put_text(&text, c->output_cut ? cut : "");
    buf_put_json(&json, buf_text(&text), text.len);
    if (!text.failed && !json.failed && scan_value(json.data, json.len, &result)) {
        *ret = keep_result(&result);
    }
    buf_clear(&text);
    buf_clear(&json);
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
    event->outcome = status == EXIT_DEAD     ? OUTCOME_DEAD
                     : status == EXIT_SNOOZE ? OUTCOME_SNOOZE
                                             : OUTCOME_FAILED;
    if (status == EXIT_SNOOZE) {
        event->delay_ms = SNOOZE_DELAY_MS;
    }
    event->error = line_child_error(c, text);
}
