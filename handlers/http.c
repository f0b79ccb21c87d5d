/* tenon-http: a pool handler that POSTs each task's payload to a URL. */
#include "handlers/http_request.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

struct http {
    struct http_settings settings;
    struct pool pool;
    CURLM *multi;
    struct http_request *running, *idle;
    int in_flight;
};

/* --- requests --- */

static void begin(struct http *h, struct http_request *r)
{
    h->in_flight++;
    r->next = h->running;
    h->running = r;
    (void)curl_multi_add_handle(h->multi, r->easy);
}

static void end(struct http *h, struct http_request *r)
{
    struct http_request **at = &h->running;
    while (*at != r) {
        at = &(*at)->next;
    }
    *at = r->next;
    h->in_flight--;
    (void)curl_multi_remove_handle(h->multi, r->easy);
    http_request_end(r);
    r->next = h->idle;
    h->idle = r;
}

static bool take_task(struct http *h, struct pool_task *task, struct fault *f)
{
    struct http_request *r = h->idle;
    if (r) {
        h->idle = r->next;
    } else if (!http_request_new(&h->settings, &r, f)) {
        pool_task_clear(task);
        return false;
    }
    bool ok = http_request_begin(r, task, f);
    if (ok) {
        begin(h, r);
    } else {
        http_request_free(r);
    }
    return ok;
}

/* Nobody waits for it any more; what is answered is dropped. */
static void stop_task(struct http *h, int64_t id)
{
    for (struct http_request *r = h->running; r; r = r->next) {
        if (r->task.id == id) {
            pool_answer(&h->pool, id, &(struct pool_answer){.outcome = "interrupted"});
            end(h, r);
            return;
        }
    }
}

/* --- the loop --- */

/* At a drain, requests under way continue: the receiver may have it already. */
static bool take_lines(struct http *h, struct fault *f)
{
    struct pool_message m;
    if (!pool_read(&h->pool, f)) {
        return false;
    }
    do {
        if (!pool_take(&h->pool, &m, f) || (m.type == POOL_TASK && !take_task(h, &m.task, f))) {
            return false;
        }
        if (m.type == POOL_STOP) {
            stop_task(h, m.stop);
        }
    } while (m.type != POOL_NOTHING);
    return true;
}

static void take_ended(struct http *h)
{
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(h->multi, &left))) {
        struct http_request *r = NULL;
        CURLcode code = message->data.result; /* which ends with its handle */
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &r);
        http_request_answer(r, code, &h->pool);
        end(h, r);
    }
}

/* curl does not say that stdin has ended. */
static bool has_lines(const struct http *h)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return !h->pool.ended && poll(&in, 1, 0) > 0;
}

static bool run(struct http *h, struct fault *f)
{
    int running;
    while (!h->pool.ended || h->in_flight > 0) {
        struct curl_waitfd in = {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN};
        if (!pool_flush(&h->pool, f)) {
            return false;
        }
        CURLMcode code = curl_multi_poll(h->multi, &in, !h->pool.ended, WAIT_MS, NULL);
        if (has_lines(h) && !take_lines(h, f)) {
            return false;
        }
        code = code == CURLM_OK ? curl_multi_perform(h->multi, &running) : code;
        if (code != CURLM_OK) {
            return fault_set(f, FAULT_BUG, "libcurl: %s", curl_multi_strerror(code));
        }
        take_ended(h);
    }
    return pool_flush(&h->pool, f);
}

static void free_all(struct http_request *r)
{
    while (r) {
        struct http_request *next = r->next;
        http_request_free(r);
        r = next;
    }
}

static void http_close(struct http *h)
{
    while (h->running) {
        end(h, h->running);
    }
    free_all(h->idle);
    (void)curl_multi_cleanup(h->multi);
    pool_close(&h->pool);
    http_settings_clear(&h->settings);
    curl_global_cleanup();
}

int main(int argc, char **argv)
{
    struct http h = {.in_flight = 0};
    struct fault f = {.code = FAULT_NONE};
    (void)signal(SIGPIPE, SIG_IGN);
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    bool ok = http_settings_read(&h.settings, argc, argv, &f);
    if (ok && h.settings.help) {
        http_settings_help();
    } else if (ok) {
        pool_open(&h.pool, h.settings.in_flight);
        h.multi = curl_multi_init();
        ok = h.multi ? run(&h, &f) : fault_memory(&f);
    }
    http_close(&h);
    if (!ok) {
        (void)fprintf(stderr, "tenon-http: %s\n", f.text);
    }
    return ok ? 0 : fault_exit_code(&f);
}
