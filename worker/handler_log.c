#include "worker/handler_log.h"

#include "core/base/log.h"
#include "core/base/text.h"
#include "worker/line.h"
#include "worker/round_thread.h"

#include <stdlib.h>
#include <string.h>

static enum log_level level_of(const struct scanned *word)
{
    static const struct {
        const char *word;
        enum log_level level;
    } words[] = {{"error", LOG_ERROR}, {"warning", LOG_WARNING}, {"debug", LOG_DEBUG}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (scanned_is(word, words[i].word)) {
            return words[i].level;
        }
    }
    return LOG_INFO;
}

/* The characters of a text, else the value as it was written. NULL: no memory. */
static char *message_of(const struct scanned *value)
{
    char message[LOG_MESSAGE_BYTES_MAX + 1];
    struct buf b;
    buf_init(&b, 3 * value->bytes + 1);
    if (scanned_is_text(value)) {
        scanned_put(value, &b);
    } else if (value->text) {
        buf_put(&b, value->text, value->bytes);
    }
    text_shorten(message, sizeof message, buf_text(&b));
    bool ok = !b.failed;
    buf_clear(&b);
    return ok ? line_clean_text(message, strlen(message)) : NULL;
}

static bool is_kept(const struct scanned *fields)
{
    return fields->text && *fields->text == '{' && !fields->loose &&
           fields->bytes <= LOG_FIELDS_BYTES_MAX;
}

bool handler_log_read(const struct scanned *log, struct event *event)
{
    enum { LEVEL, MESSAGE, FIELDS, N };
    struct scan_member m[N] = {
        [LEVEL] = {.key = "level"}, [MESSAGE] = {.key = "message"}, [FIELDS] = {.key = "fields"}};
    bool whole = log->text && scan_object(log->text, log->bytes, m, N) && m[MESSAGE].times > 0;
    const struct scanned *fields = &m[FIELDS].value;
    event->type = EVENT_LOG;
    event->log_level = (int)level_of(&m[LEVEL].value);
    event->message = message_of(whole ? &m[MESSAGE].value : log);
    event->fields = whole && is_kept(fields) ? strndup(fields->text, fields->bytes) : NULL;
    return event->message && (!whole || !is_kept(fields) || event->fields);
}

/* Only what is written is counted. */
static bool has_room(struct claim *task, const struct event *event)
{
    task->log_lines++;
    task->log_bytes += strlen(event->message) + (event->fields ? strlen(event->fields) : 0);
    return task->log_lines <= LOG_LINES_MAX && task->log_bytes <= LOG_BYTES_MAX;
}

static void note(struct claim *task, const struct event *event, bool logged,
                 struct round_thread *rounds)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    static const char rest_left_out[] =
        "1,000 lines or 256 KiB; the rest of this attempt is left out";
    if (task->log_full || !log_enabled((enum log_level)event->log_level)) {
        return;
    }
    struct log_line line = {.task = task->id, .attempt = task->attempt};
    if (!has_room(task, event)) {
        task->log_full = true;
        log_event(LOG_WARNING, LOG_EVENT("handler_log_full"), LOG_NUM("task", task->id),
                  LOG_TEXT("kind", task->kind), LOG_NUM("attempt", task->attempt),
                  LOG_TEXT("text", rest_left_out));
        line.level = levels[LOG_WARNING];
        line.message = rest_left_out;
    } else {
        if (!logged) {
            log_event((enum log_level)event->log_level, LOG_EVENT("handler_log"),
                      LOG_NUM("task", task->id), LOG_TEXT("kind", task->kind),
                      LOG_NUM("attempt", task->attempt), LOG_TEXT("message", event->message),
                      LOG_TEXT("fields", event->fields));
        }
        line.level = levels[event->log_level];
        line.message = event->message;
        line.fields = event->fields;
    }
    round_thread_log(rounds, &line);
}

void handler_log_note(struct claim *task, const struct event *event, struct round_thread *rounds)
{
    note(task, event, false, rounds);
}

void handler_log_printed(struct claim *task, const struct buf *lines, bool logged,
                         struct round_thread *rounds)
{
    static char stream[] = "{\"stream\": \"stderr\"}";
    struct event event = {.log_level = LOG_INFO, .fields = stream};
    const char *end = lines->data + lines->len;
    for (const char *line = lines->data, *stop; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        event.message = stop > line ? line_clean_text(line, (size_t)(stop - line)) : NULL;
        if (event.message) {
            note(task, &event, logged, rounds);
        }
        free(event.message);
    }
}

void handler_log_line(const struct claim *task, const char *text)
{
    if (task) {
        log_event(LOG_INFO, LOG_EVENT("handler_stderr"), LOG_NUM("task", task->id),
                  LOG_TEXT("kind", task->kind), LOG_NUM("attempt", task->attempt),
                  LOG_TEXT("text", text));
    } else {
        log_event(LOG_INFO, LOG_EVENT("handler_stderr"), LOG_TEXT("text", text));
    }
}
