#include "worker/decide/slots.h"

#include "worker/decide/decider.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

int slots_room(const struct decider *d)
{
    int guess = d->n_handlers == 1 ? d->handlers[0].room : 1;
    int room = 0;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (s->state == SLOT_EMPTY) {
            room += guess;
        } else if (s->state == SLOT_STARTING) {
            room += d->handlers[s->handler].room;
        } else if (s->state == SLOT_READY && !s->closing) {
            room += s->room - s->n_given;
        }
    }
    return room;
}

bool slots_all_empty(const struct decider *d)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].state != SLOT_EMPTY) {
            return false;
        }
    }
    return true;
}

static void attend(struct decider *d, const struct claim *c)
{
    int64_t at = c->deadline_ms < c->verify_ms ? c->deadline_ms : c->verify_ms;
    d->attention_ms = at < d->attention_ms ? at : d->attention_ms;
}

/* Move a waiting claim to a child. The deadline counts from here; whether it is still ours is asked
 * from when it was claimed on, at once if its child was so long in starting. */
static void give(struct decider *d, int slot, struct claim *c, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[c->handler];
    DL_DELETE(h->waiting, c);
    h->n_waiting--;
    d->n_waiting--;
    c->state = CLAIM_GIVEN;
    c->slot = slot;
    c->verify_ms = c->since_ms + VERIFY_EVERY_MS;
    c->since_ms = now_ms;
    c->deadline_ms = now_ms + c->timeout_ms;
    DL_APPEND(d->slots[slot].given, c);
    d->slots[slot].n_given++;
    d->n_given++;
    attend(d, c);
}

void slots_stop(struct decider *d, int slot, enum stop_reason reason, int signal, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_EMPTY || (s->state == SLOT_STOPPING && s->limit_ms <= now_ms)) {
        return;
    }
    bool again = s->state == SLOT_STOPPING;
    if (!again) {
        s->state = SLOT_STOPPING;
        s->reason = reason;
    } else if (signal != SIGKILL) {
        return; /* it has been asked to end already */
    }
    s->limit_ms = signal == SIGKILL ? INT64_MAX : now_ms + TERM_GRACE_MS;
    struct action *a = decider_act(d, ACTION_SIGNAL);
    a->slot = slot;
    a->n = signal;
}

void slots_stop_all(struct decider *d, enum stop_reason reason, int signal, int64_t now_ms)
{
    for (int i = 0; i < d->n_slots; i++) {
        struct slot *s = &d->slots[i];
        if (s->state == SLOT_STOPPING && s->limit_ms == INT64_MAX) {
            continue; /* killed already */
        }
        slots_stop(d, i, reason, signal, now_ms);
    }
}

/* What else its child runs is still ours, and is given back. */
void slots_lose(struct decider *d, struct claim *c, int64_t now_ms)
{
    c->lost = true;
    slots_stop(d, c->slot, STOP_LOST, SIGTERM, now_ms);
}

void slots_lose_all(struct decider *d, int64_t now_ms)
{
    for (int i = 0; i < d->n_slots; i++) {
        struct claim *c;
        DL_FOREACH(d->slots[i].given, c)
        {
            c->lost = true;
        }
    }
    slots_stop_all(d, STOP_LOST, SIGKILL, now_ms);
}

void slots_child_ready(struct decider *d, int slot, int room)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_STARTING) {
        s->state = SLOT_READY;
        s->room = room;
        d->handlers[s->handler].room = room;
    }
}

/* Given a moment to end, because that may be why. */
void slots_child_pipe_closed(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_READY && !s->mute) {
        s->mute = s->closing = true;
        s->limit_ms = now_ms + PIPE_GRACE_MS;
    }
}

static struct claim *find_given(const struct slot *s, int64_t id)
{
    struct claim *c;
    DL_FOREACH(s->given, c)
    {
        if (c->id == id) {
            return c;
        }
    }
    return NULL;
}

bool slots_has_task(const struct decider *d, int slot, int64_t id)
{
    return find_given(&d->slots[slot], id) != NULL;
}

bool slots_is_full(const struct decider *d, int slot)
{
    const struct slot *s = &d->slots[slot];
    return s->state != SLOT_EMPTY && d->handlers[s->handler].reply_bytes >= decider_bytes_share(d);
}

/* How many tasks ended since the last time, per millisecond. */
static void take_rate(struct decider *d, int64_t now_ms)
{
    d->rate_per_ms = (double)d->rate_count / (double)(now_ms - d->rate_from_ms);
    d->rate_from_ms = now_ms;
    d->rate_count = 0;
}

static void count_ended(struct decider *d, const struct claim *c, int64_t now_ms)
{
    int64_t took_us = (now_ms - c->since_ms) * 1000 /
                      (d->slots[c->slot].n_given > 0 ? d->slots[c->slot].n_given : 1);
    d->ewma_us += (took_us - d->ewma_us) / 16;
    d->rate_count++;
    if (now_ms - d->rate_from_ms >= RATE_MS) {
        take_rate(d, now_ms);
    }
}

