#include "core/http/otlp.h"

#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/text.h"
#include "core/base/thread.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

enum { URL_BYTES = 2048, HOST_BYTES = 256, CONNECT_LIMIT_MS = 5000, END_PATIENCE_MS = 250 };

struct otlp {
    char url[URL_BYTES], host[HOST_BYTES];
    const char *service;
    struct curl_slist *headers;
    CURL *easy;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;

    /* under the mutex */
    struct span *queue;
    int n_queue;
    int64_t due_ms;              /* when the first of the queue has waited long enough */
    bool closing, away;          /* away: the last request has failed */
    int64_t closed_ms, limit_ms; /* when the flush began, and how long it may take */
    struct otlp_stats stats;

    /* the thread's */
    struct span *batch;
    int n_batch;
    int left_out; /* of the batch, in its last request */
    int failures; /* requests in a row */
    char error[CURL_ERROR_SIZE];
};

/* --- the queue --- */

void otlp_put(struct otlp *o, struct span *s)
{
    (void)pthread_mutex_lock(&o->mutex);
    bool full = o->n_queue == OTLP_QUEUE_SPANS;
    if (full) {
        o->stats.dropped++;
    } else {
        DL_APPEND(o->queue, s);
        o->due_ms = o->n_queue == 0 ? now_ms() + OTLP_BATCH_MS : o->due_ms;
        o->n_queue++;
        if (o->n_queue == 1 || o->n_queue == OTLP_BATCH_SPANS) {
            (void)pthread_cond_signal(&o->wake);
        }
    }
    (void)pthread_mutex_unlock(&o->mutex);
    if (full) {
        free(s);
    }
}

void otlp_stats(struct otlp *o, struct otlp_stats *ret)
{
    *ret = (struct otlp_stats){0};
    if (o) {
        (void)pthread_mutex_lock(&o->mutex);
        *ret = o->stats;
        (void)pthread_mutex_unlock(&o->mutex);
    }
}

static void free_spans(struct span **list, int *n)
{
    struct span *s, *next;
    DL_FOREACH_SAFE(*list, s, next)
    {
        free(s);
    }
    *list = NULL;
    *n = 0;
}

static void take_batch(struct otlp *o)
{
    while (o->queue && o->n_batch < OTLP_BATCH_SPANS) {
        struct span *s = o->queue;
        DL_DELETE(o->queue, s);
        DL_APPEND(o->batch, s);
        o->n_queue--;
        o->n_batch++;
    }
    o->due_ms = now_ms() + OTLP_BATCH_MS; /* of what came later */
}

/* --- one request --- */

/* An answer's body says nothing that we need. */
static size_t forget(char *data, size_t one, size_t bytes, void *to)
{
    (void)data;
    (void)to;
    return one * bytes;
}

/* Of the flush. Under the mutex. */
static int64_t end_ms(const struct otlp *o)
{
    bool is_short = o->away && o->limit_ms > OTLP_AWAY_LIMIT_MS;
    return o->closed_ms + (is_short ? OTLP_AWAY_LIMIT_MS : o->limit_ms);
}

/* How long may the request take? */
static int64_t request_left(struct otlp *o, int64_t begun_ms)
{
    (void)pthread_mutex_lock(&o->mutex);
    int64_t until_ms = begun_ms + OTLP_REQUEST_LIMIT_MS;
    if (o->closing && end_ms(o) < until_ms) {
        until_ms = end_ms(o);
    }
    (void)pthread_mutex_unlock(&o->mutex);
    return until_ms - now_ms();
}

/* Until it is over, or out of time. otlp_close() wakes it up. */
static CURLcode transfer(struct otlp *o)
{
    int64_t begun_ms = now_ms(), left_ms;
    int running = 1, n;
    CURLcode code = CURLE_OPERATION_TIMEDOUT;
    (void)curl_multi_add_handle(o->multi, o->easy);
    while (curl_multi_perform(o->multi, &running) == CURLM_OK && running &&
           (left_ms = request_left(o, begun_ms)) > 0) {
        (void)curl_multi_poll(o->multi, NULL, 0, (int)left_ms, NULL);
    }
    CURLMsg *message = curl_multi_info_read(o->multi, &n);
    if (message && message->msg == CURLMSG_DONE) {
        code = message->data.result;
    }
    (void)curl_multi_remove_handle(o->multi, o->easy);
    return code;
}

enum answer { ANSWER_TAKEN, ANSWER_LATER, ANSWER_REFUSED };

