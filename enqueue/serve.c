#include "include/tenon/serve.h"

#include "core/base/thread.h"
#include "enqueue/errtext.h"
#include "handlers/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_BYTES_MAX = 8192, CLASS_BYTES_MAX = 100, DELAY_DAYS_MAX = 30 };
static const int64_t ms_max = DELAY_DAYS_MAX * 24 * 3600 * INT64_C(1000);

/* What the threads share; the lock is for the answers of `pool` and for who has a task. */
struct server {
    const tenon_handler *handlers;
    size_t n_handlers;
    struct pool pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended; /* no more tasks come */
    tenon_context *contexts;
    int n, started; /* threads */
};

/* A thread, which runs one task at a time. */
struct tenon_context {
    struct server *server;
    pthread_t thread;
    struct pool_task task;
    bool has_task;
    atomic_bool stopped;
    int stop_fd; /* readable when `stopped` */
    int64_t delay_ms;
    struct buf result, error, class;
};

/* --- what a handler calls --- */

void tenon_set_result(tenon_context *c, const char *json)
{
    buf_empty(&c->result);
    buf_put_text(&c->result, json);
}

int tenon_fail(tenon_context *c, const char *error_class, const char *text)
{
    buf_empty(&c->error);
    buf_empty(&c->class);
    buf_put(&c->error, text, strnlen(text, ERROR_BYTES_MAX));
    buf_put(&c->class, error_class ? error_class : "",
            error_class ? strnlen(error_class, CLASS_BYTES_MAX) : 0);
    return TENON_RUN_FAILED;
}

void tenon_set_delay(tenon_context *c, int64_t delay_ms)
{
    c->delay_ms = delay_ms >= 1 && delay_ms <= ms_max ? delay_ms : 0;
}

/* Where it fails, the worker is gone: the main thread sees the end of stdin. */
static void flush(struct server *s)
{
    struct fault ignored = {.code = FAULT_NONE};
    if (!pool_flush(&s->pool, &ignored)) {
        buf_empty(&s->pool.out);
    }
}

int tenon_progress(tenon_context *c, const char *json)
{
    struct server *s = c->server;
    (void)pthread_mutex_lock(&s->lock);
    bool ok = pool_progress(&s->pool, c->task.id, json, strlen(json));
    flush(s);
    (void)pthread_mutex_unlock(&s->lock);
    return ok ? 0 : -1;
}

int tenon_extend(tenon_context *c, int64_t ms)
{
    struct server *s = c->server;
    if (ms < 1 || ms > ms_max) {
        return -1;
    }
    (void)pthread_mutex_lock(&s->lock);
    pool_extend(&s->pool, c->task.id, ms);
    flush(s);
    (void)pthread_mutex_unlock(&s->lock);
    return 0;
}

int tenon_is_stopped(tenon_context *c)
{
    return atomic_load(&c->stopped);
}

int tenon_stop_fd(tenon_context *c)
{
    return c->stop_fd;
}

/* --- a task --- */

static const tenon_handler *find(const struct server *s, const char *kind)
{
    for (size_t i = 0; i < s->n_handlers; i++) {
        if (strcmp(s->handlers[i].kind, kind) == 0) {
            return &s->handlers[i];
        }
    }
    return NULL;
}

static int run(tenon_context *c)
{
    const struct pool_task *t = &c->task;
    const tenon_handler *handler = find(c->server, t->kind);
    const tenon_work work = {.struct_size = sizeof work,
                             .id = t->id,
                             .kind = t->kind,
                             .queue = t->queue,
                             .attempt = t->attempt,
                             .failures = t->failures,
                             .max_attempts = t->max_attempts,
                             .timeout_ms = t->timeout_ms,
                             .claim = t->claim,
                             .trace = t->trace,
                             .progress = t->progress,
                             .payload = t->payload,
                             .payload_bytes = t->payload_bytes};
    buf_empty(&c->result);
    buf_empty(&c->error);
    buf_empty(&c->class);
    c->delay_ms = 0;
    return handler ? handler->run(&work, c)
                   : tenon_fail(c, NULL, "the program has no handler for this kind");
}

static const char *text_or_none(const struct buf *b)
{
    return b->len > 0 ? b->data : NULL;
}

static void answer(tenon_context *c, int outcome)
{
    static const char *const words[] = {"done", "failed", "dead", "snooze", "interrupted"};
    bool known = outcome >= 0 && outcome < (int)(sizeof words / sizeof *words);
    struct pool *p = &c->server->pool;
    if (outcome == TENON_RUN_DONE) {
        pool_done(p, c->task.id, text_or_none(&c->result), c->result.len,
                  c->result.len > 0 || c->result.failed
                      ? "tenon: the result was not kept: it is not JSON, or longer than 2 MiB"
                      : NULL);
    } else {
        pool_answer(p, c->task.id,
                    &(struct pool_answer){.outcome = known ? words[outcome] : "failed",
                                          .error = text_or_none(&c->error),
                                          .class = text_or_none(&c->class),
                                          .delay_ms = c->delay_ms});
    }
    flush(c->server);
    pool_task_clear(&c->task);
    c->has_task = false;
}

