#include "tests/support/proxy.h"

#include "core/base/now.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 64, BUFFER_BYTES = 65536, TICK_MS = 5, LIMIT_MS = 5000, WAYS = 2 };
enum { TEXT_BYTES = 32 };

/* What the test writes and the proxy reads, and the other way round; shared memory. */
struct proxy_rules {
    atomic_int door;
    atomic_bool stalled[WAYS];
    atomic_int bytes_per_s[WAYS];
    atomic_int cut_way;
    atomic_int_fast64_t cut_bytes;
    atomic_bool cut_hangs;
    atomic_int cuts_left;
    atomic_int break_how, breaks_wanted, breaks_done;
    struct {
        atomic_bool on; /* the rest stands since before */
        size_t skip;
        char mark[TEXT_BYTES], text[TEXT_BYTES];
    } overwrites[WAYS];

    atomic_int accepted, cut;
    atomic_int_fast64_t bytes[WAYS];
};

/* One direction: what came and has not gone yet. */
struct flow {
    char data[BUFFER_BYTES];
    size_t len;
    int64_t passed;
    int64_t limit; /* -1 = none */
    bool eof;
};

struct connection {
    int fd[WAYS]; /* fd[way] is where that way's bytes go: the server's socket, the client's */
    bool deaf;    /* nothing passes any more: it hangs, or only the client's socket is left */
    bool hangs;   /* at its limit, instead of being closed */
    struct flow flow[WAYS];
};

struct server {
    struct proxy_rules *rules;
    struct sockaddr_in address, upstream;
    int listener;
    int door;
    int64_t last_ms;
    int64_t allowance[WAYS];
    struct connection *connections[CONNECTIONS];
};

/* --- the proxy's process: no cmocka here --- */

static int listen_at(struct sockaddr_in *address)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof *address;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)address, len) != 0 || listen(fd, CONNECTIONS) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
}

static void end(struct server *s, size_t i, enum proxy_break how)
{
    struct connection *c = s->connections[i];
    for (int way = 0; way < WAYS; way++) {
        if (c->fd[way] >= 0 && how == PROXY_RESET) {
            reset(c->fd[way]);
        } else if (c->fd[way] >= 0) {
            (void)close(c->fd[way]);
        }
    }
    free(c);
    s->connections[i] = NULL;
}

static void half_open(struct connection *c)
{
    if (c->fd[PROXY_TO_SERVER] >= 0) {
        (void)close(c->fd[PROXY_TO_SERVER]);
        c->fd[PROXY_TO_SERVER] = -1;
    }
    c->deaf = true;
}

static void limit(const struct server *s, struct connection *c)
{
    struct flow *f = &c->flow[s->rules->cut_way];
    f->limit = f->passed + s->rules->cut_bytes;
    c->hangs = false;
}

