/* A handler in C that does what the kind says: `serve [THREADS]`. */
#include "include/tenon/serve.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int echo(const tenon_work *work, tenon_context *c)
{
    tenon_set_result(c, work->payload);
    return TENON_RUN_DONE;
}

static int garbage(const tenon_work *work, tenon_context *c)
{
    (void)work;
    tenon_set_result(c, "{\"a\":1,\"outcome\":");
    return tenon_progress(c, "1,2") == -1 && tenon_extend(c, 0) == -1 ? TENON_RUN_DONE
                                                                      : TENON_RUN_FAILED;
}

static int fail(const tenon_work *work, tenon_context *c)
{
    tenon_set_delay(c, 3000000);
    return tenon_fail(c, "a_class", work->kind);
}

static int dead(const tenon_work *work, tenon_context *c)
{
    (void)work;
    (void)tenon_fail(c, NULL, "it never works");
    return TENON_RUN_DEAD;
}

static int snooze(const tenon_work *work, tenon_context *c)
{
    (void)work;
    tenon_set_delay(c, 3000000);
    return TENON_RUN_SNOOZE;
}

static int odd(const tenon_work *work, tenon_context *c)
{
    (void)work;
    (void)c;
    return 17;
}

static int crash(const tenon_work *work, tenon_context *c)
{
    (void)c;
    if (work->attempt == 1) {
        (void)raise(SIGKILL);
    }
    return TENON_RUN_DONE;
}

/* Reports its progress, and waits until it is asked to stop; the next attempt ends. */
static int stopped(const tenon_work *work, tenon_context *c)
{
    if (strcmp(work->progress, "null") != 0) {
        tenon_set_result(c, work->progress);
        return TENON_RUN_DONE;
    }
    struct pollfd stop = {.fd = tenon_stop_fd(c), .events = POLLIN};
    if (poll(&stop, 1, 0) != 0 || tenon_is_stopped(c) || tenon_progress(c, "{\"n\":\n7}") != 0 ||
        tenon_extend(c, 60000) != 0) {
        return TENON_RUN_FAILED;
    }
    return poll(&stop, 1, -1) == 1 && tenon_is_stopped(c) ? TENON_RUN_INTERRUPTED
                                                          : TENON_RUN_FAILED;
}

/* Four wait for each other. */
static int meet(const tenon_work *work, tenon_context *c)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t all = PTHREAD_COND_INITIALIZER;
    static int here;
    (void)work;
    (void)c;
    (void)pthread_mutex_lock(&lock);
    here++;
    (void)pthread_cond_broadcast(&all);
    while (here < 4) {
        (void)pthread_cond_wait(&all, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
    return TENON_RUN_DONE;
}

/* What it prints is no answer. */
static int prints(const tenon_work *work, tenon_context *c)
{
    (void)c;
    (void)printf("{\"id\":%lld,\"outcome\":\"dead\"}\n", (long long)work->id);
    (void)fflush(stdout);
    return TENON_RUN_DONE;
}

static const tenon_handler handlers[] = {
    {"echo", echo}, {"garbage", garbage}, {"fail", fail},       {"dead", dead}, {"snooze", snooze},
    {"odd", odd},   {"crash", crash},     {"stopped", stopped}, {"meet", meet}, {"prints", prints},
};

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    if (tenon_serve(handlers, sizeof handlers / sizeof *handlers, threads) != TENON_OK) {
        (void)fprintf(stderr, "%s\n", tenon_errmsg());
        return 1;
    }
    return 0;
}
