#include "handlers/host_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_BYTES_MAX = 8192, CLASS_BYTES_MAX = 100, DELAY_DAYS_MAX = 30 };
static const int64_t ms_max = DELAY_DAYS_MAX * 24 * 3600 * INT64_C(1000);

/* --- what a handler calls --- */

static struct lane *lane_of(tenon_context *c)
{
    return (struct lane *)c;
}

static void set_result(tenon_context *c, const char *json)
{
    buf_empty(&lane_of(c)->result);
    buf_put_text(&lane_of(c)->result, json);
}

static void set_error(tenon_context *c, const char *class, const char *text)
{
    struct lane *l = lane_of(c);
    buf_empty(&l->error);
    buf_empty(&l->class);
    buf_put(&l->error, text, strnlen(text, ERROR_BYTES_MAX));
    buf_put(&l->class, class ? class : "", class ? strnlen(class, CLASS_BYTES_MAX) : 0);
}

static void set_delay(tenon_context *c, int64_t delay_ms)
{
    lane_of(c)->delay_ms = delay_ms >= 1 && delay_ms <= ms_max ? delay_ms : 0;
}

/* Nobody reads any more: the worker is gone, and so is this child in a moment. */
static void flush(struct host *h)
{
    struct fault f = {.code = FAULT_NONE};
    if (!pool_flush(&h->pool, &f)) {
        (void)fprintf(stderr, "tenon-host: %s\n", f.text);
        _exit(1);
    }
}

static int say_progress(tenon_context *c, const char *json)
{
    struct lane *l = lane_of(c);
    (void)pthread_mutex_lock(&l->host->lock);
    bool ok = pool_progress(&l->host->pool, l->task.id, json, strlen(json));
    flush(l->host);
    (void)pthread_mutex_unlock(&l->host->lock);
    return ok ? 0 : -1;
}

static int extend(tenon_context *c, int64_t ms)
{
    struct lane *l = lane_of(c);
    if (ms < 1 || ms > ms_max) {
        return -1;
    }
    (void)pthread_mutex_lock(&l->host->lock);
    pool_extend(&l->host->pool, l->task.id, ms);
    flush(l->host);
    (void)pthread_mutex_unlock(&l->host->lock);
    return 0;
}

static int is_stopped(tenon_context *c)
{
    return atomic_load(&lane_of(c)->stopped);
}

/* --- a task --- */

static int run(struct lane *l)
{
    const struct pool_task *t = &l->task;
    const tenon_handler *handler = plugin_find(&l->host->plugin, t->kind);
    const tenon_work work = {.id = t->id,
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
    buf_empty(&l->result);
    buf_empty(&l->error);
    buf_empty(&l->class);
    l->delay_ms = 0;
    return handler ? handler->run(&work, &l->context)
                   : tenon_fail(&l->context, NULL, "the plugin has no handler for this kind");
}

static const char *text_or_none(const struct buf *b)
{
    return b->len > 0 ? b->data : NULL;
}

static void answer(struct lane *l, int outcome)
{
    static const char *const words[] = {"done", "failed", "dead", "snooze", "interrupted"};
    const bool known = outcome >= 0 && outcome < (int)(sizeof words / sizeof *words);
    struct pool *p = &l->host->pool;
    if (outcome == TENON_DONE) {
        pool_done(p, l->task.id, text_or_none(&l->result), l->result.len,
                  l->result.len > 0 || l->result.failed
                      ? "tenon: the result was not kept: it is no JSON, or longer than 2 MiB"
                      : NULL);
    } else {
        pool_answer(p, l->task.id,
                    &(struct pool_answer){.outcome = known ? words[outcome] : "failed",
                                          .error = text_or_none(&l->error),
                                          .class = text_or_none(&l->class),
                                          .delay_ms = l->delay_ms});
    }
    flush(l->host);
    pool_task_clear(&l->task);
    l->has_task = false;
}

static void *lane_main(void *data)
{
    struct lane *l = data;
    struct host *h = l->host;
    (void)pthread_mutex_lock(&h->lock);
    while (l->has_task || !h->ended) {
        if (!l->has_task) {
            (void)pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&h->lock);
        int outcome = run(l);
        (void)pthread_mutex_lock(&h->lock);
        answer(l, outcome);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

void lane_give(struct lane *l, struct pool_task *task)
{
    l->task = *task;
    *task = (struct pool_task){.line = NULL};
    atomic_store(&l->stopped, false);
    l->has_task = true;
    (void)pthread_cond_broadcast(&l->host->changed);
}

bool lane_start(struct lane *l, struct host *h, struct fault *f)
{
    l->context = (tenon_context){set_result,   set_error, set_delay,
                                 say_progress, extend,    is_stopped};
    l->host = h;
    buf_init(&l->result, POOL_REPLY_BYTES_MAX);
    buf_init(&l->error, ERROR_BYTES_MAX);
    buf_init(&l->class, CLASS_BYTES_MAX);
    int error = pthread_create(&l->thread, NULL, lane_main, l);
    return error == 0 || fault_set(f, FAULT_RETRY, "could not start a thread: %s", strerror(error));
}

void lane_join(struct lane *l)
{
    (void)pthread_join(l->thread, NULL);
    buf_clear(&l->result);
    buf_clear(&l->error);
    buf_clear(&l->class);
}
