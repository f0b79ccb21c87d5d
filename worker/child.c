#include "worker/child.h"

#include "core/base/point.h"
#include "worker/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 65536 };

struct pipes {
    int in[2], out[2], err[2], failed[2];
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void close_pipes(struct pipes *p)
{
    int *ends[] = {p->in, p->out, p->err, p->failed};
    for (size_t i = 0; i < 4; i++) {
        close_fd(&ends[i][0]);
        close_fd(&ends[i][1]);
    }
}

/* A payload as a file in memory. Through a pipe, a child whose worker dies could take the end of
 * what was written for the end of the payload, and run half of it before it is killed itself. */
static bool open_payload(int *fd, const char *payload, size_t bytes)
{
    *fd = memfd_create("payload", MFD_CLOEXEC);
    for (size_t at = 0; *fd >= 0 && at < bytes;) {
        ssize_t n = write(*fd, payload + at, bytes - at);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return *fd >= 0 && lseek(*fd, 0, SEEK_SET) == 0;
}

static bool open_pipes(struct pipes *p, const struct handler *h, const char *payload,
                       size_t payload_bytes)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    bool in = payload ? open_payload(&p->in[0], payload, payload_bytes)
                      : pipe2(p->in, O_CLOEXEC) == 0;
    bool err = h->own_stderr ? (p->err[1] = fcntl(2, F_DUPFD_CLOEXEC, 3)) >= 0
                             : pipe2(p->err, O_CLOEXEC) == 0;
    if (in && err && pipe2(p->out, O_CLOEXEC) == 0 && pipe2(p->failed, O_CLOEXEC) == 0) {
        return true;
    }
    int error = errno;
    close_pipes(p);
    errno = error;
    return false;
}

static void say_failed(int fd)
{
    int error = errno;
    ssize_t n = write(fd, &error, sizeof error);
    (void)n;
    _exit(127);
}

static struct rlimit given_limit; /* of descriptors, as this process got it; 0 = left alone */

bool child_descriptors(int n, struct fault *f)
{
    struct rlimit limit;
    rlim_t needed = CHILD_DESCRIPTORS_OWN + CHILD_DESCRIPTORS * (rlim_t)n;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
        return true;
    }
    if (limit.rlim_max < needed) {
        return fault_set(f, FAULT_CONFIG,
                         "--slots %d needs %llu file descriptors, and this process may open %llu: "
                         "raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) or use fewer "
                         "slots",
                         n, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    }
    given_limit = limit;
    limit.rlim_cur = needed;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ||
           fault_set(f, FAULT_CONFIG, "could not raise the limit of file descriptors to %llu: %s",
                     (unsigned long long)needed, strerror(errno));
}

/* In the child, between fork and exec: async-signal-safe calls only. */
static void become(const struct handler *h, char *const *env, const struct pipes *p, pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the worker died before the line above took effect */
    }
    guard_watch(getpid()); /* before it can start anything that may outlive it */
    for (int sig = 1; sig < NSIG; sig++) {
        (void)signal(sig, SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(p->in[0], 0) < 0 || dup2(p->out[1], 1) < 0 || dup2(p->err[1], 2) < 0) {
        say_failed(p->failed[1]);
    }
    (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    if (given_limit.rlim_cur > 0) {
        (void)setrlimit(RLIMIT_NOFILE, &given_limit);
    }
    if ((h->directory && chdir(h->directory) != 0) || !isolation_apply(&h->isolation)) {
        say_failed(p->failed[1]);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user has lost it */
    if (getppid() != parent) {
        _exit(127);
    }
    (void)execvpe(h->argv[0], h->argv, env);
    say_failed(p->failed[1]);
}

static void keep_ends(struct child *c, struct pipes *p)
{
    c->in = p->in[1];
    c->out = p->out[0];
    c->err = p->err[0];
    c->failed = p->failed[0];
    p->in[1] = p->out[0] = p->err[0] = p->failed[0] = -1;
    (void)fcntl(c->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->err, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->failed, F_SETFL, O_NONBLOCK);
}

bool child_start(struct child *c, const struct handler *h, char *const *env, const char *payload,
                 size_t payload_bytes, size_t output_max, struct fault *f)
{
    struct pipes p;
    *c = (struct child){.handler = h, .pidfd = -1, .in = -1, .out = -1, .err = -1, .failed = -1};
    buf_init(&c->input, CHILD_INPUT_BYTES_MAX);
    buf_init(&c->output, output_max);
    buf_init(&c->printed,
             2 * READ_BYTES + CHILD_PRINTED_BYTES_MAX); /* children_give() reads, too */
    if (!open_pipes(&p, h, payload, payload_bytes)) {
        return fault_set(f, FAULT_RETRY, "could not make pipes for %s: %s", h->argv[0],
                         strerror(errno));
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become(h, env, &p, parent);
    }
    if (pid < 0) {
        (void)fault_set(f, FAULT_RETRY, "could not fork for %s: %s", h->argv[0], strerror(errno));
        close_pipes(&p);
        return false;
    }
    if (payload) {
        POINT(child_spawned);
    }
    (void)setpgid(pid, pid); /* both sides do it, so that it is done in any order */
    c->pid = pid;
    c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    keep_ends(c, &p);
    close_pipes(&p);
    if (c->pidfd < 0) {
        (void)fault_set(f, FAULT_RETRY, "could not watch process %d: %s", (int)pid,
                        strerror(errno));
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        c->pid = 0;
        child_clear(c);
        return false;
    }
    return true;
}

size_t child_unwritten(const struct child *c)
{
    return c->input.len - c->input_sent;
}

/* What was sent is dropped half by half, because each drop moves the rest: input may be large, and
 * a pipe takes little at once. */
static void input_sent(struct child *c, size_t n)
{
    c->input_sent += n;
    if (c->input_sent >= child_unwritten(c)) {
        buf_drop(&c->input, c->input_sent);
        c->input_sent = 0;
    }
}

void child_write(struct child *c)
{
    while (c->in >= 0 && child_unwritten(c) > 0) {
        ssize_t n = write(c->in, c->input.data + c->input_sent, child_unwritten(c));
        if (n > 0) {
            input_sent(c, (size_t)n);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            close_fd(&c->in); /* it does not want to read; its end will tell why */
            buf_clear(&c->input);
            c->input_sent = 0;
        }
    }
    if (c->close_input && child_unwritten(c) == 0) {
        close_fd(&c->in);
    }
}

void child_read_output(struct child *c)
{
    char spill[READ_BYTES];
    size_t left = c->output.bytes_max - c->output.len;
    size_t want = left < READ_BYTES ? left : READ_BYTES;
    char *room = want > 0 ? buf_room(&c->output, want) : NULL;
    ssize_t n = read(c->out, room ? room : spill, room ? want : sizeof spill);
    if (n > 0 && room) {
        buf_added(&c->output, (size_t)n);
    } else if (n > 0) {
        c->output_cut = true;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_fd(&c->out);
    }
}

static void keep_tail(struct child *c, const char *data, size_t n)
{
    if (n >= CHILD_TAIL_BYTES) {
        memcpy(c->tail, data + n - CHILD_TAIL_BYTES, CHILD_TAIL_BYTES);
        c->tail_bytes = CHILD_TAIL_BYTES;
    } else {
        size_t keep = c->tail_bytes + n > CHILD_TAIL_BYTES ? CHILD_TAIL_BYTES - n : c->tail_bytes;
        memmove(c->tail, c->tail + c->tail_bytes - keep, keep);
        memcpy(c->tail + keep, data, n);
        c->tail_bytes = keep + n;
    }
    c->tail[c->tail_bytes] = '\0';
}

void child_read_error(struct child *c)
{
    char data[READ_BYTES];
    if (c->err < 0) {
        return;
    }
    ssize_t n = read(c->err, data, sizeof data);
    if (n > 0) {
        keep_tail(c, data, (size_t)n);
        c->err_bytes += n;
        if (c->handler->log_stderr) {
            buf_put(&c->printed, data, (size_t)n);
        }
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_fd(&c->err);
    }
}

int64_t child_rss_mib(const struct child *c)
{
    char path[64];
    long long pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)c->pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%*d %lld", &pages) != 1) {
        pages = 0;
    }
    if (file) {
        (void)fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

void child_signal(struct child *c, int signal)
{
    if (c->pid > 0) {
        c->stopped = true;
        (void)kill(-c->pid, signal);
        if (getpgid(c->pid) != c->pid) { /* it has left the group that we gave it */
            (void)kill(c->pid, signal);
        }
    }
}

/* A process that it left behind may hold the pipes open: take what is there, do not wait for
 * more. */
static void drain_pipes(struct child *c)
{
    for (int i = 0; i < 64 && c->out >= 0; i++) {
        size_t before = c->output.len;
        child_read_output(c);
        if (c->output.len == before && !c->output_cut) {
            break;
        }
    }
    for (size_t before = 0; c->err >= 0;) {
        child_read_error(c);
        if (c->tail_bytes == before || c->tail_bytes == CHILD_TAIL_BYTES) {
            break;
        }
        before = c->tail_bytes;
    }
}

int child_reap(struct child *c, char *text, size_t size)
{
    siginfo_t info = {0};
    int error = 0;
    drain_pipes(c);
    if (c->stopped) {
        child_signal(c, SIGKILL); /* before the wait: until then nobody else can have its number */
    }
    guard_forget(c->pid);
    (void)waitid(P_PID, (id_t)c->pid, &info, WEXITED);
    c->pid = 0;
    if (read(c->failed, &error, sizeof error) == (ssize_t)sizeof error) {
        (void)snprintf(text, size, "could not be started: %s", strerror(error));
        return -2;
    }
    if (info.si_code == CLD_EXITED) {
        (void)snprintf(text, size, "exit status %d", info.si_status);
        return info.si_status;
    }
    (void)snprintf(text, size, "killed by signal %d (%s)", info.si_status,
                   strsignal(info.si_status));
    return -1;
}

void child_clear(struct child *c)
{
    close_fd(&c->pidfd);
    close_fd(&c->in);
    close_fd(&c->out);
    close_fd(&c->err);
    close_fd(&c->failed);
    buf_clear(&c->input);
    buf_clear(&c->output);
    buf_clear(&c->printed);
    c->handler = NULL;
}
