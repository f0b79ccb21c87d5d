/* A pool handler that loads an application first: it burns processor time, then says hello.
 *
 *   boot CPU_MS [WORDS]   CPU_MS of processor time; -1 = it never says hello. WORDS: what it says
 *                         that it does while it starts. Each task is done, and burns "cpu_ms". */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long cpu_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void burn(long long ms)
{
    long long until = cpu_ms() + ms;
    while (cpu_ms() < until) {
    }
}

int main(int argc, char **argv)
{
    long long ms = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    if (argc > 2) {
        (void)printf("{\"starting\":\"%s\"}\n", argv[2]);
        (void)fflush(stdout);
    }
    if (ms < 0) {
        (void)fputs("it waits for a licence\n", stderr);
        (void)pause();
    }
    burn(ms);
    (void)puts("{\"hello\":\"tenon\"}");
    (void)fflush(stdout);
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *task = json_loads(line, 0, NULL);
        burn((long long)json_integer_value(
            json_object_get(json_object_get(task, "payload"), "cpu_ms")));
        (void)printf("{\"id\":%lld,\"outcome\":\"done\"}\n",
                     (long long)json_integer_value(json_object_get(task, "id")));
        (void)fflush(stdout);
        json_decref(task);
    }
    free(line);
    return 0;
}
