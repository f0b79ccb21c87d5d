#include "tests/support/port.h"

#include "core/base/now.h"

#include <sys/socket.h>
#include <unistd.h>

enum { PORT_MIN = 12000, PORT_MAX = 29999 };

struct sockaddr_in port_address(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int port_free(int *ret_fd)
{
    int one = 1;
    for (;;) {
        int port = PORT_MIN + (int)now_jitter(PORT_MAX - PORT_MIN);
        struct sockaddr_in address = port_address(port);
        *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)setsockopt(*ret_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(*ret_fd, (struct sockaddr *)&address, sizeof address) == 0) {
            return port;
        }
        (void)close(*ret_fd);
    }
}
