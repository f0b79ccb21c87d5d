#include "tests/support/silent.h"

#include "core/base/now.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

void silent_open(struct silent *s, bool takes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    s->waiting = -1;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(s->fd, takes ? 16 : 0), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(s->url, sizeof s->url, "amqp://127.0.0.1:%d/", ntohs(address.sin_port));
    if (!takes) { /* somebody waits there already, so that nobody else is let in */
        s->waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(s->waiting, (struct sockaddr *)&address, len);
    }
}

void silent_close(struct silent *s)
{
    (void)close(s->fd);
    if (s->waiting >= 0) {
        (void)close(s->waiting);
    }
}
