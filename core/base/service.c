#include "core/base/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { SEND_LIMIT_S = 1, ALIVE_PER_LIMIT = 4 };

static struct {
    int fd;           /* connected to the manager, or -1 */
    int64_t every_ms; /* between two signs of life; 0 = none is wanted */
    int64_t next_ms;
    bool ready;
} manager = {.fd = -1};

/* A reader that does not read delays nobody. */
static int open_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = SEND_LIMIT_S};
    size_t n = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, path, n);
    if (path[0] == '@') { /* of the kernel's own name space */
        address.sun_path[0] = '\0';
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
                    connect(fd, (struct sockaddr *)&address, size) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* The limit that the manager has set for this process. */
static int64_t watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    bool ours = !pid || strtoll(pid, NULL, 10) == getpid();
    return usec && ours ? strtoll(usec, NULL, 10) / 1000 : 0;
}

static void tell(const char *text)
{
    if (manager.fd >= 0) {
        (void)!send(manager.fd, text, strlen(text), MSG_NOSIGNAL);
    }
}

void service_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path) {
        manager.fd = open_socket(path);
        manager.every_ms = watchdog_ms() / ALIVE_PER_LIMIT;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void service_ready(void)
{
    if (!manager.ready) {
        tell("READY=1");
    }
    manager.ready = true;
}

void service_stopping(void)
{
    tell("STOPPING=1");
}

void service_alive(int64_t now_ms)
{
    if (manager.every_ms > 0 && now_ms >= manager.next_ms) {
        tell("WATCHDOG=1");
        manager.next_ms = now_ms + manager.every_ms;
    }
}
