#include "intake/metrics.h"

#include "core/base/now.h"
#include "core/http/metric.h"
#include "core/http/probes.h"

#include <stdatomic.h>
#include <stdlib.h>

struct intake_metrics {
    struct probes *probes;
    struct probed probed;
    struct source *const *sources;
    size_t n;
    _Atomic int64_t moved_ms;
};

static bool is_live(void *owner, struct buf *sentence)
{
    struct intake_metrics *m = owner;
    return probes_moves(m->moved_ms, now_ms(), INTAKE_STILL_MAX_MS, sentence);
}

static bool is_ready(void *owner, struct buf *sentence)
{
    struct intake_metrics *m = owner;
    if (!is_live(m, sentence)) {
        return false;
    }
    buf_empty(sentence);
    for (size_t i = 0; i < m->n; i++) {
        struct source_stats s;
        source_stats(m->sources[i], &s);
        if (source_problem(&s)) {
            buf_printf(sentence, "it does not take messages of %s: %s", source_queue(m->sources[i]),
                       source_problem(&s));
            return false;
        }
    }
    buf_put_text(sentence, "it consumes");
    return true;
}

/* --- metrics ---------------------------------------------------------------------------------- */

static int64_t connected_of(const struct source_stats *s)
{
    return s->connected;
}
static int64_t database_of(const struct source_stats *s)
{
    return s->in_database;
}
static int64_t up_of(const struct source_stats *s)
{
    return !source_problem(s);
}
static int64_t waiting_of(const struct source_stats *s)
{
    return s->waiting;
}
static int64_t prefetch_of(const struct source_stats *s)
{
    return s->prefetch;
}
static int64_t commits_of(const struct source_stats *s)
{
    return s->commits;
}
static int64_t unkeyed_of(const struct source_stats *s)
{
    return s->total.unkeyed;
}

static const struct family {
    const char *name, *type, *help;
    int64_t (*of)(const struct source_stats *s);
} families[] = {
    {"tenon_intake_up", "gauge", "Does it take messages of this queue?", up_of},
    {"tenon_intake_broker_up", "gauge", "Is it connected to RabbitMQ for this queue?",
     connected_of},
    {"tenon_intake_database_up", "gauge", "Did PostgreSQL take the last messages of this queue?",
     database_of},
    {"tenon_intake_waiting", "gauge", "Messages that have arrived and are not committed.",
     waiting_of},
    {"tenon_intake_prefetch", "gauge", "How many messages may be on their way.", prefetch_of},
    {"tenon_intake_commits_total", "counter", "Transactions that took messages in.", commits_of},
    {"tenon_intake_unkeyed_total", "counter",
     "Messages that became tasks and cannot be recognized when they come again.", unkeyed_of},
};

static void write_messages(struct intake_metrics *m, struct buf *b)
{
    static const char name[] = "tenon_intake_messages_total";
    metric_head(b, name, "counter",
                "Messages that became tasks, had been seen before, or were rejected.");
    for (size_t i = 0; i < m->n; i++) {
        const char *queue = source_queue(m->sources[i]);
        struct source_stats s;
        source_stats(m->sources[i], &s);
        metric_int(b, name, LABELS({"queue", queue}, {"result", "taken"}), s.total.taken);
        metric_int(b, name, LABELS({"queue", queue}, {"result", "repeated"}), s.total.repeated);
        metric_int(b, name, LABELS({"queue", queue}, {"result", "rejected"}), s.total.rejected);
    }
}

static void write_offsets(struct intake_metrics *m, struct buf *b)
{
    metric_head(b, "tenon_intake_stream_offset", "gauge",
                "Where it continues to read this stream.");
    for (size_t i = 0; i < m->n; i++) {
        struct source_stats s;
        source_stats(m->sources[i], &s);
        if (s.next_offset >= 0) {
            metric_int(b, "tenon_intake_stream_offset",
                       LABELS({"queue", source_queue(m->sources[i])}), s.next_offset);
        }
    }
}

static void write_metrics(void *owner, struct buf *b)
{
    struct intake_metrics *m = owner;
    probes_write(b, "intake");
    write_messages(m, b);
    for (const struct family *f = families; f < families + sizeof families / sizeof *families;
         f++) {
        metric_head(b, f->name, f->type, f->help);
        for (size_t i = 0; i < m->n; i++) {
            struct source_stats s;
            source_stats(m->sources[i], &s);
            metric_int(b, f->name, LABELS({"queue", source_queue(m->sources[i])}), f->of(&s));
        }
    }
    write_offsets(m, b);
}

/* --- life ------------------------------------------------------------------------------------- */

bool intake_metrics_open(const char *address, struct source *const *sources, size_t n,
                         struct intake_metrics **ret, struct fault *f)
{
    struct intake_metrics *m = calloc(1, sizeof *m);
    if (!m) {
        return fault_memory(f);
    }
    m->sources = sources;
    m->n = n;
    m->probed =
        (struct probed){.owner = m, .live = is_live, .ready = is_ready, .metrics = write_metrics};
    if (!probes_open(address, &m->probed, &m->probes, f)) {
        free(m);
        return false;
    }
    *ret = m;
    return true;
}

void intake_metrics_note(struct intake_metrics *m, int64_t now_ms)
{
    if (m) {
        m->moved_ms = now_ms;
    }
}

void intake_metrics_close(struct intake_metrics *m)
{
    if (m) {
        probes_close(m->probes);
        free(m);
    }
}
