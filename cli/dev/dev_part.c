/* A process of `tenon dev`, and the one log of all. */
#include "cli/dev/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME_COLUMNS = 8, FIELDS_LEFT_OUT = 4 /* ts, level, prog, pid */ };

static bool has_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no);
}

static void put_name(const struct part *p)
{
    if (has_colour()) {
        (void)printf("\033[%dm%-*s |\033[0m ", p->colour, NAME_COLUMNS, p->name);
    } else {
        (void)printf("%-*s | ", NAME_COLUMNS, p->name);
    }
}

static bool is_log_line(const char *line)
{
    return strncmp(line, "ts=", 3) == 0;
}

/* A log line without what is the same in all. */
static const char *event_of(const char *line)
{
    for (int i = 0; i < FIELDS_LEFT_OUT; i++) {
        line += strcspn(line, " ");
        line += *line == ' ';
    }
    return line;
}

/* The last value of a log line, without its quotes and escapes. */
static void put_text(const char *value)
{
    bool quoted = *value == '"';
    for (value += quoted; *value && !(quoted && *value == '"'); value++) {
        unsigned point = 0;
        bool is_escaped = value[0] == '\\' && value[1];
        value += is_escaped;
        if (is_escaped && *value == 't') {
            (void)putchar('\t');
        } else if (is_escaped && *value == 'u' && sscanf(value + 1, "%4x", &point) == 1) {
            (void)putchar((int)(point & 0x7F));
            value += 4;
        } else {
            (void)putchar(*value);
        }
    }
}

/* What a log line says, for eyes: an error on lines of its own. */
static void put_log_line(const struct part *p, const char *line)
{
    for (line = event_of(line); *line; line++) {
        bool is_escaped = line[0] == '\\' && line[1];
        line += is_escaped;
        if (is_escaped && *line == 'n') {
            (void)putchar('\n');
            put_name(p);
        } else if (is_escaped && *line == 't') {
            (void)putchar('\t');
        } else {
            (void)putchar(*line);
        }
    }
}

/* A line that a handler printed, in the worker's log: the task, if it is of one, and the text.
 * False: it is another line. */
static bool put_printed(const char *line)
{
    static const struct part handler = {.name = "handler", .colour = 33};
    static const char event[] = "event=handler_stderr ";
    line = event_of(line);
    const char *text = strstr(line, " text="), *task = strstr(line, " task=");
    if (strncmp(line, event, strlen(event)) != 0 || !text) {
        return false;
    }
    put_name(&handler);
    if (task && task < text) {
        task += strlen(" task=");
        (void)printf("%.*s: ", (int)strcspn(task, " "), task);
    }
    put_text(text + strlen(" text="));
    return true;
}

static void put_line(const struct part *p, const char *line)
{
    bool is_log = is_log_line(line);
    if (!is_log || !put_printed(line)) {
        put_name(p);
        if (is_log) {
            put_log_line(p, line);
        } else {
            (void)fputs(line, stdout);
        }
    }
    (void)putchar('\n');
    (void)fflush(stdout);
}

void part_say(const struct part *p, const char *format, ...)
{
    va_list args;
    put_name(p);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
}

static void take_lines(struct part *p, bool ended)
{
    char *end;
    while (p->line.len > 0) {
        end = memchr(p->line.data, '\n', p->line.len);
        if (!end && !ended && p->line.len < PART_LINE_BYTES_MAX / 2) {
            break;
        }
        size_t bytes = end ? (size_t)(end - p->line.data) : p->line.len;
        char *line = strndup(p->line.data, bytes);
        if (line && !p->is_quiet) {
            put_line(p, line);
        }
        if (line && p->heard) {
            p->heard(p->owner, line);
        }
        free(line);
        buf_drop(&p->line, end ? bytes + 1 : bytes);
    }
}

static void close_pipe(struct part *p)
{
    (void)close(p->fd);
    p->fd = -1;
    take_lines(p, true);
}

bool part_read(struct part *p)
{
    char data[4096];
    ssize_t n = p->fd >= 0 ? read(p->fd, data, sizeof data) : -1;
    if (n > 0) {
        buf_put(&p->line, data, (size_t)n);
        take_lines(p, false);
    } else if (p->fd >= 0 && (n == 0 || errno != EAGAIN)) {
        close_pipe(p);
    }
    return n > 0;
}

static void become(const char *const *argv, int out)
{
    sigset_t none;
    (void)setpgid(0, 0); /* Ctrl-C is ours: we end the parts in order */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    (void)dprintf(STDERR_FILENO, "could not be executed: %s\n", strerror(errno));
    _exit(127);
}

bool part_start(struct part *p, const char *const *argv, struct fault *f)
{
    int fds[2];
    buf_clear(&p->line);
    buf_init(&p->line, PART_LINE_BYTES_MAX);
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return fault_set(f, FAULT_RETRY, "could not make a pipe: %s", strerror(errno));
    }
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    p->pid = fork();
    if (p->pid == 0) {
        become(argv, fds[1]);
    }
    (void)close(fds[1]);
    p->fd = fds[0];
    return p->pid > 0 ||
           fault_set(f, FAULT_RETRY, "could not start %s: %s", p->name, strerror(errno));
}

void part_reap(struct part *p)
{
    int status;
    if (p->pid > 0 && waitpid(p->pid, &status, WNOHANG) == p->pid) {
        p->pid = 0;
        p->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        while (part_read(p)) { /* its last words; what it left running may hold the pipe */
        }
        if (p->fd >= 0) {
            close_pipe(p);
        }
    }
}

void part_signal(const struct part *p, int signal)
{
    if (p->pid > 0) {
        (void)kill(p->pid, signal);
    }
}
