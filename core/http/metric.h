/* Prometheus' text format, version 0.0.4: a family of metrics is its head and then its lines. */
#ifndef TENON_CORE_METRIC_H
#define TENON_CORE_METRIC_H

#include "core/base/buf.h"

#define METRIC_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct label {
    const char *name, *value; /* the value may be any text */
};

/* LABELS({"queue", q}, {"state", "ready"}) */
#define LABELS(...) ((const struct label[]){__VA_ARGS__, {NULL, NULL}})
#define NO_LABELS ((const struct label *)NULL)

/*   type   "counter", "gauge" or "histogram"      help   one sentence */
void metric_head(struct buf *b, const char *name, const char *type, const char *help);

/*   labels   until a NULL name; NULL = none */
void metric_int(struct buf *b, const char *name, const struct label *labels, int64_t value);
void metric_seconds(struct buf *b, const char *name, const struct label *labels, int64_t us);

/* A family of one line without labels. */
void metric_gauge(struct buf *b, const char *name, const char *help, int64_t value);
void metric_counter(struct buf *b, const char *name, const char *help, int64_t value);

#endif
