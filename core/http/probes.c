#include "core/http/probes.h"

#include "core/base/heap.h"
#include "core/base/log.h"
#include "core/http/http.h"
#include "core/http/metric.h"

#include <stdlib.h>
#include <string.h>

static const char plain[] = "text/plain; charset=utf-8";

struct probes {
    const struct probed *probed;
    struct http *http;
};

static void answer_probe(const struct probed *p, bool (*ask)(void *, struct buf *),
                         struct http_answer *a)
{
    a->type = plain;
    a->status = ask(p->owner, &a->body) ? 200 : 503;
    buf_put_char(&a->body, '\n');
}

static void on_request(void *owner, const struct http_request *r, struct http_answer *a)
{
    const struct probed *p = ((struct probes *)owner)->probed;
    bool reads = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    http_answer_header(a, "Cache-Control", "no-store");
    http_answer_header(a, "X-Content-Type-Options", "nosniff");
    if (reads && strcmp(r->path, "/metrics") == 0) {
        a->type = METRIC_TYPE;
        p->metrics(p->owner, &a->body);
    } else if (reads && strcmp(r->path, "/live") == 0) {
        answer_probe(p, p->live, a);
    } else if (reads && strcmp(r->path, "/ready") == 0) {
        answer_probe(p, p->ready, a);
    } else {
        a->status = reads ? 404 : 405;
        a->type = plain;
        buf_put_text(&a->body, "the paths are /metrics, /live and /ready; use GET\n");
    }
}

bool probes_open(const char *address, const struct probed *probed, struct probes **ret,
                 struct fault *f)
{
    struct probes *p = calloc(1, sizeof *p);
    if (!p) {
        return fault_memory(f);
    }
    p->probed = probed;
    if (!http_listen(address, &p->http, f) || !http_serve(p->http, on_request, p, f)) {
        probes_close(p);
        return fault_add(f, "--http");
    }
    log_event(LOG_INFO, LOG_EVENT("http_ready"), LOG_TEXT("listen", http_where(p->http)),
              LOG_TEXT("insecure", http_is_loopback(p->http) ? NULL : "HTTP not encrypted"));
    *ret = p;
    return true;
}

void probes_close(struct probes *p)
{
    if (p) {
        http_close(p->http);
        free(p);
    }
}

bool probes_moves(int64_t moved_ms, int64_t now_ms, int64_t limit_ms, struct buf *sentence)
{
    if (moved_ms == 0) {
        buf_put_text(sentence, "it starts");
        return true;
    }
    bool moves = now_ms - moved_ms < limit_ms;
    if (moves) {
        buf_put_text(sentence, "the main loop moves");
    } else {
        buf_printf(sentence, "the main loop has not moved for %lld s",
                   (long long)((now_ms - moved_ms) / 1000));
    }
    return moves;
}

void probes_write(struct buf *b, const char *part)
{
    metric_head(b, "tenon_build_info", "gauge", "What this process is; the value is 1.");
    metric_int(b, "tenon_build_info", LABELS({"part", part}, {"version", TENON_VERSION}), 1);
    metric_gauge(b, "tenon_heap_bytes", "Memory that the process has allocated.", heap_bytes());
}
