/* The small server of `--http` and `tenon ui`: who holds its connections. */
#include "core/http/http.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASKED "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

enum { PATIENCE_S = 10 };

static void say_yes(void *owner, const struct http_request *r, struct http_answer *a)
{
    (void)owner;
    (void)r;
    buf_put_text(&a->body, "yes");
}

static struct http *serve(const char *address)
{
    struct fault f = {0};
    struct http *h = NULL;
    assert_ok(http_listen(address, &h, &f), &f);
    assert_ok(http_serve(h, say_yes, NULL, &f), &f);
    return h;
}

/* A connection from that address. */
static int connect_from(const char *address, int port)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* The rest of a request is said, and answered? */
static bool is_answered(int fd)
{
    char answer[4096];
    say(fd, "\r\n");
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    (void)close(fd);
    answer[n > 0 ? n : 0] = '\0';
    return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

/* All that there are, of one address, each in the middle of a request. */
static void hold_all(const struct http *h, int fds[HTTP_CONNECTIONS_MAX])
{
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = connect_from("127.0.0.1", http_port(h));
        say(fds[i], ASKED);
    }
}

static int count_answered(const int fds[HTTP_CONNECTIONS_MAX])
{
    int n = 0;
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        n += is_answered(fds[i]);
    }
    return n;
}

static void test_one_address_does_not_keep_others_out(void **state)
{
    struct http *h = serve("0.0.0.0:0");
    int fds[HTTP_CONNECTIONS_MAX];
    (void)state;
    hold_all(h, fds);
    int other = connect_from("127.0.0.2", http_port(h));
    say(other, ASKED);
    assert_true(is_answered(other));
    assert_int_equal(count_answered(fds), HTTP_ADDRESS_CONNECTIONS_MAX);
    http_close(h);
}

/* A proxy, whose browsers all come from one address. */
static void test_on_loopback_all_may_come_from_one(void **state)
{
    struct http *h = serve("127.0.0.1:0");
    int fds[HTTP_CONNECTIONS_MAX];
    (void)state;
    hold_all(h, fds);
    assert_int_equal(count_answered(fds), HTTP_CONNECTIONS_MAX);
    http_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_address_does_not_keep_others_out),
        cmocka_unit_test(test_on_loopback_all_may_come_from_one),
    };
    return RUN_GROUP(tests);
}
