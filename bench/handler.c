/* A pool handler that does nothing, as fast as it can: what is left is tenon's own cost.
 *
 * With BENCH_STARTS in the environment it writes "<task id> <CLOCK_REALTIME, nanoseconds>" to
 * that file when it has read a task, before it answers. With BENCH_FAIL_ONCE it answers the first
 * attempt of every task with a failure that wants another run after so many milliseconds. With
 * BENCH_WORK_MS it takes one task at a time, and so many milliseconds for each. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { IN_BYTES = 4 << 20, OUT_BYTES = 256 << 10, ANSWER_BYTES_MAX = 128 };

static char in[IN_BYTES];
static char out[OUT_BYTES];

static int put(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n <= 0) {
            return 0;
        }
        data += n;
        len -= (size_t)n;
    }
    return 1;
}

static void note_start(int fd, long long id)
{
    struct timespec ts;
    char line[64];
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %lld%09ld\n", id, (long long)ts.tv_sec, ts.tv_nsec);
    (void)!write(fd, line, (size_t)n);
}

static bool is_first_attempt(const char *line, size_t len)
{
    static const char first[] = "\"attempt\":1,";
    return memmem(line, len, first, sizeof first - 1) != NULL;
}

static void work(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Answer every whole line in `in`; returns how many bytes they took. */
static size_t answer_all(size_t bytes, int starts, const char *fail_ms, long work_ms)
{
    size_t used = 0, answered = 0;
    char *end;
    while ((end = memchr(in + used, '\n', bytes - used))) {
        long long id = strtoll(in + used + strlen("{\"id\":"), NULL, 10);
        if (starts >= 0) {
            note_start(starts, id);
        }
        if (work_ms > 0) {
            work(work_ms);
        }
        bool fails = fail_ms && is_first_attempt(in + used, (size_t)(end - in) - used);
        answered += (size_t)snprintf(
            out + answered, sizeof out - answered,
            fails ? "{\"id\":%lld,\"outcome\":\"failed\",\"error\":\"first\",\"delay_ms\":%s}\n"
                  : "{\"id\":%lld,\"outcome\":\"done\"}\n",
            id, fail_ms);
        if (answered + ANSWER_BYTES_MAX > sizeof out) {
            if (!put(1, out, answered)) {
                exit(1);
            }
            answered = 0;
        }
        used = (size_t)(end - in) + 1;
    }
    if (!put(1, out, answered)) {
        exit(1);
    }
    return used;
}

int main(void)
{
    const char *path = getenv("BENCH_STARTS"), *fail_ms = getenv("BENCH_FAIL_ONCE");
    const char *ms = getenv("BENCH_WORK_MS");
    long work_ms = ms ? strtol(ms, NULL, 10) : 0;
    const char *hello = work_ms > 0 ? "{\"hello\":\"tenon\",\"in_flight\":1}\n"
                                    : "{\"hello\":\"tenon\",\"in_flight\":512}\n";
    int starts = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;
    size_t bytes = 0;
    if (!put(1, hello, strlen(hello))) {
        return 1;
    }
    for (;;) {
        ssize_t n = read(0, in + bytes, sizeof in - bytes);
        if (n <= 0) {
            return n < 0;
        }
        bytes += (size_t)n;
        size_t used = answer_all(bytes, starts, fail_ms, work_ms);
        memmove(in, in + used, bytes - used);
        bytes -= used;
    }
}
