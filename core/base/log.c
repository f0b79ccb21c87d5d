#include "core/base/log.h"

#include "core/base/buf.h"
#include "core/base/now.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOG_TEXT_BYTES_MIN = 64 };

static atomic_llong dropped; /* lines, since one could be written */
static atomic_bool cut;      /* the last line has no end */

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

/* O_NONBLOCK belongs to all who share a stderr, so a pipe or terminal is opened once more. Where
 * that is not allowed (another user's pipe), a line longer than PIPE_BUF, or somebody else's in the
 * same moment, may block. */
static ssize_t write_pipe(const char *data, size_t len)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return poll(&room, 1, 0) == 1 ? write(STDERR_FILENO, data, len) : -1;
    }
    ssize_t n = write(fd, data, len);
    (void)close(fd);
    return n;
}

/* What cannot be written at once is dropped: a log that nobody reads must not stop the work. */
static bool write_now(const char *data, size_t len)
{
    struct stat st;
    mode_t mode = fstat(STDERR_FILENO, &st) == 0 ? st.st_mode : 0;
    ssize_t n = S_ISSOCK(mode) ? send(STDERR_FILENO, data, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                : S_ISFIFO(mode) || S_ISCHR(mode) ? write_pipe(data, len)
                                                  : write(STDERR_FILENO, data, len);
    if (n > 0) {
        atomic_store(&cut, (size_t)n < len);
    }
    return n == (ssize_t)len;
}

/* What is too long for a line is cut, so that its other fields are not lost. */
static void make_line(struct buf *line, enum log_level level, const struct log_field *fields)
{
    char ts[NOW_TEXT_BYTES];
    now_text(ts);
    for (size_t bytes_max = LOG_LINE_BYTES_MAX; bytes_max >= LOG_TEXT_BYTES_MIN; bytes_max /= 2) {
        put_line(line, ts, level, fields, bytes_max);
        if (!line->failed) {
            break;
        }
    }
}

/* The first line after dropped ones says how many were dropped. */
static bool tell_dropped(struct buf *line)
{
    long long n = atomic_load(&dropped);
    if (atomic_load(&cut) && !write_now("\n", 1)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    const struct log_field fields[] = {LOG_EVENT("log_lines_dropped"),
                                       LOG_NUM("count", n),
                                       {.key = NULL}};
    make_line(line, LOG_WARNING, fields);
    if (line->failed || !write_now(line->data, line->len)) {
        return false;
    }
    (void)atomic_fetch_sub(&dropped, n);
    return true;
}

void log_fields(enum log_level level, const struct log_field *fields)
{
    if (!log_enabled(level)) {
        return;
    }
    struct buf line;
    buf_init(&line, LOG_LINE_BYTES_MAX);
    bool ok = tell_dropped(&line);
    if (ok) {
        make_line(&line, level, fields);
        ok = !line.failed && write_now(line.data, line.len);
    }
    if (!ok) {
        (void)atomic_fetch_add(&dropped, 1);
    }
    buf_clear(&line);
}

void log_fault(enum log_level level, const char *event, const struct fault *f)
{
    log_event(level, LOG_EVENT(event), LOG_TEXT("fault", fault_word(f->code)),
              LOG_TEXT("sqlstate", f->sqlstate[0] ? f->sqlstate : NULL),
              LOG_TEXT("error", f->text));
}
