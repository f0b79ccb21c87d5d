#include "worker/decide/start.h"

#include "core/base/text.h"
#include "worker/decide/state.h"

#include <stdio.h>
#include <string.h>

/* A first child that is slow to start may hang: after START_SLOW_MS it does not hold back other
 * handlers any more. */
static bool counts(const struct decider *d, const struct slot *s, int64_t now_ms)
{
    return d->handlers[s->handler].starts_well || now_ms - s->used_ms < START_SLOW_MS;
}

static void count_slot(struct decider *d, const struct slot *s, int64_t now_ms)
{
    if (s->state == SLOT_STARTING) {
        d->handlers[s->handler].n_starting++;
        d->n_starting += counts(d, s, now_ms);
    } else if (s->state != SLOT_EMPTY) {
        d->handlers[s->handler].n_started++;
    }
}

void start_count(struct decider *d, int64_t now_ms)
{
    d->n_starting = d->n_first = 0;
    for (int i = 0; i < d->n_handlers; i++) {
        d->handlers[i].n_starting = d->handlers[i].n_started = 0;
    }
    for (int i = 0; i < d->n_slots; i++) {
        count_slot(d, &d->slots[i], now_ms);
    }
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        d->n_first += s->state == SLOT_STARTING && d->handlers[s->handler].n_started == 0 &&
                      counts(d, s, now_ms);
    }
}

static bool is_first(const struct decider_handler *h)
{
    return h->n_started == 0 && h->n_starting == 0;
}

/* The first child of a handler waits for other first ones only: a handler that starts many must not
 * hold back one that has none. */
bool start_may(const struct decider *d, int handler)
{
    const struct decider_handler *h = &d->handlers[handler];
    bool is_next = h->starts_well || h->n_starting == 0;
    return !h->pool || (is_first(h) && d->n_first < d->starts_max) ||
           (is_next && d->n_starting < d->starts_max);
}

int start_room(const struct decider *d, int n_empty)
{
    int first = 0, further = 0;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        if (!h->pool) {
            return n_empty;
        }
        if (start_may(d, i)) {
            first += is_first(h);
            further = is_first(h) ? further : d->starts_max - d->n_starting;
        }
    }
    int most = first + further;
    return most < n_empty ? most : n_empty;
}

bool start_is_awaited(const struct decider *d, int handler)
{
    return d->handlers[handler].n_started == 0 && !start_may(d, handler);
}

void start_child(struct decider *d, int slot, int handler, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    struct decider_handler *h = &d->handlers[handler];
    struct action *a = actions_add(&d->actions, ACTION_SPAWN);
    a->slot = slot;
    a->handler = handler;
    *s = (struct slot){.handler = handler, .used_ms = now_ms, .limit_ms = INT64_MAX};
    if (h->pool) {
        s->state = SLOT_STARTING;
        s->limit_ms = now_ms + h->start_limit_ms;
        s->slow_ms = now_ms + START_SLOW_MS;
        h->n_starting++;
        d->n_first += h->n_started == 0;
        h->to_warm -= h->to_warm > 0;
        d->n_starting++;
    } else {
        s->state = SLOT_READY;
        s->room = 1;
        h->n_started++;
        a->claim = h->waiting;
    }
}

void start_adopt(struct decider *d, int slot, int handler, int room, bool hears_stop,
                 int64_t now_ms)
{
    d->slots[slot] = (struct slot){.state = SLOT_STARTING,
                                   .handler = handler,
                                   .used_ms = now_ms,
                                   .slow_ms = INT64_MAX,
                                   .limit_ms = INT64_MAX};
    slots_child_ready(d, slot, room, hears_stop);
}

/* --- with the worker --- */

static void plan_warm_up(struct decider *d)
{
    bool all_pool = d->n_slots >= d->n_handlers;
    for (int i = 0; i < d->n_handlers; i++) {
        all_pool = all_pool && d->handlers[i].pool;
    }
    for (int i = 0; all_pool && i < d->n_slots; i++) {
        d->handlers[i % d->n_handlers].to_warm++;
    }
    for (int i = 0; all_pool && i < d->n_slots; i++) {
        if (d->slots[i].state != SLOT_EMPTY) {
            d->handlers[d->slots[i].handler].to_warm--; /* it was adopted */
        }
    }
    d->warm = true;
}

/* The handler that has most children to start, and may start one. */
static int next_to_warm(const struct decider *d)
{
    int next = -1;
    for (int i = 0; i < d->n_handlers; i++) {
        int most = next < 0 ? 0 : d->handlers[next].to_warm;
        if (d->handlers[i].to_warm > most && start_may(d, i)) {
            next = i;
        }
    }
    return next;
}

void start_warm_up(struct decider *d, int64_t now_ms)
{
    if (!d->warm) {
        plan_warm_up(d);
    }
    for (int slot = 0; slot < d->n_slots; slot++) {
        int handler = d->slots[slot].state == SLOT_EMPTY ? next_to_warm(d) : 0;
        if (handler < 0) {
            return;
        }
        if (d->slots[slot].state == SLOT_EMPTY) {
            start_child(d, slot, handler, now_ms);
        }
    }
    for (int i = 0; i < d->n_handlers; i++) {
        d->handlers[i].to_warm = 0; /* every slot has a child */
    }
}

/* --- how it went --- */

void start_failed(struct decider *d, int handler, const char *text, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    h->starts_well = false;
    h->to_warm = 0; /* it starts again with a task */
    if (now_ms < h->backoff_until_ms) {
        return; /* several children that failed together count once */
    }
    int64_t pause_ms = (int64_t)BACKOFF_MIN_MS << (h->strikes < 10 ? h->strikes : 10);
    pause_ms = pause_ms < BACKOFF_MAX_MS ? pause_ms : BACKOFF_MAX_MS;
    h->strikes++;
    h->backoff_until_ms = now_ms + pause_ms;
    text_shorten(h->why, sizeof h->why, text);
    for (char *c = h->why; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    actions_note(&d->actions, NOTE_HANDLER_BACKS_OFF, 0, "%s backs off for %lld ms: %s", h->name,
                 (long long)pause_ms, text);
}

void start_tell_slow(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    const struct decider_handler *h = &d->handlers[s->handler];
    struct action *a = actions_add(&d->actions, ACTION_NOTE);
    a->note = NOTE_HANDLER_STARTING;
    a->slot = slot;
    (void)snprintf(a->text, sizeof a->text, "%s: starting for %lld s; the start limit is %.4g s",
                   h->name, (long long)(now_ms - s->used_ms) / 1000,
                   (double)h->start_limit_ms / 1000);
    s->slow_ms = INT64_MAX;
}

int start_oldest(const struct decider *d, int handler, int64_t now_ms)
{
    int oldest = -1;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (s->state == SLOT_EMPTY || s->handler != handler) {
            continue;
        }
        if (s->state != SLOT_STARTING) {
            return -1;
        }
        bool is_late = now_ms - s->used_ms >= START_TOLD_MS;
        if (is_late && (oldest < 0 || s->used_ms < d->slots[oldest].used_ms)) {
            oldest = i;
        }
    }
    return oldest;
}

void start_backing_off(const struct decider *d, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        size_t bytes = strlen(h->kinds) + strlen(h->why) + sizeof "\n: ";
        if (h->strikes > 0 && bytes <= size - len) {
            len += (size_t)snprintf(text + len, size - len, "%s%s: %s", len ? "\n" : "", h->kinds,
                                    h->why);
        }
    }
}
