#include "worker/minute.h"

#include "core/base/array.h"
#include "worker/decide/tally.h"
#include "worker/statements.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 20 };

/* The columns of tenon.minute that are counted. */
enum column { STARTED, ENDED, DONE, FAILED, DEAD, WAIT_US, RUN_US, COLUMNS };

/* The parameters of minute.sql. */
enum {
    WORKER,
    QUEUES,
    KINDS,
    FIGURES,
    BUCKETS = FIGURES + COLUMNS,
    PARAMS = BUCKETS + SERIES_TIMES
};

struct figures {
    int64_t of[COLUMNS];
    int64_t buckets[SERIES_TIMES][SERIES_BUCKETS + 1];
};

struct minute {
    struct series *series;
    struct figures written[SERIES_MAX + 1], now[SERIES_MAX + 1];
};

struct minute *minute_new(struct series *s)
{
    struct minute *m = calloc(1, sizeof *m);
    if (m) {
        m->series = s;
    }
    return m;
}

void minute_free(struct minute *m)
{
    free(m);
}

static struct figures figures_of(const struct series_sums *s)
{
    const int64_t *n = s->counters;
    struct figures ret = {
        .of = {[STARTED] = s->times[TALLY_WAITS],
               [ENDED] = s->times[TALLY_RUNS],
               [DONE] = n[TALLY_DONE],
               [FAILED] = n[TALLY_FAILED] + n[TALLY_TIMED_OUT] + n[TALLY_CRASHED] + n[TALLY_DEAD],
               [DEAD] = n[TALLY_DEAD],
               [WAIT_US] = s->times_us[TALLY_WAITS],
               [RUN_US] = s->times_us[TALLY_RUNS]}};
    memcpy(ret.buckets, s->buckets, sizeof ret.buckets);
    return ret;
}

/* An array of the differences, as an element; without the zeros at its end. */
static void put_buckets(struct buf *array, const int64_t *now, const int64_t *written)
{
    struct buf one;
    int n = SERIES_BUCKETS + 1;
    buf_init(&one, BYTES_MAX);
    array_begin(&one);
    while (n > 0 && now[n - 1] == written[n - 1]) {
        n--;
    }
    for (int i = 0; i < n; i++) {
        array_put_int(&one, now[i] - written[i]);
    }
    const char *text = array_end(&one);
    array_put_text(array, text);
    array->failed = array->failed || !text;
    buf_clear(&one);
}

/* Each start and each end is in a bucket, too. */
static bool differ(const struct figures *one, const struct figures *two)
{
    for (int i = 0; i < COLUMNS; i++) {
        if (one->of[i] != two->of[i]) {
            return true;
        }
    }
    return false;
}

/* ret: how many pairs have something new */
static size_t gather(struct minute *m, struct buf arrays[PARAMS])
{
    size_t n = 0;
    struct series_sums sums;
    for (size_t i = 0; i <= SERIES_MAX; i++) {
        if (!series_read(m->series, i, &sums)) {
            continue;
        }
        m->now[i] = figures_of(&sums);
        if (!differ(&m->now[i], &m->written[i])) {
            continue;
        }
        n++;
        array_put_text(&arrays[QUEUES], sums.queue);
        array_put_text(&arrays[KINDS], sums.kind);
        for (int j = 0; j < COLUMNS; j++) {
            array_put_int(&arrays[FIGURES + j], m->now[i].of[j] - m->written[i].of[j]);
        }
        for (int j = 0; j < SERIES_TIMES; j++) {
            put_buckets(&arrays[BUCKETS + j], m->now[i].buckets[j], m->written[i].buckets[j]);
        }
    }
    return n;
}

bool minute_write(struct minute *m, struct db *db, const char *worker_id, int64_t limit_ms,
                  struct fault *f)
{
    struct buf arrays[PARAMS];
    const char *params[PARAMS] = {[WORKER] = worker_id};
    bool ok = true;
    for (int i = QUEUES; i < PARAMS; i++) {
        buf_init(&arrays[i], BYTES_MAX);
        array_begin(&arrays[i]);
    }
    size_t n = gather(m, arrays);
    for (int i = QUEUES; i < PARAMS; i++) {
        params[i] = array_end(&arrays[i]);
        ok = ok && params[i];
    }
    struct db_call call = {.statement = &sql_minute, .params = params, .n_params = PARAMS};
    ok = ok ? n == 0 || db_batch(db, &call, 1, limit_ms, NULL, f) : fault_memory(f);
    rows_free(call.rows);
    for (int i = QUEUES; i < PARAMS; i++) {
        buf_clear(&arrays[i]);
    }
    for (size_t i = 0; ok && i <= SERIES_MAX; i++) {
        m->written[i] = m->now[i];
    }
    return ok || fault_add(f, "could not write what was counted to tenon.minute");
}
