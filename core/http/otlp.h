/* Spans on their way to a collector: OTLP over HTTP, as JSON. The only file of the program tenon
 * that calls libcurl.
 *
 * A thread of its own sends them in batches. Nobody waits for it: what its queue does not take is
 * dropped, and counted. What cannot be sent for now is kept and tried again; meanwhile the queue
 * fills up. */
#ifndef TENON_CORE_OTLP_H
#define TENON_CORE_OTLP_H

#include "core/base/fault.h"
#include "core/http/span.h"

enum {
    OTLP_QUEUE_SPANS = 8192, /* that wait; the next is dropped */
    OTLP_BATCH_SPANS = 512,  /* of one request */
    OTLP_BATCH_MS = 1000,    /* how long the first of a batch waits for others */
    OTLP_REQUEST_LIMIT_MS = 10000,
    OTLP_PAUSE_MIN_MS = 1000, /* after a request that failed, twice as long each time */
    OTLP_PAUSE_MAX_MS = 30000,
    OTLP_FLUSH_LIMIT_MS = 2000, /* of what is left at the end, */
    OTLP_AWAY_LIMIT_MS = 250,   /* or this long, when the last request has failed */
    OTLP_HEADERS_MAX = 32,      /* of OTEL_EXPORTER_OTLP_HEADERS */
};

struct otlp;

struct otlp_stats {
    int64_t sent, dropped; /* spans */
};

/* Start the thread. Reads OTEL_SERVICE_NAME and OTEL_EXPORTER_OTLP_HEADERS.
 *   url     of the collector, such as http://localhost:4318; NULL = none, and *ret is NULL, which
 *           all others take
 *   false   CONFIG: the name is not UTF-8, the headers cannot be read; RETRY: no thread; MEMORY */
MUST_CHECK bool otlp_open(const char *url, struct otlp **ret, struct fault *f);

/* Takes a span over. Never waits for the collector. */
void otlp_put(struct otlp *o, struct span *s);

void otlp_stats(struct otlp *o, struct otlp_stats *ret);

/* Send the remaining spans within this time, and end the thread. Spans that are not sent by then
 * are lost.
 *   false   the thread hangs in a look-up, as before libcurl 7.87 it does, and still uses what it
 *           has: the process must end */
bool otlp_close(struct otlp *o, int64_t limit_ms);

const char *otlp_library_version(void); /* of libcurl */

#endif
