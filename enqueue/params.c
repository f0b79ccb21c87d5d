#include "enqueue/params.h"

#include <stdio.h>

static const char *number(char text[24], int64_t value, int64_t none)
{
    (void)snprintf(text, 24, "%lld", (long long)value);
    return value == none ? NULL : text;
}

/* An interval can hold this much; what is longer is refused by the database all the same. */
static int64_t span(int64_t ms)
{
    const int64_t most = INT64_C(1000000000000000);
    return ms > most ? most : ms < -most ? -most : ms;
}

bool params_fill(struct params *p, const tenon_task *task, bool announced)
{
    bool now = announced && !task->run_at && task->delay_ms == 0;
    const char *values[PARAMS_N] = {
        task->kind,
        task->payload ? task->payload : "{}",
        task->queue,
        number(p->numbers[0], task->priority, -1),
        task->run_at,
        number(p->numbers[1], span(task->delay_ms), 0),
        task->unique_key,
        number(p->numbers[2], task->max_attempts, 0),
        number(p->numbers[3], span(task->timeout_ms), 0),
        task->trace,
        task->prepared ? "false" : "true",
        now ? "true" : "false",
    };
    for (size_t i = 0; i < PARAMS_N; i++) {
        p->values[i] = values[i];
    }
    return now;
}
