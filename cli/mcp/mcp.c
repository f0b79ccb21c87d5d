/* The loop: lines of stdin, outputs of commands, and their time. */
#include "cli/mcp/mcp.h"

#include "cli/command.h"
#include "core/base/now.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 65536, FDS = 1 + 2 * MCP_CALLS_MAX };

struct input {
    struct buf line;
    bool skips; /* the rest of a line that was over the limit */
    bool ended;
};

/* --- stdin ---------------------------------------------------------------------------------- */

static void take_lines(struct mcp *m, struct input *in)
{
    char *end;
    while (in->line.len > 0 && (end = memchr(in->line.data, '\n', in->line.len))) {
        size_t bytes = (size_t)(end - in->line.data);
        if (in->skips) {
            in->skips = false;
        } else {
            mcp_take_line(m, in->line.data, bytes);
        }
        buf_drop(&in->line, bytes + 1);
    }
    if (in->line.len > MCP_LINE_BYTES_MAX) {
        if (!in->skips) {
            mcp_refuse_line();
        }
        in->skips = true;
        buf_empty(&in->line);
    }
}

static bool input_read(struct mcp *m, struct input *in, struct fault *f)
{
    char *at = buf_room(&in->line, PIECE_BYTES);
    if (!at) {
        return fault_memory(f);
    }
    ssize_t n = read(STDIN_FILENO, at, PIECE_BYTES);
    buf_added(&in->line, n > 0 ? (size_t)n : 0);
    in->ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    if (in->ended && in->line.len > 0 && !in->skips) { /* the last line may lack its end */
        buf_put_char(&in->line, '\n');
    }
    take_lines(m, in);
    return true;
}

/* --- calls ---------------------------------------------------------------------------------- */

static bool is_running(const struct mcp_call *c)
{
    return c->id != NULL;
}

/* -1 = nothing has a limit */
static int wait_ms(const struct mcp *m)
{
    int64_t now = now_ms(), least = -1;
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        int64_t left = m->calls[i].until_ms - now;
        if (is_running(&m->calls[i]) && (least < 0 || left < least)) {
            least = left > 0 ? left : 0;
        }
    }
    return (int)least;
}

static size_t calls_fds(const struct mcp *m, const struct input *in, struct pollfd fds[FDS])
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = in->ended ? -1 : STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        bool runs = is_running(&m->calls[i]);
        fds[n++] = (struct pollfd){.fd = runs ? m->calls[i].out : -1, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = runs ? m->calls[i].err : -1, .events = POLLIN};
    }
    return n;
}

static void calls_read(struct mcp *m)
{
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        struct mcp_call *c = &m->calls[i];
        if (is_running(c) && mcp_call_read(c)) {
            mcp_answer_call(c, true);
        } else if (is_running(c) && c->until_ms <= now_ms()) {
            mcp_answer_call(c, false);
        }
    }
}

static bool any_runs(const struct mcp *m)
{
    bool any = false;
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        any = any || is_running(&m->calls[i]);
    }
    return any;
}

/* The client has gone: answers to what it asked last are still of use to a script, soon. */
static void limit_rest(struct mcp *m)
{
    int64_t until_ms = now_ms() + MCP_END_LIMIT_MS;
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        m->calls[i].until_ms = until_ms;
    }
}

/* --- main ----------------------------------------------------------------------------------- */

static bool serve(struct mcp *m, struct input *in, struct fault *f)
{
    struct pollfd fds[FDS];
    while (!in->ended || any_runs(m)) {
        size_t n = calls_fds(m, in, fds);
        if (poll(fds, n, wait_ms(m)) < 0 && errno != EINTR) {
            return fault_set(f, FAULT_RETRY, "could not wait for input: %s", strerror(errno));
        }
        if (fds[0].revents && !input_read(m, in, f)) {
            return false;
        }
        if (fds[0].revents && in->ended) {
            limit_rest(m);
        }
        calls_read(m);
    }
    return true;
}

bool mcp_run(const struct options *o, struct fault *f)
{
    struct mcp m = {.options = o, .acts = option_flag(o, OPTION_ALLOW_ACTS), .client = "unknown"};
    struct input in = {.ended = false};
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        m.calls[i] = (struct mcp_call){.out = -1, .err = -1};
    }
    (void)signal(SIGPIPE, SIG_IGN);
    buf_init(&in.line, MCP_LINE_BYTES_MAX + 2 * PIECE_BYTES);
    bool ok = serve(&m, &in, f);
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        if (is_running(&m.calls[i])) {
            (void)mcp_call_end(&m.calls[i], true);
            mcp_call_clear(&m.calls[i]);
        }
    }
    buf_clear(&in.line);
    return ok;
}
