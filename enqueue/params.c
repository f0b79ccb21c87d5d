#include "enqueue/params.h"

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

bool params_fill(struct params *p, const tenon_task *task, bool announced)
{
    bool now = announced && !task->run_at && task->delay_ms == 0 && task->debounce_ms == 0;
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
        task->trace,
        task->prepared ? "false" : "true",
        now ? "true" : "false",
    };
    for (size_t i = 0; i < PARAMS_N; i++) {
        p->values[i] = values[i];
    }
    return now;
}