/* https://opentelemetry.io/docs/specs/otlp/#otlphttp-response: which ones to try again */
static enum answer judge(struct otlp *o, CURLcode code)
{
    long status = 0;
    if (code != CURLE_OK) {
        if (!*o->error) {
            (void)snprintf(o->error, sizeof o->error, "%s", curl_easy_strerror(code));
        }
        return ANSWER_LATER;
    }
    (void)curl_easy_getinfo(o->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
        return ANSWER_TAKEN;
    }
    (void)snprintf(o->error, sizeof o->error, "it answered HTTP %ld", status);
    bool later = status == 429 || (status >= 502 && status <= 504);
    return later ? ANSWER_LATER : ANSWER_REFUSED;
}

static enum answer send_batch(struct otlp *o)
{
    char *body = span_json(o->batch, o->service, o->host, getpid(), &o->left_out);
    if (!body) {
        (void)snprintf(o->error, sizeof o->error, "out of memory");
        return ANSWER_REFUSED;
    }
    o->error[0] = '\0';
    (void)curl_easy_setopt(o->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    (void)curl_easy_setopt(o->easy, CURLOPT_POSTFIELDS, body);
    enum answer answer = judge(o, transfer(o));
    free(body);
    return answer;
}

/* --- the thread --- */

/* Said when it begins and when it is over, never for each try. */
static void say(struct otlp *o, bool taken)
{
    if (taken && o->failures > 0) {
        log_event(LOG_INFO, LOG_EVENT("spans_sent_again"), LOG_TEXT("url", o->url));
    } else if (!taken && o->failures == 0) {
        log_event(LOG_WARNING, LOG_EVENT("spans_not_sent"), LOG_TEXT("url", o->url),
                  LOG_TEXT("error", o->error));
    }
    o->failures = taken ? 0 : o->failures + 1;
}

/* Under the mutex. */
static void wait_until(struct otlp *o, int64_t until_ms)
{
    struct timespec until = now_after(until_ms - now_ms());
    (void)pthread_cond_clockwait(&o->wake, &o->mutex, CLOCK_MONOTONIC, &until);
}

/* For a whole batch, or until the first span has waited for long enough. Under the mutex. */
static void await_batch(struct otlp *o)
{
    while (!o->closing && o->n_batch == 0 &&
           (o->n_queue == 0 || (o->n_queue < OTLP_BATCH_SPANS && now_ms() < o->due_ms))) {
        wait_until(o, o->n_queue == 0 ? now_ms() + OTLP_PAUSE_MAX_MS : o->due_ms);
    }
    take_batch(o);
}

/* Under the mutex. */
static void settle_batch(struct otlp *o, enum answer answer, bool last)
{
    bool over = answer != ANSWER_LATER || last;
    o->away = answer == ANSWER_LATER;
    if (over) {
        int sent = answer == ANSWER_TAKEN ? o->n_batch - o->left_out : 0;
        o->stats.sent += sent;
        o->stats.dropped += o->n_batch - sent;
        free_spans(&o->batch, &o->n_batch);
    }
    int64_t until_ms = now_ms() + now_pause_ms(o->failures, OTLP_PAUSE_MIN_MS, OTLP_PAUSE_MAX_MS);
    while (!over && !o->closing && now_ms() < until_ms) {
        wait_until(o, until_ms);
    }
}

/* At the end there is one try for each batch, and none after one that failed. ret: continue */
static bool turn(struct otlp *o)
{
    await_batch(o);
    bool last = o->closing, taken = true;
    if (o->n_batch > 0) {
        (void)pthread_mutex_unlock(&o->mutex);
        enum answer answer = send_batch(o);
        taken = answer == ANSWER_TAKEN;
        say(o, taken);
        (void)pthread_mutex_lock(&o->mutex);
        settle_batch(o, answer, last);
    }
    bool left = o->queue || o->batch;
    return !o->closing || (left && (taken || !last) && now_ms() < end_ms(o));
}

static void *run(void *arg)
{
    struct otlp *o = arg;
    (void)pthread_mutex_lock(&o->mutex);
    while (turn(o)) {
    }
    o->stats.dropped += o->n_queue + o->n_batch;
    free_spans(&o->queue, &o->n_queue);
    free_spans(&o->batch, &o->n_batch);
    (void)pthread_mutex_unlock(&o->mutex);
    return NULL;
}

/* --- start and end --- */

static bool add_header(struct otlp *o, const char *header)
{
    struct curl_slist *list = curl_slist_append(o->headers, header);
    o->headers = list ? list : o->headers;
    return list != NULL;
}

/* "name=value": the value is percent-encoded. */
static bool add_pair(struct otlp *o, char *pair, struct fault *f)
{
    char header[4096];
    int bytes = 0;
    char *equals = strchr(pair, '=');
    if (!equals || equals == pair) {
        return fault_set(f, FAULT_CONFIG,
                         "OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE,NAME=VALUE...");
    }
    *equals = '\0';
    char *value = curl_easy_unescape(o->easy, equals + 1, 0, &bytes);
    bool ok = value;
    bool fits = ok && !strpbrk(value, "\r\n") && !strpbrk(pair, ":\r\n") &&
                snprintf(header, sizeof header, "%s: %s", pair, value) < (int)sizeof header;
    curl_free(value);
    if (ok && !fits) {
        return fault_set(f, FAULT_CONFIG, "OTEL_EXPORTER_OTLP_HEADERS: %s is not a header", pair);
    }
    return (ok && add_header(o, header)) || fault_memory(f);
}

static bool read_headers(struct otlp *o, struct fault *f)
{
    const char *text = getenv("OTEL_EXPORTER_OTLP_HEADERS");
    char *copy = strdup(text ? text : ""), *rest = copy, *pair;
    bool ok = copy && add_header(o, "Content-Type: application/json") && add_header(o, "Expect:");
    if (!ok) {
        (void)fault_memory(f);
    }
    for (int n = 0; ok && n < OTLP_HEADERS_MAX && (pair = strsep(&rest, ","));) {
        pair += strspn(pair, " \t");
        ok = !*pair || add_pair(o, pair, f);
        n += *pair != '\0';
    }
    free(copy);
    return ok;
}

static void set_up(struct otlp *o)
{
    const char *authorities = getenv("SSL_CERT_FILE"); /* which libcurl does not read */
    CURL *e = o->easy;
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    (void)curl_easy_setopt(e, CURLOPT_URL, o->url);
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L); /* a look-up that hangs is left to itself */
#endif
    (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, o->headers);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "tenon/" TENON_VERSION);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_LIMIT_MS);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, forget);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, o->error);
    if (authorities && *authorities) {
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, authorities);
    }
}

