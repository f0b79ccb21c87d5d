#include "core/http/series.h"

#include "core/http/metric.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = 512, NAME_BYTES = 128 }; /* TABLE: a power of two, over 2 * SERIES_MAX */

struct histogram {
    _Atomic int64_t buckets[SERIES_BUCKETS + 1]; /* each for itself */
    _Atomic int64_t sum_us;
};

struct pair {
    char queue[NAME_BYTES], kind[NAME_BYTES];
    _Atomic int64_t counters[SERIES_COUNTERS];
    struct histogram times[SERIES_TIMES];
};

struct series {
    atomic_size_t n; /* a pair is whole before it counts */
    struct pair pairs[SERIES_MAX];
    struct pair other;
    size_t table[TABLE]; /* open addressing; 0 = free, else the pair's number + 1 */
};

/* tenon.minute keeps what is counted between them: a change needs a migration of its rows. */
const struct series_bound series_bounds[SERIES_BUCKETS] = {
    {5000, "0.005"},      {10000, "0.01"},      {25000, "0.025"},       {50000, "0.05"},
    {100000, "0.1"},      {250000, "0.25"},     {500000, "0.5"},        {1000000, "1"},
    {2500000, "2.5"},     {5000000, "5"},       {10000000, "10"},       {30000000, "30"},
    {60000000, "60"},     {120000000, "120"},   {300000000, "300"},     {600000000, "600"},
    {1800000000, "1800"}, {7200000000, "7200"}, {86400000000, "86400"},
};

