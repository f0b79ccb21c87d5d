/* Which waiting task goes to which child, and for which handler a child is started. */
#include "worker/decide/decider.h"

#include <utlist.h>

/* The deadline counts from here; whether the claim is still ours is asked from when it was claimed
 * on, at once if its child was so long in starting. */
static void give(struct decider *d, int slot, struct claim *c, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[c->handler];
    DL_DELETE(h->waiting, c);
    h->n_waiting--;
    d->n_waiting--;
    c->verify_ms = c->since_ms + VERIFY_EVERY_MS;
    c->since_ms = now_ms;
    c->deadline_ms = now_ms + c->timeout_ms;
    slots_add(d, slot, c);
}

static int ready_slot(const struct decider *d, int handler)
{
    int best = -1;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (slots_takes_more(s) && s->handler == handler && s->n_given < s->room &&
            (best < 0 || s->n_given < d->slots[best].n_given)) {
            best = i;
        }
    }
    return best;
}

static int starting_room(const struct decider *d, int handler)
{
    int room = 0;
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].state == SLOT_STARTING && d->slots[i].handler == handler) {
            room += d->handlers[handler].room;
        }
    }
    return room;
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

/* May this child be closed for a task of handler `other`? When the task has waited for long, a busy
 * one may, so that no handler keeps all the slots for ever. */
static bool may_yield(const struct decider *d, const struct slot *s, int other, bool late)
{
    const struct decider_handler *h = &d->handlers[s->handler];
    bool idle = s->n_given == 0 && !h->waiting;
    return h->pool && s->handler != other && (idle || late);
}

/* Close a pool child of another handler, the least busy one; one for each waiting task at most. */
static void yield_slot(struct decider *d, int handler, int64_t now_ms)
{
    const struct decider_handler *h = &d->handlers[handler];
    bool late = now_ms - h->waiting->since_ms >= YIELD_AFTER_MS && !has_child(d, handler);
    int best = -1;
    if (closing_children(d) >= h->n_waiting) {
        return;
    }
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (slots_takes_more(s) && may_yield(d, s, handler, late) &&
            (best < 0 || s->n_given < d->slots[best].n_given)) {
            best = i;
        }
    }
    if (best >= 0) {
        slots_close(d, best, now_ms);
    }
}

static void spawn(struct decider *d, int slot, int handler, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    struct decider_handler *h = &d->handlers[handler];
    struct action *a = actions_add(&d->actions, ACTION_SPAWN);
    a->slot = slot;
    a->handler = handler;
    *s = (struct slot){.handler = handler, .limit_ms = INT64_MAX};
    if (h->pool) {
        s->state = SLOT_STARTING;
        s->limit_ms = now_ms + HELLO_LIMIT_MS;
    } else {
        s->state = SLOT_READY;
        s->room = 1;
        a->claim = h->waiting;
        give(d, slot, h->waiting, now_ms);
    }
}

static void give_waiting(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    int slot;
    while (h->waiting && h->pool && (slot = ready_slot(d, handler)) >= 0) {
        struct claim *c = h->waiting;
        give(d, slot, c, now_ms);
        struct action *a = actions_add(&d->actions, ACTION_GIVE);
        a->slot = slot;
        a->claim = c;
    }
    while (h->waiting && now_ms >= h->backoff_until_ms &&
           h->n_waiting > starting_room(d, handler)) {
        slot = empty_slot(d);
        if (slot < 0) {
            yield_slot(d, handler, now_ms);
            break;
        }
        spawn(d, slot, handler, now_ms);
    }
}

/* A task that waited so long was frozen, with this process or its machine: it may be another
 * worker's by now, or cancelled. To release it changes nothing then; to start it would. */
static void release_old(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    while (h->waiting && now_ms - h->waiting->begun_ms >= START_MAX_MS) {
        decider_end_claim(d, h->waiting, OUTCOME_RELEASED, NULL);
    }
}

/* Tasks that found no child are released, so that another worker can have them. */
static void release_late(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    bool backs_off = now_ms < h->backoff_until_ms;
    while (h->waiting && (backs_off || (now_ms - h->waiting->since_ms >= WAITING_MAX_MS &&
                                        starting_room(d, handler) == 0))) {
        decider_end_claim(d, h->waiting, OUTCOME_RELEASED, NULL);
    }
}

/* The handler whose first task has waited longest is served first. */
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

/* Pool children take a while to start; so they start with the worker, evenly over the handlers, and
 * not with the first tasks. */
static void warm_up(struct decider *d, int64_t now_ms)
{
    bool all_pool = d->n_slots >= d->n_handlers;
    for (int i = 0; i < d->n_handlers; i++) {
        all_pool = all_pool && d->handlers[i].pool;
    }
    for (int i = 0; all_pool && i < d->n_slots; i++) {
        spawn(d, i, i % d->n_handlers, now_ms);
    }
    d->warm = true;
}

void give_decide(struct decider *d, int64_t now_ms)
{
    if (!d->warm && d->present && d->stop_level == 0) {
        warm_up(d, now_ms);
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

int64_t give_due(const struct decider *d)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < d->n_handlers; i++) {
        const struct claim *c = d->handlers[i].waiting;
        if (c && c->since_ms + WAITING_MAX_MS < due) {
            due = c->since_ms + WAITING_MAX_MS;
        }
    }
    return due;
}
