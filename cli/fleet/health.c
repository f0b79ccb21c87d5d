/* `tenon health`: the answer of a worker or cleaner, over HTTP, to whether it does its work. */
#include "cli/command.h"
#include "core/base/buf.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum { ANSWER_LIMIT_MS = 5000, ANSWER_BYTES_MAX = 1000, URL_BYTES = 300 };

static size_t take(char *data, size_t size, size_t n, void *answer)
{
    buf_put(answer, data, size * n);
    return size * n;
}

/* ret: the status of the answer, 0 = there was none. */
static long ask(CURL *easy, const char *url, struct buf *answer, char error[CURL_ERROR_SIZE])
{
    long status = 0;
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ANSWER_LIMIT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    if (curl_easy_perform(easy) == CURLE_OK) {
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    }
    return status;
}

static bool judge(const char *url, long status, struct buf *answer, const char *error,
                  struct fault *f)
{
    while (answer->len > 0 && answer->data[answer->len - 1] == '\n') {
        answer->len--;
    }
    const char *text = buf_text(answer);
    if (status == 200) {
        (void)puts(text);
        return true;
    }
    return status == 0 ? fault_set(f, FAULT_RETRY, "no answer from %s: %s", url, error)
                       : fault_set(f, FAULT_RETRY, "%s", *text ? text : "the answer is empty");
}

bool health_run(const struct options *o, struct fault *f)
{
    char url[URL_BYTES], error[CURL_ERROR_SIZE] = "";
    struct buf answer;
    const char *address = option_text(o, OPTION_HTTP);
    if (!address) {
        return fault_set(f, FAULT_CONFIG,
                         "no address: give --http or TENON_HTTP as the worker or "
                         "cleaner has it, such as 127.0.0.1:7071");
    }
    CURL *easy = curl_easy_init();
    if (!easy) {
        return fault_memory(f);
    }
    (void)snprintf(url, sizeof url, "http://%s/%s", address,
                   option_flag(o, OPTION_LIVE) ? "live" : "ready");
    buf_init(&answer, ANSWER_BYTES_MAX);
    long status = ask(easy, url, &answer, error);
    bool ok = judge(url, status, &answer, error, f);
    buf_clear(&answer);
    curl_easy_cleanup(easy);
    return ok;
}
