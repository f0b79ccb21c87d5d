#include "worker/bounds.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

bool bounds_init(struct bounds *b, size_t n_queues, struct fault *f)
{
    *b = (struct bounds){.n_queues = n_queues};
    b->from_us = calloc(n_queues * BOUNDS_PRIORITIES, sizeof *b->from_us);
    b->seen_us = calloc(n_queues * BOUNDS_PRIORITIES, sizeof *b->seen_us);
    return (b->from_us && b->seen_us) || fault_memory(f);
}

void bounds_clear(struct bounds *b)
{
    free(b->from_us);
    free(b->seen_us);
    *b = (struct bounds){0};
}

void bounds_start(struct bounds *b, unsigned turn, bool front, int64_t now_ms, struct buf *array)
{
    b->front = front || now_ms >= b->next_front_ms;
    b->started_ms = now_ms;
    memset(b->seen_us, 0, b->n_queues * BOUNDS_PRIORITIES * sizeof *b->seen_us);
    array_begin(array);
    for (size_t i = 0; !b->front && i < b->n_queues; i++) {
        size_t queue = (i + turn) % b->n_queues;
        for (size_t priority = 0; priority < BOUNDS_PRIORITIES; priority++) {
            array_put_int(array, b->from_us[queue * BOUNDS_PRIORITIES + priority]);
        }
    }
}

void bounds_saw(struct bounds *b, size_t queue, int32_t priority, int64_t run_at_us)
{
    int64_t *seen_us = &b->seen_us[queue * BOUNDS_PRIORITIES + (size_t)priority];
    *seen_us = run_at_us > *seen_us ? run_at_us : *seen_us;
}

/* After a look from the front that took so long, for how long none follows. */
static int64_t front_rest_ms(int64_t took_ms)
{
    int64_t rest_ms = BOUNDS_FRONT_SHARE * took_ms;
    if (rest_ms > BOUNDS_FRONT_REST_MAX_MS) {
        return BOUNDS_FRONT_REST_MAX_MS;
    }
    return rest_ms > BOUNDS_FRONT_EVERY_MS ? rest_ms : BOUNDS_FRONT_EVERY_MS;
}

void bounds_end(struct bounds *b, bool full, int64_t now_ms)
{
    for (size_t i = 0; i < b->n_queues * BOUNDS_PRIORITIES; i++) {
        /* a full look from the front may have left tasks behind that lie before the bound */
        bool lower = b->front && full && b->seen_us[i] > 0;
        if (lower || b->seen_us[i] > b->from_us[i]) {
            b->from_us[i] = b->seen_us[i];
        }
    }
    if (b->front) {
        b->next_front_ms = now_ms + front_rest_ms(now_ms - b->started_ms);
    }
}
