#include "enqueue/params.h"

#include "core/base/array.h"

#include <stdio.h>
#include <stdlib.h>

static const char *number(char text[PARAMS_NUMBER_BYTES], int64_t value, int64_t none)
{
    (void)snprintf(text, PARAMS_NUMBER_BYTES, "%lld", (long long)value);
    return value == none ? NULL : text;
}

/* In seconds: before PostgreSQL 15 a number of milliseconds has 32 bits. What is longer than so
 * many seconds is refused by the database all the same. */
static const char *interval(char text[PARAMS_NUMBER_BYTES], int64_t ms)
{
    const int64_t most = INT64_C(2000000000000);
    int64_t held = ms > most ? most : ms < -most ? -most : ms;
    (void)snprintf(text, PARAMS_NUMBER_BYTES, "%s%lld.%03lld seconds", held < 0 ? "-" : "",
                   llabs(held / 1000), llabs(held % 1000));
    return ms == 0 ? NULL : text;
}

static const char *texts_of(struct buf *b, const char *const *texts, size_t n)
{
    buf_init(b, PARAMS_ARRAY_BYTES_MAX);
    if (n == 0) {
        return NULL; /* and nothing is allocated */
    }
    array_begin(b);
    for (size_t i = 0; i < n; i++) {
        array_put_text(b, texts[i]);
    }
    return array_end(b);
}

static const char *ids_of(struct buf *b, const int64_t *ids, size_t n)
{
    buf_init(b, PARAMS_ARRAY_BYTES_MAX);
    if (n == 0) {
        return NULL; /* and nothing is allocated */
    }
    array_begin(b);
    for (size_t i = 0; i < n; i++) {
        array_put_int(b, ids[i]);
    }
    return array_end(b);
}

static bool starts_at_once(const tenon_task *t)
{
    return !t->run_at && t->delay_ms == 0 && t->debounce_ms == 0 && t->n_depends_on == 0 &&
           t->n_limit_keys == 0;
}

bool params_fill(struct params *p, const tenon_task *task, bool announced)
{
    p->announced = announced && starts_at_once(task);
    const char *values[PARAMS_N] = {
        task->kind,
        task->payload ? task->payload : "{}",
        task->queue,
        number(p->numbers[0], task->priority, -1),
        task->run_at,
        interval(p->numbers[1], task->delay_ms),
        task->unique_key,
        task->on_conflict,
        interval(p->numbers[2], task->unique_for_ms),
        interval(p->numbers[3], task->debounce_ms),
        interval(p->numbers[4], task->debounce_max_ms),
        task->start_before,
        number(p->numbers[5], task->max_attempts, 0),
        interval(p->numbers[6], task->timeout_ms),
        task->retry,
        texts_of(&p->limit_keys, task->limit_keys, task->n_limit_keys),
        number(p->numbers[7], task->flow, 0),
        ids_of(&p->depends_on, task->depends_on, task->n_depends_on),
        task->on_parent_dead,
        texts_of(&p->tags, task->tags, task->n_tags),
        task->trace,
        task->prepared ? "false" : "true",
        p->announced ? "true" : "false",
    };
    for (size_t i = 0; i < PARAMS_N; i++) {
        p->values[i] = values[i];
    }
    return !p->limit_keys.failed && !p->depends_on.failed && !p->tags.failed;
}

void params_clear(struct params *p)
{
    buf_clear(&p->limit_keys);
    buf_clear(&p->depends_on);
    buf_clear(&p->tags);
}
