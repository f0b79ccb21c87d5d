#include "handlers/http_settings.h"

#include "core/base/file.h"
#include "handlers/pool.h"

#include <curl/curl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kind_mark[] = "{kind}";

void http_settings_help(void)
{
    (void)printf(
        "usage: tenon-http --url URL [OPTION]...\n\n"
        "A pool handler: POSTs the payload of each task to the URL. Start it from a worker:\n"
        "  tenon worker --handler 'KIND=pool:exec tenon-http --url https://api.example/hook'\n"
        "  --url URL           http:// or https://; {kind} in it is replaced by the task's kind\n"
        "  --secret-file FILE  sign what is sent; a secret of at least %d bytes on each line,\n"
        "                      at most %d: all of them sign\n"
        "  --headers FILE      headers to send, one on each line: Authorization: Bearer ...\n"
        "  --in-flight N       maximum requests at once, 1 to %d (default %d)\n"
        "  --retry-4xx         retry a task after a status of 3xx or 4xx; by default\n"
        "                      it is dead\n"
        "  --allow-private     loopback, private and link-local addresses are not refused\n"
        "  --ca-file FILE      authorities for the server's certificate, instead of the system's,\n"
        "                      whose file is SSL_CERT_FILE, if that is set\n"
        "docs/json-api.md says what the receiver gets and what its answers mean.\n",
        SECRET_BYTES_MIN, SECRETS_MAX, POOL_IN_FLIGHT_MAX, HTTP_IN_FLIGHT);
}

enum { FLAG_URL = 1, FLAG_SECRETS, FLAG_HEADERS, FLAG_IN_FLIGHT, FLAG_4XX, FLAG_PRIVATE, FLAG_CA };

static const struct option flags[] = {
    {"url", required_argument, NULL, FLAG_URL},
    {"secret-file", required_argument, NULL, FLAG_SECRETS},
    {"headers", required_argument, NULL, FLAG_HEADERS},
    {"in-flight", required_argument, NULL, FLAG_IN_FLIGHT},
    {"retry-4xx", no_argument, NULL, FLAG_4XX},
    {"allow-private", no_argument, NULL, FLAG_PRIVATE},
    {"ca-file", required_argument, NULL, FLAG_CA},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool read_in_flight(struct http_settings *s, const char *text, struct fault *f)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > POOL_IN_FLIGHT_MAX) {
        return fault_set(f, FAULT_CONFIG, "--in-flight is not a number from 1 to %d: %.60s",
                         POOL_IN_FLIGHT_MAX, text);
    }
    s->in_flight = (int)n;
    return true;
}

static bool read_flag(struct http_settings *s, int flag, char **argv, struct fault *f)
{
    switch (flag) {
    case FLAG_URL:
        s->url = optarg;
        return true;
    case FLAG_SECRETS:
        return secrets_read(&s->secrets, optarg, f);
    case FLAG_HEADERS:
        return file_read(optarg, "file of headers", HEADERS_FILE_BYTES_MAX, &s->headers, f);
    case FLAG_IN_FLIGHT:
        return read_in_flight(s, optarg, f);
    case FLAG_4XX:
        return s->retry_4xx = true;
    case FLAG_PRIVATE:
        return s->allow_private = true;
    case FLAG_CA:
        s->ca_file = optarg;
        return true;
    case 'h':
        return s->help = true;
    default:
        return fault_set(f, FAULT_CONFIG,
                         "%s is not an option, or its value is missing; see --help",
                         argv[optind - 1]);
    }
}

void http_settings_put_url(const struct http_settings *s, const char *kind, struct buf *url)
{
    const char *at = s->url, *mark;
    while ((mark = strstr(at, kind_mark))) {
        buf_put(url, at, (size_t)(mark - at));
        buf_put_text(url, kind);
        at = mark + sizeof kind_mark - 1;
    }
    buf_put_text(url, at);
}

/* A URL may hold a password: it is not printed. */
static bool check_url(const struct http_settings *s, struct fault *f)
{
    struct buf url;
    char *scheme = NULL;
    CURLU *parsed = curl_url();
    buf_init(&url, 8192);
    http_settings_put_url(s, "kind", &url);
    CURLUcode code = parsed ? curl_url_set(parsed, CURLUPART_URL, buf_text(&url), 0)
                            : CURLUE_OUT_OF_MEMORY;
    bool ok = code == CURLUE_OK && !url.failed &&
              curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    buf_clear(&url);
    return ok || fault_set(f, FAULT_CONFIG, "--url must begin with http:// or https://");
}

bool http_settings_read(struct http_settings *s, int argc, char **argv, struct fault *f)
{
    int flag;
    *s = (struct http_settings){.in_flight = HTTP_IN_FLIGHT};
    opterr = 0;
    while ((flag = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        if (!read_flag(s, flag, argv, f)) {
            return false;
        }
    }
    if (s->help) {
        return true;
    }
    if (optind < argc) {
        return fault_set(f, FAULT_CONFIG, "%.60s is not an option; see --help", argv[optind]);
    }
    return s->url ? check_url(s, f) : fault_set(f, FAULT_CONFIG, "--url is missing; see --help");
}

void http_settings_clear(struct http_settings *s)
{
    secrets_clear(&s->secrets);
    buf_clear(&s->headers);
}