static void *thread_main(void *data)
{
    tenon_context *c = data;
    struct server *s = c->server;
    (void)pthread_mutex_lock(&s->lock);
    while (c->has_task || !s->ended) {
        if (!c->has_task) {
            (void)pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&s->lock);
        int outcome = run(c);
        (void)pthread_mutex_lock(&s->lock);
        answer(c, outcome);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- the lines of the worker --- */

static void give(struct server *s, struct pool_task *task)
{
    int i = 0;
    while (i < s->n && s->contexts[i].has_task) {
        i++;
    }
    if (i == s->n) {
        pool_answer(&s->pool, task->id, &(struct pool_answer){.outcome = "interrupted"});
        pool_task_clear(task);
        return;
    }
    s->contexts[i].task = *task;
    atomic_store(&s->contexts[i].stopped, false);
    wakefd_clear(s->contexts[i].stop_fd);
    s->contexts[i].has_task = true;
    (void)pthread_cond_broadcast(&s->changed);
}

static void stop(struct server *s, const struct pool_message *m)
{
    for (int i = 0; i < s->n; i++) {
        tenon_context *c = &s->contexts[i];
        if (c->has_task && (m->type == POOL_DRAIN || c->task.id == m->stop)) {
            atomic_store(&c->stopped, true);
            wakefd_set(c->stop_fd);
        }
    }
}

static bool take_lines(struct server *s, struct fault *f)
{
    struct pool_message m = {.type = POOL_DRAIN};
    bool ok = true;
    (void)pthread_mutex_lock(&s->lock);
    while (ok && m.type != POOL_NOTHING) {
        ok = pool_take(&s->pool, &m, f);
        if (ok && m.type == POOL_TASK) {
            give(s, &m.task);
        } else if (ok && m.type != POOL_NOTHING) {
            stop(s, &m);
        }
    }
    ok = ok && pool_flush(&s->pool, f);
    (void)pthread_mutex_unlock(&s->lock);
    return ok;
}

/* --- life --- */

static bool start(struct server *s, struct fault *f)
{
    for (; s->started < s->n; s->started++) {
        tenon_context *c = &s->contexts[s->started];
        if (!wakefd_open(&c->stop_fd, f)) {
            return false;
        }
        c->server = s;
        buf_init(&c->result, POOL_REPLY_BYTES_MAX);
        buf_init(&c->error, ERROR_BYTES_MAX);
        buf_init(&c->class, CLASS_BYTES_MAX);
        int error = pthread_create(&c->thread, NULL, thread_main, c);
        if (error != 0) {
            (void)close(c->stop_fd);
            return fault_set(f, FAULT_RETRY, "could not start a thread: %s", strerror(error));
        }
    }
    return true;
}

static void end(struct server *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->ended = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->started; i++) {
        (void)pthread_join(s->contexts[i].thread, NULL);
        buf_clear(&s->contexts[i].result);
        buf_clear(&s->contexts[i].error);
        buf_clear(&s->contexts[i].class);
        (void)close(s->contexts[i].stop_fd);
    }
}

/* The worker's pipe is kept for answers; whatever prints to stdout prints to stderr. */
static bool keep_stdout(int *ret, struct fault *f)
{
    *ret = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return (*ret >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) ||
           fault_set(f, FAULT_RETRY, "could not keep stdout for the worker: %s", strerror(errno));
}

static bool serve(struct server *s, struct fault *f)
{
    int out = -1;
    if (!keep_stdout(&out, f)) {
        return false;
    }
    pool_open(&s->pool, s->n);
    s->pool.fd = out;
    bool ok = start(s, f) && take_lines(s, f); /* says hello */
    while (ok && !s->pool.ended) {
        ok = pool_read(&s->pool, f) && take_lines(s, f);
    }
    end(s);
    pool_close(&s->pool);
    (void)dup2(out, STDOUT_FILENO);
    (void)close(out);
    return ok;
}

static int check(const tenon_handler *handlers, size_t n, int threads)
{
    if (!handlers || n == 0) {
        return errtext_set(TENON_MISUSE, "tenon_serve: there are no handlers");
    }
    for (size_t i = 0; i < n; i++) {
        if (!handlers[i].kind || !handlers[i].run) {
            return errtext_set(TENON_MISUSE, "tenon_serve: handler %zu has no kind or no function",
                               i);
        }
    }
    return threads >= 1 && threads <= TENON_THREADS_MAX
               ? TENON_OK
               : errtext_set(TENON_MISUSE, "tenon_serve: %d threads; allowed are 1 to %d", threads,
                             TENON_THREADS_MAX);
}

int tenon_serve(const tenon_handler *handlers, size_t n, int threads)
{
    struct fault f = {.code = FAULT_NONE};
    struct server s = {.handlers = handlers,
                       .n_handlers = n,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .changed = PTHREAD_COND_INITIALIZER,
                       .n = threads};
    int code = check(handlers, n, threads);
    if (code != TENON_OK) {
        return code;
    }
    s.contexts = calloc((size_t)threads, sizeof *s.contexts);
    if (!s.contexts) {
        return errtext_set(TENON_MEMORY, "tenon_serve: out of memory");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    bool ok = serve(&s, &f);
    free(s.contexts);
    return ok                        ? errtext_ok()
           : f.code == FAULT_MEMORY  ? errtext_set(TENON_MEMORY, "tenon_serve: %s", f.text)
           : f.code == FAULT_REFUSED ? errtext_set(TENON_MISUSE, "tenon_serve: %s", f.text)
                                     : errtext_set(TENON_RETRY, "tenon_serve: %s", f.text);
}
