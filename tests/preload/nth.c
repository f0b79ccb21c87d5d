/* Loaded into the program tenon with LD_PRELOAD: the Nth statement loses its connection, or the Nth
 * write to a pipe fails.
 *
 *   TEST_STATEMENT=N          counts the calls of PQsendQueryPrepared and PQsendQuery
 *   TEST_LOST=before|answer   the connection goes before it is sent; or after the server has
 *                             executed and committed it, and nobody hears of that
 *   TEST_WRITE=N              counts write() to pipes
 *   TEST_ERRNO=n              what it fails with
 *   TEST_STRUCK=path          this file is made when it happened */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

enum { ANSWER_LIMIT_MS = 10000 };

static atomic_long statements, writes;
static _Thread_local PGconn *doomed; /* its answer will be lost */

static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

/* Handlers inherit the environment; they are left alone. */
static bool strikes(const char *variable, atomic_long *count)
{
    long n = number_of(variable);
    if (n == 0 || strcmp(program_invocation_short_name, "tenon") != 0 ||
        atomic_fetch_add(count, 1) + 1 != n) {
        return false;
    }
    int fd = open(getenv("TEST_STRUCK"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    (void)close(fd);
    return true;
}

static bool loses_answer(void)
{
    const char *lost = getenv("TEST_LOST");
    return lost && strcmp(lost, "answer") == 0;
}

static void cut(PGconn *conn)
{
    (void)shutdown(PQsocket(conn), SHUT_RDWR);
}

/* Wait for the answer, throw it away, and cut. */
static void lose_answer(PGconn *conn)
{
    char data[8192];
    struct pollfd pfd = {.fd = PQsocket(conn), .events = POLLIN};
    while (PQflush(conn) > 0) {
        (void)poll(NULL, 0, 1);
    }
    (void)poll(&pfd, 1, ANSWER_LIMIT_MS);
    while (recv(pfd.fd, data, sizeof data, MSG_DONTWAIT) > 0) {
    }
    cut(conn);
}

static void count(PGconn *conn)
{
    if (strikes("TEST_STATEMENT", &statements)) {
        if (loses_answer()) {
            doomed = conn;
        } else {
            cut(conn);
        }
    }
}

PUBLIC int PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *values,
                               const int *lengths, const int *formats, int format)
{
    count(conn);
    return REAL(PQsendQueryPrepared)(conn, name, n, values, lengths, formats, format);
}

PUBLIC int PQsendQuery(PGconn *conn, const char *query)
{
    count(conn);
    int sent = REAL(PQsendQuery)(conn, query);
    if (doomed == conn) {
        doomed = NULL;
        lose_answer(conn);
    }
    return sent;
}

PUBLIC int PQpipelineSync(PGconn *conn)
{
    int sent = REAL(PQpipelineSync)(conn);
    if (doomed == conn) {
        doomed = NULL;
        lose_answer(conn);
    }
    return sent;
}

static bool is_pipe(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

PUBLIC ssize_t write(int fd, const void *data, size_t size)
{
    if (number_of("TEST_WRITE") > 0 && is_pipe(fd) && strikes("TEST_WRITE", &writes)) {
        errno = (int)number_of("TEST_ERRNO");
        return -1;
    }
    return REAL(write)(fd, data, size);
}
