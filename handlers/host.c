/* tenon-host: a pool handler that runs the handlers of a shared object, in threads. */
#include "handlers/host_lane.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 256 };

struct settings {
    const char *path;
    int threads;
    bool help;
};

static void print_help(void)
{
    (void)printf("usage: tenon-host PLUGIN.so [--threads N]\n\n"
                 "A pool handler: runs the handlers of a shared object that was built with\n"
                 "tenon/handler.h. Start it from a worker:\n"
                 "  tenon worker --handler 'KIND=pool:exec tenon-host ./plugin.so --threads 4'\n"
                 "  --threads N   so many tasks at once, 1 to %d (default 1)\n",
                 THREADS_MAX);
}

static bool read_threads(struct settings *s, const char *text, struct fault *f)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > THREADS_MAX) {
        return fault_set(f, FAULT_CONFIG, "--threads is not a number from 1 to %d: %.60s",
                         THREADS_MAX, text);
    }
    s->threads = (int)n;
    return true;
}

static bool read_settings(struct settings *s, int argc, char **argv, struct fault *f)
{
    static const struct option flags[] = {{"threads", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int flag;
    *s = (struct settings){.threads = 1};
    opterr = 0;
    while ((flag = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        if (flag == 'h') {
            return s->help = true;
        }
        if (flag != 't') {
            return fault_set(f, FAULT_CONFIG, "%.60s is no option, or lacks its value; see --help",
                             argv[optind - 1]);
        }
        if (!read_threads(s, optarg, f)) {
            return false;
        }
    }
    if (optind + 1 != argc) {
        return fault_set(f, FAULT_CONFIG, "name one plugin, a shared object; see --help");
    }
    s->path = argv[optind];
    return true;
}

static void take_task(struct host *h, struct lane *lanes, int n, struct pool_task *task)
{
    int i = 0;
    while (i < n && lanes[i].has_task) {
        i++;
    }
    if (i < n) {
        lane_give(&lanes[i], task);
        return;
    }
    pool_answer(&h->pool, task->id, &(struct pool_answer){.outcome = "interrupted"});
    pool_task_clear(task);
}

static void stop(struct lane *lanes, int n, const struct pool_message *m)
{
    for (int i = 0; i < n; i++) {
        if (lanes[i].has_task && (m->type == POOL_DRAIN || lanes[i].task.id == m->stop)) {
            atomic_store(&lanes[i].stopped, true);
        }
    }
}

static bool take_lines(struct host *h, struct lane *lanes, int n, struct fault *f)
{
    struct pool_message m = {.type = POOL_DRAIN};
    bool ok = true;
    (void)pthread_mutex_lock(&h->lock);
    while (ok && m.type != POOL_NOTHING) {
        ok = pool_take(&h->pool, &m, f);
        if (ok && m.type == POOL_TASK) {
            take_task(h, lanes, n, &m.task);
        } else if (ok && m.type != POOL_NOTHING) {
            stop(lanes, n, &m);
        }
    }
    ok = ok && pool_flush(&h->pool, f);
    (void)pthread_mutex_unlock(&h->lock);
    return ok;
}

static bool run(struct host *h, struct lane *lanes, int n, struct fault *f)
{
    int started = 0;
    bool ok = true;
    pool_open(&h->pool, n);
    while (ok && started < n) {
        ok = lane_start(&lanes[started], h, f);
        started += ok;
    }
    ok = ok && take_lines(h, lanes, n, f); /* says hello */
    while (ok && !h->pool.ended) {
        ok = pool_read(&h->pool, f) && take_lines(h, lanes, n, f);
    }
    (void)pthread_mutex_lock(&h->lock);
    h->ended = true;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
    while (started > 0) {
        lane_join(&lanes[--started]);
    }
    pool_close(&h->pool);
    return ok;
}

int main(int argc, char **argv)
{
    static struct lane lanes[THREADS_MAX];
    static struct host host = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    struct settings s;
    struct fault f = {.code = FAULT_NONE};
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = read_settings(&s, argc, argv, &f);
    if (ok && s.help) {
        print_help();
    } else if (ok) {
        ok = plugin_open(&host.plugin, s.path, &f) && run(&host, lanes, s.threads, &f);
        plugin_close(&host.plugin);
    }
    if (!ok) {
        (void)fprintf(stderr, "tenon-host: %s\n", f.text);
    }
    return ok ? 0 : fault_exit_code(&f);
}
