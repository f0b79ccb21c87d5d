/* The handler of script/soak, `handler pool` or `handler exec`: sleeps as the payload says,
 * {"ms": 20}, fails if it says {"fail": true}, and writes the journal:
 *
 *   TASK ATTEMPT PID WORKER_PID start|end NANOSECONDS */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int journal = -1;

static void note(long long task, long long attempt, const char *what)
{
    struct timespec ts;
    char line[160];
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %lld %d %d %s %lld%09ld\n", task, attempt,
                     (int)getpid(), (int)getppid(), what, (long long)ts.tv_sec, ts.tv_nsec);
    if (write(journal, line, (size_t)n) != n) {
        abort();
    }
}

/* Returns whether it worked. */
static int work(long long task, long long attempt, const json_t *payload)
{
    long long ms = (long long)json_integer_value(json_object_get(payload, "ms"));
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    note(task, attempt, "start");
    (void)nanosleep(&ts, NULL);
    note(task, attempt, "end");
    return !json_is_true(json_object_get(payload, "fail"));
}

static long long variable(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : 0;
}

static int run_exec(void)
{
    json_t *payload = json_loadf(stdin, JSON_DECODE_ANY, NULL);
    int ok = work(variable("TENON_TASK_ID"), variable("TENON_TASK_ATTEMPT"), payload);
    json_decref(payload);
    return ok ? 0 : 1;
}

static int run_pool(void)
{
    char *line = NULL;
    size_t cap = 0;
    (void)puts("{\"hello\":\"tenon\",\"in_flight\":4}");
    (void)fflush(stdout);
    while (getline(&line, &cap, stdin) > 0) {
        json_t *task = json_loads(line, 0, NULL);
        long long id = (long long)json_integer_value(json_object_get(task, "id"));
        int ok = work(id, (long long)json_integer_value(json_object_get(task, "attempt")),
                      json_object_get(task, "payload"));
        (void)printf("{\"id\":%lld,\"outcome\":\"%s\",\"delay_ms\":200}\n", id,
                     ok ? "done" : "failed");
        (void)fflush(stdout);
        json_decref(task);
    }
    free(line);
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = getenv("SOAK_JOURNAL");
    journal = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (journal < 0 || argc != 2) {
        (void)fputs("usage: SOAK_JOURNAL=FILE handler pool|exec\n", stderr);
        return 2;
    }
    return strcmp(argv[1], "pool") == 0 ? run_pool() : run_exec();
}
