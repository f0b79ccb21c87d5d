#include "cleaner/chores.h"

#include "cleaner/queues.h"
#include "cleaner/statements.h"
#include "core/array.h"

#include <stdio.h>
#include <string.h>

enum {
    OVERLOOKED_QUEUES = 64,  /* in one statement */
    OVERLOOKED_ROOM_MS = 50, /* --once asks again for a depth that is not known */
};

/* One statement's share: some queues, and what is asked for each. */
struct share {
    size_t n;
    struct queue *queues[OVERLOOKED_QUEUES];
    struct sweep_plan plans[OVERLOOKED_QUEUES];
};

enum { QUEUES, AFTER_US, AFTER_ID, SKIP, LIMIT, ARRAYS };

static bool share_params(const struct share *share, struct buf text[ARRAYS],
                         const char *params[ARRAYS], struct fault *f)
{
    for (size_t k = 0; k < ARRAYS; k++) {
        array_begin(&text[k]);
    }
    for (size_t i = 0; i < share->n; i++) {
        array_put_text(&text[QUEUES], share->queues[i]->name);
        array_put_int(&text[AFTER_US], share->queues[i]->sweep.after_us);
        array_put_int(&text[AFTER_ID], share->queues[i]->sweep.after_id);
        array_put_int(&text[SKIP], (int64_t)share->plans[i].skip);
        array_put_int(&text[LIMIT], (int64_t)share->plans[i].limit);
    }
    for (size_t k = 0; k < ARRAYS; k++) {
        params[k] = array_end(&text[k]);
        if (!params[k]) {
            return fault_memory(f);
        }
    }
    return true;
}

static bool share_ask(struct cleaner *c, const struct share *share, struct rows **ret,
                      struct fault *f)
{
    struct buf text[ARRAYS];
    const char *params[ARRAYS + 1];
    char age[32];
    (void)snprintf(age, sizeof age, "%d ms", c->once ? 0 : CLEANER_READY_MS);
    params[ARRAYS] = age;
    for (size_t k = 0; k < ARRAYS; k++) {
        buf_init(&text[k], OVERLOOKED_QUEUES * (QUEUE_NAME_BYTES * 2 + 4));
    }
    bool ok = share_params(share, text, params, f) &&
              db_exec(c->hot, &sql_overlooked, params, ARRAYS + 1, ret, f);
    for (size_t k = 0; k < ARRAYS; k++) {
        buf_clear(&text[k]);
    }
    return ok;
}

/* Publish what came, and note for each queue how far its sweep got. The rows are sorted by queue.
 * ret: some queue has more */
static bool share_take(struct cleaner *c, const struct share *share, const struct rows *rows,
                       int64_t now_ms)
{
    size_t row = 0;
    bool more = false;
    for (size_t i = 0; i < share->n; i++) {
        struct queue *queue = share->queues[i];
        size_t first = row;
        for (; row < rows_count(rows) && rows_int(rows, row, 0) == (int64_t)i; row++) {
            c->counts.overlooked += cleaner_publish(c, queue->name, rows_int(rows, row, 1));
        }
        size_t n = row - first;
        sweep_done(&queue->sweep, share->plans[i], n, n ? rows_int(rows, row - 1, 2) : 0,
                   n ? rows_int(rows, row - 1, 1) : 0, now_ms);
        more = more || n == share->plans[i].limit;
    }
    return more;
}

static bool share_do(struct cleaner *c, struct share *share, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (share->n == 0) {
        return true;
    }
    if (!share_ask(c, share, &rows, f)) {
        return false;
    }
    turn->more = share_take(c, share, rows, turn->now_ms) || turn->more;
    rows_free(rows);
    share->n = 0;
    return true;
}

/* With --once it is the last chore and publishes for all, and it waits a little for a depth that is
 * not known yet. */
static bool once_waits_for_others(struct cleaner *c, struct turn *turn)
{
    if (!c->once || chores_are_done_but(c, CHORE_OVERLOOKED)) {
        return false;
    }
    c->once_until_ms = turn->now_ms + CLEANER_ONCE_ROOM_MS;
    turn->next_ms = turn->now_ms + OVERLOOKED_ROOM_MS;
    turn->more = true;
    return true;
}

static void once_waits_for_room(struct cleaner *c, struct turn *turn)
{
    if (c->once && turn->now_ms < c->once_until_ms) {
        turn->next_ms = turn->now_ms + OVERLOOKED_ROOM_MS;
        turn->more = true;
    }
}

bool overlooked_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct queue *list[QUEUES_MAX];
    struct share share = {.n = 0};
    if (once_waits_for_others(c, turn)) {
        return true;
    }
    size_t n = queues_list(c, list);
    for (size_t i = 0; i < n; i++) {
        int64_t room = publisher_room(c->publisher, list[i]->name);
        if (room < 0) {
            once_waits_for_room(c, turn);
        }
        struct sweep_plan plan = sweep_plan(&list[i]->sweep, room, c->window, turn->now_ms);
        if (plan.limit > 0) {
            share.queues[share.n] = list[i];
            share.plans[share.n++] = plan;
        }
        if (share.n == OVERLOOKED_QUEUES && !share_do(c, &share, turn, f)) {
            return false;
        }
    }
    return share_do(c, &share, turn, f);
}