void slots_reply(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct slot *s = &d->slots[e->slot];
    struct claim *c = find_given(s, e->id);
    bool late = s->state == SLOT_STOPPING && (e->outcome != OUTCOME_DONE || (c && c->out_of_time));
    if (!c || c->lost || late) {
        /* a reply that comes twice or too late changes nothing; but what was done while its child
         * was asked to end is done, and must not run again */
        free(e->reply);
        free(e->error);
        return;
    }
    count_ended(d, c, now_ms);
    s->answered = true;
    d->handlers[s->handler].strikes = 0;
    c->reply = e->reply;
    c->reply_bytes = e->reply ? strlen(e->reply) : 0;
    d->handlers[c->handler].reply_bytes += c->reply_bytes;
    c->delay_ms = e->delay_ms;
    decider_end_claim(d, c, e->outcome, e->error);
}

/* Not cut, so that no character is: the text is bounded, and tenon.requeue() keeps what fits. */
static char *error_text(const char *what, const char *text)
{
    size_t bytes = strlen(what) + strlen(text) + 3;
    char *error = malloc(bytes);
    if (error) {
        (void)snprintf(error, bytes, "%s%s%s", what, *what && *text ? ": " : "", text);
    }
    return error;
}

/* What becomes of a task whose child is gone before it answered. */
static void end_orphan(struct decider *d, struct claim *c, const struct slot *s, bool oldest,
                       const char *text)
{
    char what[64] = "";
    if (c->lost) {
        decider_note(d, NOTE_CLAIM_LOST, c->id, "its child was stopped");
        d->count_lost++;
        wakeups_unclaimed(&d->wakeups, c->id);
        decider_drop_claim(d, c);
    } else if (c->out_of_time) {
        (void)snprintf(what, sizeof what, "timed out after %lld ms", (long long)c->timeout_ms);
        decider_note(d, NOTE_TASK_TIMED_OUT, c->id, "%s after %lld ms", c->kind,
                     (long long)c->timeout_ms);
        decider_end_claim(d, c, OUTCOME_FAILED, error_text(what, text));
    } else if ((s->reason != STOP_NONE && s->reason != STOP_PIPE_CLOSED) || !oldest) {
        decider_end_claim(d, c, OUTCOME_RELEASED, NULL);
    } else {
        /* of several the oldest is charged: a child that works in order was at that one */
        decider_end_claim(d, c, OUTCOME_FAILED,
                          error_text(s->reason == STOP_PIPE_CLOSED
                                         ? "the handler closed its stdin or stdout"
                                         : "the handler ended without an answer",
                                     text));
    }
}

/* A handler that cannot start rests, so that its tasks are neither burnt nor spun through. */
static void strike(struct decider *d, int handler, const char *text, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    if (now_ms < h->backoff_until_ms) {
        return; /* several children that failed together are one strike */
    }
    int64_t rest = (int64_t)BACKOFF_MIN_MS << (h->strikes < 10 ? h->strikes : 10);
    rest = rest < BACKOFF_MAX_MS ? rest : BACKOFF_MAX_MS;
    h->strikes++;
    h->backoff_until_ms = now_ms + rest;
    (void)snprintf(h->why, sizeof h->why, "%s", text);
    decider_note(d, NOTE_HANDLER_BACKS_OFF, 0, "%s rests for %lld ms: %s", h->kinds,
                 (long long)rest, text);
}

/* It said hello and went, before it had a task. */
static bool ended_at_once(const struct slot *s)
{
    return s->state == SLOT_READY && s->reason == STOP_NONE && (!s->closing || s->mute) &&
           !s->given && !s->answered;
}

void slots_child_gone(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct slot *s = &d->slots[e->slot];
    const char *text = e->text ? e->text : "";
    bool failed_start = e->failed_start || s->state == SLOT_STARTING ||
                        s->reason == STOP_NO_HELLO || ended_at_once(s);
    if (failed_start) {
        s->reason = s->reason == STOP_NONE ? STOP_RELEASE : s->reason;
        strike(d, s->handler, s->reason == STOP_NO_HELLO ? "its child said no hello" : text,
               now_ms);
    }
    for (bool oldest = true; s->given; oldest = false) {
        end_orphan(d, s->given, s, oldest, text);
    }
    *s = (struct slot){.state = SLOT_EMPTY, .handler = -1};
}

/* --- what is due --- */

/* A child that still works is given nothing more, and its input is closed when it is idle. */
static void close_child(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    s->closing = true;
    s->limit_ms = INT64_MAX;
    if (s->n_given == 0) {
        s->limit_ms = now_ms + TERM_GRACE_MS;
        decider_act(d, ACTION_CLOSE)->slot = slot;
    }
}

static void check_child(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_STARTING && now_ms >= s->limit_ms) {
        slots_stop(d, slot, STOP_NO_HELLO, SIGKILL, now_ms);
    } else if (s->state == SLOT_READY && s->closing && now_ms >= s->limit_ms) {
        slots_stop(d, slot, s->mute ? STOP_PIPE_CLOSED : STOP_RELEASE, SIGTERM, now_ms);
    } else if (s->state == SLOT_READY && s->closing && s->limit_ms == INT64_MAX) {
        close_child(d, slot, now_ms);
    } else if (s->state == SLOT_STOPPING && now_ms >= s->limit_ms) {
        s->limit_ms = INT64_MAX;
        struct action *a = decider_act(d, ACTION_SIGNAL);
        a->slot = slot;
        a->n = SIGKILL;
    }
}