static void otlp_free(struct otlp *o)
{
    if (o->multi) {
        (void)curl_multi_cleanup(o->multi);
    }
    curl_easy_cleanup(o->easy);
    curl_slist_free_all(o->headers);
    curl_global_cleanup();
    (void)pthread_mutex_destroy(&o->mutex);
    (void)pthread_cond_destroy(&o->wake);
    free(o);
}

/* The standard's: the path of traces is added to the URL of all signals. */
static bool set_url(struct otlp *o, const char *url, struct fault *f)
{
    size_t bytes = strlen(url);
    while (bytes > 0 && url[bytes - 1] == '/') {
        bytes--;
    }
    int n = snprintf(o->url, sizeof o->url, "%.*s/v1/traces", (int)bytes, url);
    return n < (int)sizeof o->url ||
           fault_set(f, FAULT_CONFIG, "the URL of the collector is longer than %d bytes",
                     URL_BYTES);
}

static bool open_library(struct otlp *o, struct fault *f)
{
    o->easy = curl_easy_init();
    o->multi = curl_multi_init();
    return (o->easy && o->multi) || fault_memory(f);
}

/* What spans say of this process: JSON takes UTF-8 only. */
static bool set_names(struct otlp *o, struct fault *f)
{
    const char *service = getenv("OTEL_SERVICE_NAME");
    o->service = service && *service ? service : "tenon";
    if (gethostname(o->host, sizeof o->host - 1) != 0 || !text_is_utf8(o->host)) {
        o->host[0] = '\0';
    }
    return text_is_utf8(o->service) ||
           fault_set(f, FAULT_CONFIG, "OTEL_SERVICE_NAME is not UTF-8: set it to a name that is");
}

bool otlp_open(const char *url, struct otlp **ret, struct fault *f)
{
    *ret = NULL;
    if (!url) {
        return true;
    }
    struct otlp *o = calloc(1, sizeof *o);
    if (!o || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(o);
        return fault_memory(f);
    }
    (void)pthread_mutex_init(&o->mutex, NULL);
    (void)pthread_cond_init(&o->wake, NULL);
    if (!open_library(o, f) || !set_names(o, f) || !set_url(o, url, f) || !read_headers(o, f)) {
        otlp_free(o);
        return false;
    }
    set_up(o);
    if (!thread_start(&o->thread, 0, run, o, "spans", f)) {
        otlp_free(o);
        return false;
    }
    *ret = o;
    return true;
}

bool otlp_close(struct otlp *o, int64_t limit_ms)
{
    if (!o) {
        return true;
    }
    (void)pthread_mutex_lock(&o->mutex);
    o->closing = true;
    o->closed_ms = now_ms();
    o->limit_ms = limit_ms;
    (void)pthread_cond_signal(&o->wake);
    (void)pthread_mutex_unlock(&o->mutex);
    (void)curl_multi_wakeup(o->multi);
    if (!thread_join(o->thread, limit_ms + END_PATIENCE_MS)) {
        return false;
    }
    otlp_free(o);
    return true;
}

const char *otlp_library_version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}