/* Only one thread writes: no instruction has to lock anything. */
static void add(_Atomic int64_t *to, int64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static int64_t value_of(_Atomic int64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

struct series *series_new(void)
{
    struct series *s = calloc(1, sizeof *s);
    if (s) {
        memcpy(s->other.queue, SERIES_OTHER, sizeof SERIES_OTHER);
        memcpy(s->other.kind, SERIES_OTHER, sizeof SERIES_OTHER);
    }
    return s;
}

void series_free(struct series *s)
{
    free(s);
}

/* FNV-1a */
static size_t hash_of(const char *queue, const char *kind)
{
    uint32_t h = 2166136261U;
    for (const char *at = queue; *at; at++) {
        h = (h ^ (unsigned char)*at) * 16777619U;
    }
    h = (h ^ '/') * 16777619U;
    for (const char *at = kind; *at; at++) {
        h = (h ^ (unsigned char)*at) * 16777619U;
    }
    return h;
}

static struct pair *pair_add(struct series *s, size_t *place, const char *queue, const char *kind)
{
    size_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    size_t queue_bytes = strlen(queue) + 1, kind_bytes = strlen(kind) + 1;
    if (n == SERIES_MAX || queue_bytes > NAME_BYTES || kind_bytes > NAME_BYTES) {
        return &s->other;
    }
    memcpy(s->pairs[n].queue, queue, queue_bytes);
    memcpy(s->pairs[n].kind, kind, kind_bytes);
    *place = n + 1;
    atomic_store_explicit(&s->n, n + 1, memory_order_release);
    return &s->pairs[n];
}

struct pair *series_of(struct series *s, const char *queue, const char *kind)
{
    size_t i = hash_of(queue, kind) & (TABLE - 1);
    for (; s->table[i]; i = (i + 1) & (TABLE - 1)) {
        struct pair *p = &s->pairs[s->table[i] - 1];
        if (strcmp(p->kind, kind) == 0 && strcmp(p->queue, queue) == 0) {
            return p;
        }
    }
    return pair_add(s, &s->table[i], queue, kind);
}

void series_count(struct pair *p, int counter)
{
    add(&p->counters[counter], 1);
}

void series_time(struct pair *p, int histogram, int64_t us)
{
    struct histogram *h = &p->times[histogram];
    int i = 0;
    while (i < SERIES_BUCKETS && us > series_bounds[i].us) {
        i++;
    }
    add(&h->buckets[i], 1);
    add(&h->sum_us, us);
}

/* --- reading -------------------------------------------------------------------------------- */

static size_t count_of(struct series *s)
{
    return atomic_load_explicit(&s->n, memory_order_acquire);
}

/* After the `n` that have names comes the one of all others. */
static struct pair *pair_at(struct series *s, size_t i, size_t n)
{
    return i < n ? &s->pairs[i] : &s->other;
}

static int64_t times_of(struct histogram *h)
{
    int64_t n = 0;
    for (int i = 0; i <= SERIES_BUCKETS; i++) {
        n += value_of(&h->buckets[i]);
    }
    return n;
}

bool series_read(struct series *s, size_t i, struct series_sums *ret)
{
    size_t n = count_of(s);
    if (i >= n && i != SERIES_MAX) {
        return false;
    }
    struct pair *p = pair_at(s, i, n);
    *ret = (struct series_sums){.queue = p->queue, .kind = p->kind};
    for (int j = 0; j < SERIES_COUNTERS; j++) {
        ret->counters[j] = value_of(&p->counters[j]);
    }
    for (int j = 0; j < SERIES_TIMES; j++) {
        ret->times_us[j] = value_of(&p->times[j].sum_us);
        for (int k = 0; k <= SERIES_BUCKETS; k++) {
            ret->buckets[j][k] = value_of(&p->times[j].buckets[k]);
            ret->times[j] += ret->buckets[j][k];
        }
    }
    return true;
}

/* All counters of a pair with names, so that the first that is counted is an increase. */
static void write_counters(struct pair *p, struct buf *b, const char *name, const char *label,
                           const char *const *words, int n)
{
    bool is_other = strcmp(p->queue, SERIES_OTHER) == 0;
    for (int i = 0; i < n; i++) {
        int64_t value = value_of(&p->counters[i]);
        if (value > 0 || !is_other) {
            metric_int(b, name, LABELS({"queue", p->queue}, {"kind", p->kind}, {label, words[i]}),
                       value);
        }
    }
}

void series_write_counters(struct series *s, struct buf *b, const char *name, const char *help,
                           const char *label, const char *const *words, int n)
{
    size_t pairs = count_of(s);
    metric_head(b, name, "counter", help);
    for (size_t i = 0; i <= pairs; i++) {
        write_counters(pair_at(s, i, pairs), b, name, label, words, n);
    }
}

/* The count is that of the buckets that were read, whatever is counted meanwhile. */
static void write_times(struct pair *p, struct buf *b, int histogram, const char *bucket,
                        const char *sum, const char *count)
{
    struct histogram *h = &p->times[histogram];
    if (times_of(h) == 0) {
        return;
    }
    const char *queue = p->queue, *kind = p->kind;
    int64_t n = 0;
    for (int i = 0; i <= SERIES_BUCKETS; i++) {
        n += value_of(&h->buckets[i]);
        metric_int(b, bucket,
                   LABELS({"queue", queue}, {"kind", kind},
                          {"le", i < SERIES_BUCKETS ? series_bounds[i].text : "+Inf"}),
                   n);
    }
    metric_seconds(b, sum, LABELS({"queue", queue}, {"kind", kind}), value_of(&h->sum_us));
    metric_int(b, count, LABELS({"queue", queue}, {"kind", kind}), n);
}

void series_write_times(struct series *s, struct buf *b, int histogram, const char *name,
                        const char *help)
{
    struct buf names[3];
    static const char *const ends[] = {"_bucket", "_sum", "_count"};
    size_t pairs = count_of(s);
    for (int i = 0; i < 3; i++) {
        buf_init(&names[i], NAME_BYTES);
        buf_printf(&names[i], "%s%s", name, ends[i]);
    }
    metric_head(b, name, "histogram", help);
    for (size_t i = 0; i <= pairs; i++) {
        write_times(pair_at(s, i, pairs), b, histogram, buf_text(&names[0]), buf_text(&names[1]),
                    buf_text(&names[2]));
    }
    for (int i = 0; i < 3; i++) {
        b->failed = b->failed || names[i].failed;
        buf_clear(&names[i]);
    }
}
