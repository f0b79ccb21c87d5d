#include "tests/support/web.h"

#include "core/base/buf.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READY_MS = 30000, ARGS_MAX = 16, ANSWER_BYTES_MAX = 8 << 20, PIECE_BYTES = 65536 };

const char web_posting[] = "X-Tenon: 1\r\nContent-Type: application/json\r\n";

void web_open(struct fixture *fx, struct web *w, const char *const *args, const char *const *env)
{
    const char *all[ARGS_MAX] = {"ui", "--listen", "127.0.0.1:0"};
    size_t n = 3;
    for (; *args && n < ARGS_MAX - 1; args++) {
        all[n++] = *args;
    }
    *w = (struct web){.process = tenon_spawn(fx, all, env)};
    process_await_line(w->process, "event=ui_ready", READY_MS);
    char *out = file_text(w->process->out);
    assert_true(sscanf(out, "http://%*[^:]:%d/#token=%63s", &w->port, w->token) >= 1);
    free(out);
}

void web_close(struct web *w)
{
    process_signal(w->process, SIGTERM);
    assert_int_equal(process_wait(w->process, READY_MS), 0);
}

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void read_to_end(int fd, struct buf *b)
{
    ssize_t n = 1;
    while (n > 0) {
        char *at = buf_room(b, PIECE_BYTES);
        assert_non_null(at);
        n = recv(fd, at, PIECE_BYTES, 0);
        buf_added(b, n > 0 ? (size_t)n : 0);
    }
}

void web_request(const struct web *w, const char *method, const char *path, const char *headers,
                 const char *body, struct web_answer *ret)
{
    struct buf b;
    char host[64] = "";
    if (!strstr(headers, "Host:")) {
        (void)snprintf(host, sizeof host, "Host: 127.0.0.1:%d\r\n", w->port);
    }
    buf_init(&b, ANSWER_BYTES_MAX);
    buf_printf(&b, "%s %s HTTP/1.1\r\n%s%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
               method, path, host, headers, strlen(body), body);
    int fd = connect_to(w->port);
    for (size_t sent = 0; sent < b.len;) {
        ssize_t n = send(fd, b.data + sent, b.len - sent, MSG_NOSIGNAL);
        if (n <= 0) {
            break; /* refused before all was sent: the answer is there */
        }
        sent += (size_t)n;
    }
    buf_empty(&b);
    read_to_end(fd, &b);
    (void)close(fd);
    const char *end = strstr(buf_text(&b), "\r\n\r\n");
    assert_non_null(end);
    assert_int_equal(sscanf(b.data, "HTTP/1.1 %d ", &ret->status), 1);
    ret->head = strndup(b.data, (size_t)(end - b.data));
    ret->body = strdup(end + 4);
    buf_clear(&b);
}

void web_clear(struct web_answer *a)
{
    free(a->head);
    free(a->body);
}

int web_status(const struct web *w, const char *method, const char *path, const char *headers,
               const char *body)
{
    struct web_answer a;
    web_request(w, method, path, headers, body, &a);
    web_clear(&a);
    return a.status;
}

static json_t *json_of(const struct web *w, const char *method, int status, const char *path,
                       const char *more, const char *body)
{
    char headers[512];
    struct web_answer a;
    json_error_t error;
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n%s", w->token, more);
    web_request(w, method, path, headers, body, &a);
    json_t *o = json_loads(a.body, 0, &error);
    if (a.status != status || !o) {
        fail_msg("%s %s: %d, %s", method, path, a.status, a.body);
    }
    assert_contains(a.head, "Content-Type: application/json");
    web_clear(&a);
    return o;
}

json_t *web_get(const struct web *w, int status, const char *path)
{
    return json_of(w, "GET", status, path, "", "");
}

json_t *web_post(const struct web *w, int status, const char *path, const char *body)
{
    return json_of(w, "POST", status, path, web_posting, body);
}
