#include "core/log.h"

#include "core/buf.h"
#include "core/now.h"

#include <string.h>
#include <unistd.h>

enum { LOG_TEXT_BYTES_MIN = 64 };

static struct {
    const char *prog;
    enum log_level level;
    enum log_format format;
} settings = {.prog = "tenon", .level = LOG_INFO, .format = LOG_FORMAT_LOGFMT};

static const char *const level_words[] = {
    [LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};

void log_setup(const char *prog, enum log_level level, enum log_format format)
{
    settings.prog = prog;
    settings.level = level;
    settings.format = format;
}

bool log_enabled(enum log_level level)
{
    return level <= settings.level;
}

static bool is_plain(const char *text)
{
    if (!*text) {
        return false;
    }
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c == '"' || *c == '=' || *c == '\\' || *c == 0x7F) {
            return false;
        }
    }
    return true;
}

/* One field; of a long text only the first `bytes_max` bytes. */
static void put_field(struct buf *line, const struct log_field *field, size_t bytes_max)
{
    bool json = settings.format == LOG_FORMAT_JSON;
    if (json) {
        buf_put_char(line, line->len == 0 ? '{' : ',');
        buf_put_json(line, field->key, strlen(field->key));
        buf_put_char(line, ':');
    } else {
        buf_printf(line, "%s%s=", line->len == 0 ? "" : " ", field->key);
    }
    if (field->is_number) {
        buf_put_int(line, field->number);
    } else if (!json && is_plain(field->text)) {
        buf_put(line, field->text, strnlen(field->text, bytes_max));
    } else {
        buf_put_json(line, field->text, strnlen(field->text, bytes_max));
    }
}

static void put_line(struct buf *line, const char *ts, enum log_level level,
                     const struct log_field *fields, size_t bytes_max)
{
    buf_empty(line);
    put_field(line, &LOG_TEXT("ts", ts), bytes_max);
    put_field(line, &LOG_TEXT("level", level_words[level]), bytes_max);
    put_field(line, &LOG_TEXT("prog", settings.prog), bytes_max);
    put_field(line, &LOG_NUM("pid", getpid()), bytes_max);
    for (const struct log_field *field = fields; field->key; field++) {
        if (field->is_number || field->text) {
            put_field(line, field, bytes_max);
        }
    }
    buf_put_text(line, settings.format == LOG_FORMAT_JSON ? "}\n" : "\n");
}

void log_fields(enum log_level level, const struct log_field *fields)
{
    if (!log_enabled(level)) {
        return;
    }
    char ts[NOW_TEXT_BYTES];
    now_text(ts);
    struct buf line;
    buf_init(&line, LOG_LINE_BYTES_MAX);
    /* what is too long for a line is cut, so that its other fields are not lost */
    for (size_t bytes_max = LOG_LINE_BYTES_MAX; bytes_max >= LOG_TEXT_BYTES_MIN; bytes_max /= 2) {
        put_line(&line, ts, level, fields, bytes_max);
        if (!line.failed) {
            break;
        }
    }
    /* a log that cannot be written must not stop the work */
    ssize_t written = line.failed ? 0 : write(STDERR_FILENO, line.data, line.len);
    (void)written;
    buf_clear(&line);
}

void log_fault(enum log_level level, const char *event, const struct fault *f)
{
    log_event(level, LOG_EVENT(event), LOG_TEXT("fault", fault_word(f->code)),
              LOG_TEXT("sqlstate", f->sqlstate[0] ? f->sqlstate : NULL),
              LOG_TEXT("error", f->text));
}