/* Blocking: the server is on this machine. */
static int connect_upstream(const struct server *s)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&s->upstream, sizeof s->upstream) != 0) {
        (void)close(fd);
        return -1;
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void set_limits(struct server *s, struct connection *c)
{
    c->flow[0].limit = c->flow[1].limit = -1;
    if (s->rules->cuts_left > 0) {
        s->rules->cuts_left--;
        c->flow[s->rules->cut_way].limit = s->rules->cut_bytes;
        c->hangs = s->rules->cut_hangs;
    }
}

static void add(struct server *s, int client)
{
    size_t i = 0;
    int one = 1, upstream = s->door == PROXY_SERVES ? connect_upstream(s) : -1;
    while (i < CONNECTIONS && s->connections[i]) {
        i++;
    }
    s->rules->accepted++;
    if (i == CONNECTIONS || s->door == PROXY_RESETS || (s->door == PROXY_SERVES && upstream < 0)) {
        reset(client);
        return;
    }
    struct connection *c = calloc(1, sizeof *c);
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd[PROXY_TO_SERVER] = upstream;
    c->fd[PROXY_TO_CLIENT] = client;
    c->deaf = upstream < 0;
    set_limits(s, c);
    s->connections[i] = c;
}

static void accept_all(struct server *s)
{
    int client;
    while ((client = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        add(s, client);
    }
}

/* In what has come and not gone yet. */
static void overwrite(const struct server *s, struct flow *f, int way)
{
    const char *mark = s->rules->overwrites[way].mark, *text = s->rules->overwrites[way].text;
    char *at = memmem(f->data, f->len, mark, strlen(mark));
    size_t skip = strlen(mark) + s->rules->overwrites[way].skip;
    if (at && (size_t)(f->data + f->len - at) >= skip + strlen(text)) {
        memcpy(at + skip, text, strlen(text));
    }
}

/* False: this way has ended, by an error or by its limit. */
static bool take(const struct server *s, struct connection *c, int way)
{
    struct flow *f = &c->flow[way];
    size_t room = BUFFER_BYTES - f->len;
    ssize_t n = room > 0 ? read(c->fd[!way], f->data + f->len, room) : -1;
    if (n == 0) {
        f->eof = true;
    }
    f->len += n > 0 ? (size_t)n : 0;
    if (s->rules->overwrites[way].on) {
        overwrite(s, f, way);
    }
    return n > 0 || f->eof || room == 0 || errno == EAGAIN;
}

static bool give(struct server *s, struct connection *c, int way)
{
    struct flow *f = &c->flow[way];
    size_t n = f->len;
    if (f->limit >= 0 && f->passed + (int64_t)n > f->limit) {
        n = (size_t)(f->limit - f->passed);
    }
    if (s->rules->bytes_per_s[way] > 0 && (int64_t)n > s->allowance[way]) {
        n = (size_t)s->allowance[way];
    }
    ssize_t sent = n > 0 ? send(c->fd[way], f->data, n, MSG_NOSIGNAL) : 0;
    if (sent < 0) {
        return errno == EAGAIN;
    }
    f->passed += sent;
    s->allowance[way] -= sent;
    s->rules->bytes[way] += sent;
    f->len -= (size_t)sent;
    memmove(f->data, f->data + sent, f->len);
    if (f->limit >= 0 && f->passed >= f->limit) {
        s->rules->cut++;
        c->deaf = c->hangs;
        return c->deaf;
    }
    return !(f->eof && f->len == 0);
}

static bool pass(struct server *s, struct connection *c)
{
    for (int way = 0; !c->deaf && way < WAYS; way++) {
        if (!s->rules->stalled[way] && (!take(s, c, way) || !give(s, c, way))) {
            return false;
        }
    }
    return true;
}

static void obey(struct server *s)
{
    int64_t now = now_ms();
    s->door = s->rules->door;
    for (int way = 0; way < WAYS; way++) {
        int rate = s->rules->bytes_per_s[way];
        int64_t most = rate / 10 + 1, more = rate * (now - s->last_ms) / 1000;
        s->allowance[way] = s->allowance[way] < 0 ? 0 : s->allowance[way] + more;
        s->allowance[way] = s->allowance[way] > most ? most : s->allowance[way];
    }
    s->last_ms = now;
    int wanted = s->rules->breaks_wanted;
    enum proxy_break how = (enum proxy_break)s->rules->break_how;
    for (size_t i = 0; wanted != s->rules->breaks_done && i < CONNECTIONS; i++) {
        if (s->connections[i] && how == PROXY_HALF_OPEN) {
            half_open(s->connections[i]);
        } else if (s->connections[i] && how == PROXY_LIMIT) {
            limit(s, s->connections[i]);
        } else if (s->connections[i]) {
            end(s, i, how);
        }
    }
    s->rules->breaks_done = wanted;
}

/* Sockets to wait for: only those that we would read now. */
static nfds_t wait_list(const struct server *s, struct pollfd *fds)
{
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    for (size_t i = 0; i < CONNECTIONS; i++) {
        const struct connection *c = s->connections[i];
        for (int way = 0; c && !c->deaf && way < WAYS; way++) {
            bool reads = !s->rules->stalled[way] && c->flow[way].len == 0;
            fds[n++] = (struct pollfd){.fd = reads ? c->fd[!way] : -1, .events = POLLIN};
        }
    }
    return n;
}

static _Noreturn void proxy_main(struct server *s)
{
    struct pollfd fds[1 + WAYS * CONNECTIONS];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        (void)poll(fds, wait_list(s, fds), TICK_MS);
        obey(s);
        accept_all(s);
        for (size_t i = 0; i < CONNECTIONS; i++) {
            struct connection *c = s->connections[i];
            if (c && !c->deaf && !pass(s, c)) {
                end(s, i, PROXY_CLOSE);
            }
        }
    }
}

/* --- the test's side --- */

/* "scheme://user:word@host:port/rest": where the host begins, and what follows the port. */
static void split(const char *url, const char **host, const char **rest, int *port)
{
    const char *at = strrchr(url, '@');
    const char *colon = at ? strchr(at, ':') : NULL;
    if (!colon) {
        fail_msg("a URL with user, host and port is wanted");
        return;
    }
    char *after;
    *port = (int)strtol(colon + 1, &after, 10);
    *host = at + 1;
    *rest = after;
}

void proxy_open(struct proxy *p, const char *url)
{
    const char *host = url, *rest = "";
    int port = 0;
    struct server s = {
        .address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    split(url, &host, &rest, &port);
    s.upstream = s.address;
    s.upstream.sin_port = htons((uint16_t)port);
    s.listener = listen_at(&s.address);
    s.rules = p->rules = mmap(NULL, sizeof *p->rules, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s.listener >= 0 && p->rules != MAP_FAILED);
    (void)snprintf(p->url, sizeof p->url, "%.*s127.0.0.1:%d%s", (int)(host - url), url,
                   ntohs(s.address.sin_port), rest);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        proxy_main(&s);
    }
    (void)close(s.listener);
}

void proxy_close(struct proxy *p)
{
    (void)kill(p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, 0);
    (void)munmap(p->rules, sizeof *p->rules);
}

void proxy_door(struct proxy *p, enum proxy_door door)
{
    p->rules->door = (int)door;
}

static void limit_next(struct proxy *p, enum proxy_way way, int64_t bytes, int n, bool hangs)
{
    p->rules->cuts_left = 0;
    p->rules->cut_way = (int)way;
    p->rules->cut_bytes = bytes;
    p->rules->cut_hangs = hangs;
    p->rules->cuts_left = n;
}

void proxy_cut_next(struct proxy *p, enum proxy_way way, int64_t bytes, int n)
{
    limit_next(p, way, bytes, n, false);
}

void proxy_hang_next(struct proxy *p, enum proxy_way way, int64_t bytes, int n)
{
    limit_next(p, way, bytes, n, true);
}

void proxy_cut_after(struct proxy *p, enum proxy_way way, int64_t bytes)
{
    p->rules->cuts_left = 0;
    p->rules->cut_way = (int)way;
    p->rules->cut_bytes = bytes;
    proxy_break(p, PROXY_LIMIT);
}

void proxy_stall(struct proxy *p, enum proxy_way way, bool stalled)
{
    p->rules->stalled[way] = stalled;
}

void proxy_throttle(struct proxy *p, enum proxy_way way, int bytes_per_s)
{
    p->rules->bytes_per_s[way] = bytes_per_s;
}

void proxy_overwrite(struct proxy *p, enum proxy_way way, const char *mark, size_t skip,
                     const char *text)
{
    assert_false(p->rules->overwrites[way].on);
    assert_true(strlen(mark) < TEXT_BYTES && strlen(text) < TEXT_BYTES);
    p->rules->overwrites[way].skip = skip;
    (void)snprintf(p->rules->overwrites[way].mark, TEXT_BYTES, "%s", mark);
    (void)snprintf(p->rules->overwrites[way].text, TEXT_BYTES, "%s", text);
    p->rules->overwrites[way].on = true;
}

void proxy_break(struct proxy *p, enum proxy_break how)
{
    int64_t deadline_ms = patience_end_ms(LIMIT_MS);
    p->rules->break_how = (int)how;
    int wanted = ++p->rules->breaks_wanted;
    while (p->rules->breaks_done != wanted) {
        if (now_ms() > deadline_ms) {
            fail_msg("the proxy does not answer");
        }
        (void)poll(NULL, 0, 1);
    }
}

int proxy_accepted(const struct proxy *p)
{
    return p->rules->accepted;
}

int proxy_cut(const struct proxy *p)
{
    return p->rules->cut;
}

int64_t proxy_bytes(const struct proxy *p, enum proxy_way way)
{
    return p->rules->bytes[way];
}
