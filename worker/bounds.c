#include "worker/bounds.h"

#include "core/array.h"

#include <stdlib.h>

bool bounds_init(struct bounds *b, size_t n_queues, struct fault *f)
{
    *b = (struct bounds){.n_queues = n_queues};
    b->all = calloc(n_queues * BOUNDS_PRIORITIES, sizeof *b->all);
    return b->all || fault_memory(f);
}

void bounds_clear(struct bounds *b)
{
    free(b->all);
    *b = (struct bounds){0};
}

/* Of the queue that is number `place` in the look in progress. */
static struct bound *bound_at(struct bounds *b, size_t place, size_t priority)
{
    return &b->all[(place + b->turn) % b->n_queues * BOUNDS_PRIORITIES + priority];
}

/* Shall this look from the front be one over everything? Where others are busy it stands in their
 * way; so workers that started together do not do it together either. */
static bool wants_everything(struct bounds *b, int64_t now_ms)
{
    if (b->next_everything_ms == 0) {
        b->next_everything_ms = now_ms + BOUNDS_EVERYTHING_EVERY_MS / 2 +
                                now_ms % 1000 * (BOUNDS_EVERYTHING_EVERY_MS / 1000);
    }
    b->everything_due = now_ms >= b->next_everything_ms;
    return b->everything_due || b->found_nothing;
}

/* May the look in progress, which is partial, do without this one? One by age asks the priorities
 * below where the backlog lies, so that none starves; another one would not come to them. */
static bool is_left_out(const struct bounds *b, const struct bound *one, size_t priority)
{
    return one->vain || (!b->by_age && priority < b->lowest);
}

void bounds_start(struct bounds *b, unsigned turn, bool by_age, bool everything, int64_t now_ms,
                  struct buf *array)
{
    b->front = everything || now_ms >= b->next_front_ms;
    b->everything_due = false;
    everything = everything || (b->front && wants_everything(b, now_ms));
    /* what is hidden from other looks is the oldest in the end, wherever it lies */
    b->by_age = by_age || b->everything_due;
    b->partial = !b->front && now_ms < b->next_all_ms;
    b->started_ms = now_ms;
    b->turn = turn;
    array_begin(array);
    for (size_t i = 0; i < b->n_queues; i++) {
        for (size_t priority = 0; priority < BOUNDS_PRIORITIES; priority++) {
            struct bound *one = bound_at(b, i, priority);
            one->seen_us = one->others_us = 0;
            if (b->partial && is_left_out(b, one, priority)) {
                array_put_text(array, NULL);
            } else if (!everything) {
                bool shared = one->shared && !b->other_kinds;
                int64_t from_us = b->front ? 0 : one->from_us;
                array_put_int(array, shared ? from_us : -from_us);
            }
        }
    }
}

void bounds_saw(struct bounds *b, size_t queue, int32_t priority, int64_t run_at_us,
                int64_t others_us)
{
    struct bound *one = &b->all[queue * BOUNDS_PRIORITIES + (size_t)priority];
    one->seen_us = run_at_us > one->seen_us ? run_at_us : one->seen_us;
    one->others_us = others_us;
    one->vain = false;
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

static void bound_end(struct bound *one, bool front, bool full)
{
    bool told = front || one->from_us > 0; /* where the others are, if anybody knows */
    /* a full look from the front may have left tasks behind that lie before the bound */
    bool lower = front && full && one->seen_us > 0;
    if (lower || one->seen_us > one->from_us) {
        one->from_us = one->seen_us;
    }
    if (one->others_us > 0) {
        one->alone_us = one->others_us;
    }
    /* a full look that claimed nothing here has not come so far */
    if (one->seen_us > 0 || !full) {
        one->shared = full && told && one->from_us >= one->alone_us;
    }
}

/* Which did a full look ask in vain, or leave out? It has not come to what lies behind the last
 * task that it claimed: it goes from the highest priority to the lowest, and by place in each. */
static void note_vain(struct bounds *b)
{
    bool reached = false;
    for (size_t priority = 0; priority < BOUNDS_PRIORITIES; priority++) {
        for (size_t i = b->n_queues; i > 0; i--) {
            struct bound *one = bound_at(b, i - 1, priority);
            if (!reached && one->seen_us > 0) {
                reached = true;
                b->lowest = priority;
            }
            one->vain = reached && one->seen_us == 0;
        }
    }
}

/* After a look that asked all, for how long others may be partial. */
static int64_t partial_rest_ms(const struct bounds *b)
{
    int64_t all_ms = (int64_t)b->n_queues * BOUNDS_VAIN_QUEUE_MS;
    return all_ms > BOUNDS_VAIN_MS ? all_ms : BOUNDS_VAIN_MS;
}

/* What may the next look leave out? A full look by age does not tell what it asked in vain. */
static void plan_next(struct bounds *b, bool full)
{
    if (!full) {
        b->next_all_ms = 0;
    } else if (!b->by_age) {
        note_vain(b);
        b->next_all_ms = b->partial ? b->next_all_ms : b->started_ms + partial_rest_ms(b);
    }
}

void bounds_end(struct bounds *b, bool full, int64_t now_ms)
{
    plan_next(b, full);
    if (b->everything_due) {
        b->next_everything_ms = now_ms + BOUNDS_EVERYTHING_EVERY_MS;
    }
    b->found_nothing = !b->partial;
    for (size_t i = 0; i < b->n_queues * BOUNDS_PRIORITIES; i++) {
        b->found_nothing = b->found_nothing && b->all[i].seen_us == 0;
        bound_end(&b->all[i], b->front, full);
    }
    if (b->front) {
        b->other_kinds = false;
        b->next_front_ms = now_ms + front_rest_ms(now_ms - b->started_ms);
    }
}

void bounds_fail(struct bounds *b)
{
    b->next_front_ms = 0;
}

void bounds_other_kinds(struct bounds *b)
{
    b->other_kinds = true;
    b->next_all_ms = 0;
}
