#include "worker/decide/give.h"

#include "worker/decide/held.h"
#include "worker/decide/start.h"
#include "worker/decide/state.h"

/* The deadline counts from now; the next verification from the last one. */
static void give(struct decider *d, int slot, struct claim *c, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[c->handler];
    c->verify_ms = c->begun_ms + VERIFY_EVERY_MS;
    c->since_ms = d->slots[slot].used_ms = h->used_ms = now_ms;
    c->deadline_ms = now_ms + c->timeout_ms;
    slots_add(d, slot, c);
}

static int ready_slot(const struct decider *d, int handler)
{
    int best = -1;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (s->handler == handler && slots_free(d, s) > 0 &&
            (best < 0 || s->n_given < d->slots[best].n_given)) {
            best = i;
        }
    }
    return best;
}

bool give_has_child(const struct decider *d, int handler)
{
    return ready_slot(d, handler) >= 0;
}

static int starting_room(const struct decider_handler *h)
{
    return h->n_starting * h->room;
}

static int empty_slot(const struct decider *d)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].state == SLOT_EMPTY) {
            return i;
        }
    }
    return -1;
}

static int closing_children(const struct decider *d)
{
    int n = 0;
    for (int i = 0; i < d->n_slots; i++) {
        n += d->slots[i].closing;
    }
    return n;
}

static bool has_child(const struct decider *d, int handler)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].state != SLOT_EMPTY && d->slots[i].handler == handler) {
            return true;
        }
    }
    return false;
}

static bool is_idle(const struct decider *d, const struct slot *s)
{
    return slots_takes_more(s) && s->n_given == 0 && d->handlers[s->handler].pool &&
           !d->handlers[s->handler].waiting;
}

/* May this child be closed to make room for one of handler `other`? If that has no child: an idle
 * one at once, and a busy one after YIELD_AFTER_MS, so that no handler keeps all slots for ever.
 * But a new child has its first task before that: else handlers would close each other's children
 * and get no task done. If it has a child: one that was idle for YIELD_AFTER_MS, because starting a
 * child costs more than a task. */
static bool may_yield(const struct decider *d, const struct slot *s, int other, int64_t now_ms)
{
    bool childless = !has_child(d, other);
    bool late = now_ms - d->handlers[other].waiting->since_ms >= YIELD_AFTER_MS;
    bool long_idle = now_ms - s->used_ms >= YIELD_AFTER_MS;
    bool had_task = s->answered || s->n_given > 0;
    return d->handlers[s->handler].pool && s->handler != other &&
           ((is_idle(d, s) && (childless || long_idle)) || (childless && late && had_task));
}

/* Close the least busy pool child of another handler; no more children than tasks wait. */
static void yield_slot(struct decider *d, int handler, int64_t now_ms)
{
    const struct decider_handler *h = &d->handlers[handler];
    int best = -1;
    if (closing_children(d) >= h->n_waiting) {
        return;
    }
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (slots_takes_more(s) && may_yield(d, s, handler, now_ms) &&
            (best < 0 || s->n_given < d->slots[best].n_given)) {
            best = i;
        }
    }
    if (best >= 0) {
        slots_close(d, best, now_ms);
    }
}

/* Until when the empty slots are kept for other handlers, which had tasks a moment ago and have no
 * child; 0 = they are not. Else handlers whose tasks take turns would end and start children all
 * the time. */
static int64_t kept_until(const struct decider *d, int handler, int64_t now_ms)
{
    int n = 0;
    int64_t until_ms = INT64_MAX;
    for (int i = 0; i < d->n_slots; i++) {
        n += d->slots[i].state == SLOT_EMPTY;
    }
    for (int i = 0; i < d->n_handlers; i++) {
        int64_t keep_ms = d->handlers[i].used_ms + KEEP_MS;
        if (i != handler && now_ms < keep_ms && !has_child(d, i)) {
            until_ms = sooner(until_ms, keep_ms);
            n--;
        }
    }
    return n <= 0 && until_ms < INT64_MAX && has_child(d, handler) ? until_ms : 0;
}

/* Were the tasks that go next verified too long ago? They may have been cancelled: a round verifies
 * them first. */
static bool are_stale(const struct decider *d, const struct decider_handler *h, int64_t now_ms)
{
    int n = h->chunk_size > 0 ? h->chunk_size : 1;
    bool stale = false;
    for (const struct claim *c = h->waiting; c && n > 0 && !stale; c = c->next, n--) {
        stale = now_ms - c->begun_ms >= START_CHECKED_MS + round_usual_ms(d);
    }
    return stale;
}

/* Tasks that are given together wait until they are enough, unless no more can be claimed. */
int64_t give_ripe_ms(const struct decider *d, const struct decider_handler *h)
{
    bool all = h->n_waiting >= h->chunk_size || h->payload_bytes >= held_bytes_share(d);
    return h->waiting->since_ms + (all ? 0 : h->chunk_wait_ms);
}

