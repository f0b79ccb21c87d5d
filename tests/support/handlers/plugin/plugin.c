/* A plugin that does what the kind says; with PLUGIN_ABI it says that it is of another version. */
#include "include/tenon/handler.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int echo(const tenon_work *work, tenon_context *c)
{
    tenon_set_result(c, work->payload);
    return TENON_DONE;
}

static int garbage(const tenon_work *work, tenon_context *c)
{
    (void)work;
    tenon_set_result(c, "{\"a\":1,\"outcome\":");
    return tenon_progress(c, "1,2") == -1 && tenon_extend(c, 0) == -1 ? TENON_DONE : TENON_FAILED;
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
    return TENON_DEAD;
}

static int later(const tenon_work *work, tenon_context *c)
{
    (void)work;
    tenon_set_delay(c, 3000000);
    return TENON_SNOOZE;
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
    return TENON_DONE;
}

/* Says its progress, and waits until it is asked to stop; the next attempt ends. */
static int stopped(const tenon_work *work, tenon_context *c)
{
    if (strcmp(work->progress, "null") != 0) {
        tenon_set_result(c, work->progress);
        return TENON_DONE;
    }
    if (tenon_progress(c, "{\"n\":\n7}") != 0 || tenon_extend(c, 60000) != 0) {
        return TENON_FAILED;
    }
    while (!tenon_is_stopped(c)) {
        (void)usleep(1000);
    }
    return TENON_INTERRUPTED;
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
    return TENON_DONE;
}

static int start(void)
{
    return getenv("TEST_PLUGIN_FAILS") ? 7 : 0;
}

static const tenon_handler handlers[] = {
    {"echo", echo}, {"garbage", garbage}, {"fail", fail},       {"dead", dead}, {"snooze", later},
    {"odd", odd},   {"crash", crash},     {"stopped", stopped}, {"meet", meet},
};

#ifdef PLUGIN_ABI
__attribute__((visibility("default"))) extern const tenon_plugin_table tenon_plugin;
const tenon_plugin_table tenon_plugin = {PLUGIN_ABI, 1, handlers, start, NULL};
#else
TENON_PLUGIN(handlers, start, NULL);
#endif
