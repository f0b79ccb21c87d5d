/* A pool handler that runs its tasks beside each other, and writes the journal (support/journal.h):
 * concurrent IN_FLIGHT [ANSWERS [bye]].
 *
 * A task is done after the "ms" of its payload; below 0 never. One with "dies": "child" ends this
 * process then, as a panic in it would, and one with "dies": "worker" the worker, as the kernel
 * does that has no memory. After ANSWERS answers the handler exits 0, whatever else it has; with
 * `bye` it says so before. */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TASKS_MAX = 1024, NEVER_MS = -1 };

static struct task {
    long long id, claims;
    int64_t due_ms; /* NEVER_MS = it is never done */
    char dies;      /* 'c'hild or 'w'orker, 0 = it is no pill */
} tasks[TASKS_MAX];
static int n_tasks, journal;
static long answers_left;
static bool says_bye;

static int64_t clock_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void note(const struct task *t, const char *what)
{
    struct timespec ts;
    char line[160];
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %lld %d %s %lld%09ld\n", t->id, t->claims,
                     (int)getpid(), what, (long long)ts.tv_sec, ts.tv_nsec);
    if (write(journal, line, (size_t)n) != n) {
        abort();
    }
}

static void begin(const char *line)
{
    json_t *task = json_loads(line, 0, NULL);
    const json_t *payload = json_object_get(task, "payload"), *ms = json_object_get(payload, "ms");
    const char *dies = json_string_value(json_object_get(payload, "dies"));
    struct task *t = &tasks[n_tasks++];
    t->id = json_integer_value(json_object_get(task, "id"));
    t->claims = strtoll(strchr(json_string_value(json_object_get(task, "claim")), '/') + 1, NULL,
                        10);
    t->due_ms = json_integer_value(ms) < 0 ? NEVER_MS : clock_ms() + json_integer_value(ms);
    t->dies = dies ? *dies : '\0';
    note(t, "start");
    json_decref(task);
}

static void end(int i)
{
    if (tasks[i].dies == 'w') {
        (void)kill(getppid(), SIGKILL);
        (void)pause();
    }
    if (tasks[i].dies == 'c') {
        abort();
    }
    note(&tasks[i], "end");
    (void)printf("{\"id\":%lld,\"outcome\":\"done\"}\n", tasks[i].id);
    tasks[i] = tasks[--n_tasks];
    if (--answers_left == 0) {
        (void)fputs(says_bye ? "{\"bye\": true}\n" : "", stdout);
        exit(0);
    }
    (void)fflush(stdout);
}

/* Ends what is due; ret: for how long nothing will be, -1 = for ever. */
static int end_due(void)
{
    int64_t now_ms = clock_ms(), next_ms = INT64_MAX;
    for (int i = 0; i < n_tasks; i++) {
        if (tasks[i].due_ms == NEVER_MS) {
            continue;
        }
        if (tasks[i].due_ms <= now_ms) {
            end(i--);
        } else if (tasks[i].due_ms < next_ms) {
            next_ms = tasks[i].due_ms;
        }
    }
    return next_ms == INT64_MAX ? -1 : (int)(next_ms - now_ms);
}

/* The lines that are there; false at the end of the input. */
static bool read_lines(void)
{
    static char data[1 << 20];
    static size_t bytes;
    ssize_t n = read(0, data + bytes, sizeof data - bytes);
    char *at = data, *newline;
    bytes += n > 0 ? (size_t)n : 0;
    while ((newline = memchr(at, '\n', bytes - (size_t)(at - data)))) {
        *newline = '\0';
        begin(at);
        at = newline + 1;
    }
    bytes -= (size_t)(at - data);
    memmove(data, at, bytes);
    return n > 0;
}

int main(int argc, char **argv)
{
    const char *path = getenv("TEST_JOURNAL");
    journal = open(path ? path : "/dev/null", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    answers_left = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    says_bye = argc > 3;
    (void)printf("{\"hello\":\"tenon\",\"in_flight\":%s}\n", argc > 1 ? argv[1] : "1");
    (void)fflush(stdout);
    for (bool open = true; open || n_tasks > 0;) {
        struct pollfd in = {.fd = open ? 0 : -1, .events = POLLIN};
        if (poll(&in, 1, end_due()) > 0) {
            open = read_lines();
        }
    }
    return 0;
}