/* Give one task, or as many as the child takes together. */
static void give_next(struct decider *d, int slot, struct decider_handler *h, int64_t now_ms)
{
    struct action *a = actions_add(&d->actions, ACTION_GIVE);
    size_t bytes = 0;
    a->slot = slot;
    a->claim = h->waiting;
    do {
        bytes += h->waiting->payload_bytes + h->waiting->steps_bytes;
        give(d, slot, h->waiting, now_ms);
        a->n++;
    } while (h->waiting && a->n < h->chunk_size && bytes < CHUNK_BYTES_MAX);
}

/* ret: are further children needed, if tasks wait? */
static bool give_pool(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    int slot;
    while (h->waiting && (slot = ready_slot(d, handler)) >= 0) {
        if (now_ms < give_ripe_ms(d, h) || are_stale(d, h, now_ms)) {
            return false;
        }
        give_next(d, slot, h, now_ms);
    }
    return true;
}

static void give_waiting(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    bool more = !h->pool || give_pool(d, handler, now_ms);
    while (more && h->waiting && now_ms >= h->backoff_until_ms && h->n_waiting > starting_room(h) &&
           start_may(d, handler)) {
        int slot = empty_slot(d);
        if (slot < 0) {
            yield_slot(d, handler, now_ms);
            break;
        }
        if (h->pool ? kept_until(d, handler, now_ms) > 0 : are_stale(d, h, now_ms)) {
            break;
        }
        start_child(d, slot, handler, now_ms);
        if (!h->pool) {
            give(d, slot, h->waiting, now_ms);
        }
    }
}

/* A task waits this long only if this process or its machine was frozen: it may be another worker's
 * by now, or cancelled. Releasing it is safe then; starting it is not. */
static void release_old(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    while (h->waiting && now_ms - h->waiting->claimed_ms >= START_MAX_MS) {
        held_end(d, h->waiting, OUTCOME_RELEASED, NULL);
    }
}

static int64_t late_ms(const struct decider_handler *h, const struct claim *c)
{
    return c->since_ms + h->chunk_wait_ms + WAITING_MAX_MS;
}

/* The first waiting task that has no room in the children that are starting; NULL = none. */
static struct claim *first_without_room(const struct decider_handler *h)
{
    struct claim *c = h->waiting;
    for (int room = starting_room(h); c && room > 0; room--) {
        c = c->next;
    }
    return c;
}

/* Release tasks that found no child in time: another worker may have one. */
static void release_late(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    bool backs_off = now_ms < h->backoff_until_ms;
    struct claim *c = backs_off ? h->waiting : first_without_room(h);
    bool may = backs_off || (c && now_ms >= late_ms(h, c) && !give_has_child(d, handler));
    while (may && c && (backs_off || now_ms >= late_ms(h, c))) {
        struct claim *next = c->next;
        held_end(d, c, OUTCOME_RELEASED, NULL);
        c = next;
    }
}

/* The handler whose first task has waited longest goes first. */
static int longest_waiting(const struct decider *d)
{
    int first = 0;
    int64_t since_ms = INT64_MAX;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct claim *c = d->handlers[i].waiting;
        if (c && c->since_ms < since_ms) {
            first = i;
            since_ms = c->since_ms;
        }
    }
    return first;
}

void give_decide(struct decider *d, int64_t now_ms)
{
    if (d->present && d->stop_level == 0) {
        start_warm_up(d, now_ms);
    }
    int first = longest_waiting(d);
    for (int i = 0; i < d->n_handlers; i++) {
        int handler = (first + i) % d->n_handlers;
        if (d->handlers[handler].waiting) {
            release_old(d, handler, now_ms);
            give_waiting(d, handler, now_ms);
            release_late(d, handler, now_ms);
        }
    }
}

/* When another handler's child will have been idle for long enough to be closed. */
static int64_t idle_due(const struct decider *d, int handler, int64_t now_ms)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < d->n_slots; i++) {
        int64_t at = d->slots[i].used_ms + YIELD_AFTER_MS;
        if (at > now_ms && is_idle(d, &d->slots[i]) && d->slots[i].handler != handler) {
            due = sooner(due, at);
        }
    }
    return due;
}

int64_t give_due(const struct decider *d, int64_t now_ms)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        if (h->waiting) {
            int64_t kept_ms = kept_until(d, i, now_ms), ripe_ms = give_ripe_ms(d, h);
            const struct claim *late = first_without_room(h);
            due = sooner(due, ripe_ms > now_ms ? ripe_ms
                              : late           ? late_ms(h, late)
                                               : h->waiting->claimed_ms + START_MAX_MS);
            due = sooner(due, idle_due(d, i, now_ms));
            due = kept_ms > 0 ? sooner(due, kept_ms) : due;
        }
    }
    return due;
}
