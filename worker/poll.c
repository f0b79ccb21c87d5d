#include "worker/poll.h"

#include <stdlib.h>

static const struct poll_place head = {.run_at_us = INT64_MIN};

bool poll_init(struct poll *p, size_t n_queues, struct fault *f)
{
    size_t n = n_queues * POLL_PRIORITIES;
    *p = (struct poll){.n_queues = n_queues, .slow_ms = INT64_MIN};
    p->cursors = calloc(n, sizeof *p->cursors);
    p->ranges = calloc(n, sizeof *p->ranges);
    for (size_t i = 0; p->cursors && i < n; i++) {
        p->cursors[i] = (struct poll_cursor){.next = head, .sweep = head};
    }
    return (p->cursors && p->ranges) || fault_memory(f);
}

void poll_clear(struct poll *p)
{
    free(p->cursors);
    free(p->ranges);
    *p = (struct poll){0};
}

static bool is_before(struct poll_place a, struct poll_place b)
{
    return a.run_at_us != b.run_at_us ? a.run_at_us < b.run_at_us : a.id < b.id;
}

/* What was swept is swept again, each range for itself: in one that a backlog of higher priority
 * holds up, the sweep continues where it is, unless that was a short one, and this one comes from
 * the head. */
static void begin_sweep(struct poll *p)
{
    bool is_short = p->reach_ms >= 0, all = p->sweep_was_short && !is_short;
    for (size_t i = 0; i < p->n_queues * POLL_PRIORITIES; i++) {
        struct poll_cursor *c = &p->cursors[i];
        if (c->swept || all) {
            c->sweep = head;
            c->swept = false;
        }
    }
    p->sweep_was_short = is_short;
}

static struct poll_cursor *cursor_of(struct poll *p, const struct poll_range *r)
{
    return &p->cursors[r->queue * POLL_PRIORITIES + (size_t)r->priority];
}

static void add_range(struct poll *p, size_t queue, int priority, int64_t now_ms)
{
    struct poll_range *r = &p->ranges[p->n_ranges];
    *r = (struct poll_range){.queue = queue, .priority = priority};
    const struct poll_cursor *c = cursor_of(p, r);
    if (p->way == POLL_ON && now_ms < c->empty_until_ms && !p->ask_all) {
        return;
    }
    r->from = r->to = p->way == POLL_ON || c->swept ? c->next : c->sweep;
    p->n_ranges++;
}

void poll_begin(struct poll *p, enum poll_way way, int64_t reach_ms, unsigned turn, int64_t now_ms)
{
    p->way = way;
    p->reach_ms = way == POLL_LOWEST ? -1 : reach_ms;
    p->begun_ms = now_ms;
    p->n_ranges = 0;
    if (way == POLL_SWEEP) {
        begin_sweep(p);
    }
    for (int i = 0; i < POLL_PRIORITIES; i++) {
        for (size_t j = 0; j < p->n_queues; j++) {
            add_range(p, (j + turn) % p->n_queues, way == POLL_LOWEST ? i : POLL_PRIORITIES - 1 - i,
                      now_ms);
        }
    }
}

int64_t poll_reach_ms(const struct poll *p)
{
    if (p->way != POLL_ON) {
        return p->reach_ms;
    }
    return p->slow_ms == INT64_MIN ? -1 : p->begun_ms - p->slow_ms + POLL_LATE_MS;
}

void poll_read_to(struct poll *p, size_t i, struct poll_place place)
{
    if (i < p->n_ranges) {
        p->ranges[i].to = place;
    }
}

static bool was_read(const struct poll_range *r)
{
    return is_before(r->from, r->to);
}

/* How many ranges did it come to? They are read one after the other. */
static size_t count_reached(const struct poll *p, enum poll_end end)
{
    size_t n = p->n_ranges;
    while (end != POLL_ALL && n > 0 && !was_read(&p->ranges[n - 1])) {
        n--;
    }
    return n;
}

static bool is_short_sweep(const struct poll *p)
{
    return p->way != POLL_ON && p->reach_ms >= 0;
}

/* Before what a short sweep has read may be what polls are yet to read. */
static void move_cursor(const struct poll *p, struct poll_cursor *c, const struct poll_range *r,
                        bool through)
{
    if (is_before(c->next, r->to) && !is_short_sweep(p)) {
        c->next = r->to;
    }
    if (p->way != POLL_ON) {
        c->sweep = r->to;
        c->swept = through || !is_before(r->to, c->next);
    }
}

enum poll_end poll_end(struct poll *p, enum poll_end end, int64_t now_ms)
{
    size_t reached = count_reached(p, end);
    bool swept = true;
    for (size_t i = 0; i < reached; i++) {
        struct poll_cursor *c = cursor_of(p, &p->ranges[i]);
        move_cursor(p, c, &p->ranges[i], end == POLL_ALL || i + 1 < reached);
        swept = c->swept;
        if (was_read(&p->ranges[i])) {
            c->empty_until_ms = 0;
        } else if (!is_short_sweep(p)) { /* there may be something older */
            c->empty_until_ms = now_ms + (int64_t)p->n_queues * POLL_EMPTY_MS;
        }
    }
    p->ask_all = end == POLL_ALL && p->n_ranges < p->n_queues * POLL_PRIORITIES;
    if (end == POLL_ALL && !p->ask_all && !is_short_sweep(p) &&
        now_ms > p->begun_ms + POLL_SLOW_MS) {
        p->slow_ms = p->begun_ms;
    }
    if (end == POLL_FULL && !swept && p->way != POLL_ON) {
        return POLL_FULL_BEFORE;
    }
    return p->ask_all ? POLL_FULL : end;
}
