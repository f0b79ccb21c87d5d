/* One line per event on stderr, logfmt or JSON. Only programs log, libraries return faults.
 *
 *   log_event(LOG_INFO, LOG_EVENT("task_done"), LOG_NUM("task", id), LOG_TEXT("kind", kind));
 *   ts=2026-01-31T12:34:56.789Z level=info prog=worker pid=17 event=task_done task=5 kind=mail
 *
 * Text is escaped so that a line stays a line; a NULL text is left out. The event names are
 * listed in docs/log-events.md. Threads may log at once: a line is one write(2). It never waits: a
 * line that a full pipe, socket or terminal does not take is dropped, and counted in the next. */
#ifndef TENON_CORE_LOG_H
#define TENON_CORE_LOG_H

#include "core/base/fault.h"

#include <stdint.h>

/* in the order of the choices of --log-level and --log-format */
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };
enum { LOG_LINE_BYTES_MAX = 8192 };

struct log_field {
    const char *key;
    const char *text;
    int64_t number;
    bool is_number;
};

#define LOG_EVENT(name) ((struct log_field){.key = "event", .text = (name)})
#define LOG_TEXT(name, value) ((struct log_field){.key = (name), .text = (value)})
#define LOG_NUM(name, value)                                                                       \
    ((struct log_field){.key = (name), .number = (int64_t)(value), .is_number = true})

#define log_event(level, ...)                                                                      \
    log_fields((level), (const struct log_field[]){__VA_ARGS__, {.key = NULL}})

void log_fields(enum log_level level, const struct log_field *fields);

/* A fault as a line: its code, its text, and what was being done. */
void log_fault(enum log_level level, const char *event, const struct fault *f);

/* Set once at the start of a program. `prog` is borrowed for ever. */
void log_setup(const char *prog, enum log_level level, enum log_format format);
bool log_enabled(enum log_level level);

#endif
