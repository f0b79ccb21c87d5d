#include "core/http/metric.h"

enum { US_PER_S = 1000000 };

static void put_escaped(struct buf *b, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\n') {
            buf_put_text(b, "\\n");
            continue;
        }
        if (*text == '\\' || (quotes && *text == '"')) {
            buf_put_char(b, '\\');
        }
        buf_put_char(b, *text);
    }
}

static void put_name(struct buf *b, const char *name, const struct label *labels)
{
    buf_put_text(b, name);
    for (size_t i = 0; labels && labels[i].name; i++) {
        buf_put_char(b, i ? ',' : '{');
        buf_put_text(b, labels[i].name);
        buf_put_text(b, "=\"");
        put_escaped(b, labels[i].value, true);
        buf_put_char(b, '"');
    }
    buf_put_text(b, labels && labels[0].name ? "} " : " ");
}

void metric_head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s ", name);
    put_escaped(b, help, false);
    buf_printf(b, "\n# TYPE %s %s\n", name, type);
}

void metric_int(struct buf *b, const char *name, const struct label *labels, int64_t value)
{
    put_name(b, name, labels);
    buf_put_int(b, value);
    buf_put_char(b, '\n');
}

void metric_seconds(struct buf *b, const char *name, const struct label *labels, int64_t us)
{
    int64_t positive = us < 0 ? 0 : us; /* a clock that was set */
    put_name(b, name, labels);
    buf_printf(b, "%lld.%06lld\n", (long long)(positive / US_PER_S),
               (long long)(positive % US_PER_S));
}

void metric_gauge(struct buf *b, const char *name, const char *help, int64_t value)
{
    metric_head(b, name, "gauge", help);
    metric_int(b, name, NO_LABELS, value);
}

void metric_counter(struct buf *b, const char *name, const char *help, int64_t value)
{
    metric_head(b, name, "counter", help);
    metric_int(b, name, NO_LABELS, value);
}