/* Look at every running task: is it out of time, is it time to ask whether it is still ours? */
static void check_given(struct decider *d, int64_t now_ms)
{
    d->attention_ms = INT64_MAX;
    for (int i = 0; i < d->n_slots; i++) {
        struct claim *c;
        DL_FOREACH(d->slots[i].given, c)
        {
            if (d->slots[i].state == SLOT_STOPPING) {
                break;
            }
            if (now_ms >= c->deadline_ms) {
                c->out_of_time = true;
                slots_stop(d, i, STOP_TIMEOUT, SIGTERM, now_ms);
                break;
            }
            attend(d, c);
        }
    }
}

static int ready_slot(const struct decider *d, int handler)
{
    int best = -1;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (s->state == SLOT_READY && !s->closing && s->handler == handler &&
            s->n_given < s->room && (best < 0 || s->n_given < d->slots[best].n_given)) {
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

/* A pool child of another handler makes way, one for each task at most: one that has nothing to do,
 * or, so that no busy handler keeps all the slots for ever, the least busy one. */
static void make_way(struct decider *d, int handler, int64_t now_ms)
{
    const struct decider_handler *h = &d->handlers[handler];
    bool late = now_ms - h->waiting->since_ms >= WAY_AFTER_MS && !has_child(d, handler);
    int best = -1;
    if (closing_children(d) >= h->n_waiting) {
        return;
    }
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        const struct decider_handler *other = &d->handlers[s->state == SLOT_EMPTY ? 0 : s->handler];
        if (s->state != SLOT_READY || s->closing || !other->pool || other == h) {
            continue;
        }
        bool idle = s->n_given == 0 && !other->waiting;
        if ((idle || late) && (best < 0 || s->n_given < d->slots[best].n_given)) {
            best = i;
        }
    }
    if (best >= 0) {
        close_child(d, best, now_ms);
    }
}

static void spawn(struct decider *d, int slot, int handler, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    struct decider_handler *h = &d->handlers[handler];
    struct action *a = decider_act(d, ACTION_SPAWN);
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
        struct action *a = decider_act(d, ACTION_GIVE);
        a->slot = slot;
        a->claim = c;
    }
    while (h->waiting && now_ms >= h->backoff_until_ms &&
           h->n_waiting > starting_room(d, handler)) {
        slot = empty_slot(d);
        if (slot < 0) {
            make_way(d, handler, now_ms);
            break;
        }
        spawn(d, slot, handler, now_ms);
    }
}

/* Who waited so long was frozen, with its process or its machine: the task may be another's by now,
 * or cancelled. To give it back changes nothing then; to start it would. */
static void release_old(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    while (h->waiting && now_ms - h->waiting->begun_ms >= START_MAX_MS) {
        decider_end_claim(d, h->waiting, OUTCOME_RELEASED, NULL);
    }
}

/* Tasks that found no child go back, so that another worker can have them. */
static void release_late(struct decider *d, int handler, int64_t now_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    bool rests = now_ms < h->backoff_until_ms;
    while (h->waiting && (rests || (now_ms - h->waiting->since_ms >= WAITING_MAX_MS &&
                                    starting_room(d, handler) == 0))) {
        decider_end_claim(d, h->waiting, OUTCOME_RELEASED, NULL);
    }
}

static void close_idle(struct decider *d, int64_t now_ms)
{
    for (int i = 0; i < d->n_slots; i++) {
        struct slot *s = &d->slots[i];
        if (s->state == SLOT_READY && s->n_given == 0 && !s->closing) {
            close_child(d, i, now_ms);
        }
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

void slots_decide(struct decider *d, int64_t now_ms)
{
    if (!d->warm && d->present && d->stop_level == 0) {
        warm_up(d, now_ms);
    }
    for (int i = 0; i < d->n_slots; i++) {
        check_child(d, i, now_ms);
    }
    if (now_ms >= d->attention_ms) {
        check_given(d, now_ms);
    }
    /* tasks that have become long: what is claimed ahead of them would only wait */
    if (now_ms - d->rate_from_ms >= RATE_STALE_MS) {
        take_rate(d, now_ms);
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
    if (d->stop_level > 0) {
        close_idle(d, now_ms);
    }
}

int64_t slots_due(const struct decider *d, int64_t now_ms)
{
    int64_t due = d->attention_ms;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if ((s->state == SLOT_STARTING || s->state == SLOT_STOPPING || s->closing) &&
            s->limit_ms < due) {
            due = s->limit_ms;
        }
    }
    for (int i = 0; i < d->n_handlers; i++) {
        const struct decider_handler *h = &d->handlers[i];
        if (h->waiting && h->waiting->since_ms + WAITING_MAX_MS < due) {
            due = h->waiting->since_ms + WAITING_MAX_MS;
        }
    }
    return due > now_ms ? due : now_ms + 10;
}
