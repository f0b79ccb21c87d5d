/* A command that runs as a process of its own: its output, its end. */
#include "cli/mcp/mcp.h"

#include "core/base/now.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE_BYTES = 16384, EXIT_KILLED = 128 };

/* The secrets are in the environment, as ps(1) shows command lines. */
static void set_environment(const struct options *o, const char *user)
{
    char options[256];
    const char *config = option_text(o, OPTION_CONFIG), *before = getenv("PGOPTIONS");
    (void)setenv("TENON_DATABASE_URL", option_text(o, OPTION_DATABASE_URL), 1);
    if (config) {
        (void)setenv("TENON_CONFIG", config, 1);
    }
    int n = snprintf(options, sizeof options, "%s%s-c tenon.web_user=%s", before ? before : "",
                     before ? " " : "", user);
    if (n > 0 && (size_t)n < sizeof options) {
        (void)setenv("PGOPTIONS", options, 1);
    }
}

static void become(const struct options *o, const struct mcp_command *command, const char *user,
                   int out, int err, pid_t parent)
{
    sigset_t none;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(EXIT_KILLED);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    set_environment(o, user);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    (void)execv("/proc/self/exe", (char *const *)(uintptr_t)command->words);
    (void)dprintf(STDERR_FILENO, "could not be executed: %s\n", strerror(errno));
    _exit(127);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

bool mcp_call_start(struct mcp_call *c, const struct options *o, const struct mcp_command *command,
                    const char *user, struct fault *f)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t parent = getpid();
    c->pid = -1;
    if (pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0) {
        c->pid = fork();
    }
    if (c->pid == 0) {
        become(o, command, user, out[1], err[1], parent);
    }
    bool ok = c->pid > 0 ||
              fault_set(f, FAULT_RETRY, "could not start the command: %s", strerror(errno));
    close_fd(&out[1]);
    close_fd(&err[1]);
    if (!ok) {
        close_fd(&out[0]);
        close_fd(&err[0]);
        return false;
    }
    c->out = out[0];
    c->err = err[0];
    (void)fcntl(c->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->err, F_SETFL, O_NONBLOCK);
    buf_init(&c->text, MCP_OUTPUT_BYTES_MAX);
    buf_init(&c->errors, MCP_ERROR_BYTES_MAX);
    c->until_ms = now_ms() + MCP_CALL_LIMIT_MS;
    return true;
}

static void read_one(int *fd, struct buf *b)
{
    char piece[PIECE_BYTES];
    ssize_t n = 1;
    while (*fd >= 0 && n > 0) {
        n = read(*fd, piece, sizeof piece);
        if (n > 0 && !b->failed) { /* what is over the limit is read, and not kept */
            buf_put(b, piece, (size_t)n);
        } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close_fd(fd);
        }
    }
}

bool mcp_call_read(struct mcp_call *c)
{
    read_one(&c->out, &c->text);
    read_one(&c->err, &c->errors);
    return c->out < 0 && c->err < 0;
}

int mcp_call_end(struct mcp_call *c, bool kills)
{
    int status = 0;
    if (kills) {
        (void)kill(c->pid, SIGKILL);
    }
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_KILLED + WTERMSIG(status);
}

void mcp_call_clear(struct mcp_call *c)
{
    close_fd(&c->out);
    close_fd(&c->err);
    buf_clear(&c->text);
    buf_clear(&c->errors);
    json_decref(c->id);
    *c = (struct mcp_call){.out = -1, .err = -1};
}
