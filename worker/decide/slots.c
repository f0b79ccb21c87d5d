#include "worker/decide/slots.h"

#include "core/base/text.h"
#include "worker/decide/give.h"
#include "worker/decide/held.h"
#include "worker/decide/start.h"
#include "worker/decide/state.h"
#include "worker/decide/tally.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

bool slots_takes_more(const struct slot *s)
{
    return s->state == SLOT_READY && !s->closing && s->n_spent == 0;
}

/* Tasks that are given together are one call of the handler: the child gets the next ones after its
 * end. */
int slots_free(const struct decider *d, const struct slot *s)
{
    bool in_call = d->handlers[s->handler].chunk_size > 0 && s->n_given > 0;
    bool is_free = slots_takes_more(s) && !in_call && s->n_given < s->room;
    return is_free ? s->room - s->n_given : 0;
}

/* A child that is starting adds no room: the tasks that it was started for take that up. */
int slots_room(const struct decider *d)
{
    int guess = d->n_handlers == 1 ? d->handlers[0].room : 1;
    int room = 0, n_empty = 0, starting = 0;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        n_empty += s->state == SLOT_EMPTY;
        room += s->state == SLOT_EMPTY ? 0 : slots_free(d, s);
        starting += s->state == SLOT_STARTING ? d->handlers[s->handler].room : 0;
    }
    room += starting < d->n_waiting ? starting : d->n_waiting;
    return room + start_room(d, n_empty) * guess;
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

/* --- its tasks --- */

static bool is_spent(const struct claim *c)
{
    return c->out_of_time || c->lost;
}

static void set_attention(struct decider *d, const struct claim *c)
{
    int64_t at = c->deadline_ms < c->verify_ms ? c->deadline_ms : c->verify_ms;
    d->attention_ms = at < d->attention_ms ? at : d->attention_ms;
}

void slots_add(struct decider *d, int slot, struct claim *c)
{
    held_unlist(d, c);
    c->state = CLAIM_GIVEN;
    c->slot = slot;
    DL_APPEND(d->slots[slot].given, c);
    d->n_busy += d->slots[slot].n_given == 0;
    d->slots[slot].n_given++;
    d->n_given++;
    set_attention(d, c);
}

void slots_remove(struct decider *d, struct claim *c)
{
    struct slot *s = &d->slots[c->slot];
    DL_DELETE(s->given, c);
    s->n_given--;
    d->n_given--;
    d->n_busy -= s->n_given == 0;
    c->slot = -1;
    c->ran_ms = d->now_ms - c->since_ms;
    s->n_spent -= is_spent(c);
}

/* The answer of this task is not wanted any more, and only stopping its child ends it. The child's
 * other tasks are not to blame, and get some time to end before that. */
static void spend(struct decider *d, struct claim *c, int64_t now_ms)
{
    if (!is_spent(c)) {
        d->slots[c->slot].n_spent++;
        c->deadline_ms = now_ms + SIBLINGS_MAX_MS;
        c->verify_ms = INT64_MAX;
        set_attention(d, c);
    }
}

bool slots_hears(const struct decider *d, int slot)
{
    return d->slots[slot].state == SLOT_READY && !d->slots[slot].pipe_closed;
}

/* Asks the child to stop a task; false: it does not understand that. */
static bool tell_stop(struct decider *d, int slot, int64_t task, const char *why)
{
    if (!d->slots[slot].hears_stop || !slots_hears(d, slot)) {
        return false;
    }
    struct action *a = actions_add(&d->actions, ACTION_TELL_STOP);
    a->slot = slot;
    a->task = task;
    text_shorten(a->text, sizeof a->text, why);
    return true;
}

void slots_tell_drain(struct decider *d)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].n_given > 0) {
            (void)tell_stop(d, i, 0, "drain");
        }
    }
}

static void lose(struct decider *d, struct claim *c, int64_t now_ms)
{
    spend(d, c, now_ms);
    writes_forget(d, c);
    c->lost = true;
}

void slots_lose(struct decider *d, struct claim *c, const char *why, int64_t now_ms)
{
    lose(d, c, now_ms);
    if (tell_stop(d, c->slot, c->id, why)) {
        d->slots[c->slot].patience_ms = now_ms + STOP_GRACE_MS;
    }
}

bool slots_extend(struct decider *d, struct claim *c, int64_t timeout_ms)
{
    timeout_ms = timeout_ms < TIMEOUT_MAX_MS ? timeout_ms : TIMEOUT_MAX_MS;
    if (is_spent(c) || timeout_ms <= c->timeout_ms) {
        return false;
    }
    c->timeout_ms = timeout_ms;
    c->deadline_ms = c->since_ms + timeout_ms;
    c->asked = ASKED_NOT;
    set_attention(d, c);
    return true;
}

void slots_confirm(struct decider *d, struct claim *c, int64_t timeout_ms, int64_t now_ms)
{
    if (!slots_extend(d, c, timeout_ms) && c->asked == ASKED && !is_spent(c)) {
        c->deadline_ms = now_ms;
        set_attention(d, c);
    }
}

void slots_verify_soon(struct decider *d, struct claim *c, int64_t now_ms)
{
    if (!is_spent(c)) {
        c->verify_ms = now_ms;
        set_attention(d, c);
    }
}

void slots_lose_all(struct decider *d, int64_t now_ms)
{
    for (struct claim *c = NULL; (c = slots_next_given(d, c));) {
        lose(d, c, now_ms);
    }
    slots_stop_all(d, STOP_RELEASE, SIGKILL, now_ms);
}

struct claim *slots_next_given(const struct decider *d, const struct claim *c)
{
    if (c && c->next) {
        return c->next;
    }
    for (int i = c ? c->slot + 1 : 0; i < d->n_slots; i++) {
        if (d->slots[i].given) {
            return d->slots[i].given;
        }
    }
    return NULL;
}

struct claim *slots_find(const struct decider *d, int slot, int64_t id)
{
    struct claim *c;
    DL_FOREACH(d->slots[slot].given, c)
    {
        if (c->id == id) {
            return c;
        }
    }
    return NULL;
}

bool slots_is_full(const struct decider *d, int slot)
{
    const struct slot *s = &d->slots[slot];
    if (s->state == SLOT_EMPTY) {
        return false;
    }
    const struct decider_handler *h = &d->handlers[s->handler];
    return h->reply_bytes + h->said_bytes >= held_bytes_share(d);
}

/* --- stopping a child --- */

void slots_stop(struct decider *d, int slot, enum stop_reason reason, int signal, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    bool again = s->state == SLOT_STOPPING, killed = again && s->limit_ms == INT64_MAX;
    if (s->state == SLOT_EMPTY || killed || (again && signal != SIGKILL)) {
        return;
    }
    s->reason = again ? s->reason : reason;
    s->state = SLOT_STOPPING;
    s->limit_ms = signal == SIGKILL ? INT64_MAX : now_ms + TERM_GRACE_MS;
    struct action *a = actions_add(&d->actions, ACTION_SIGNAL);
    a->slot = slot;
    a->n = signal;
}

void slots_stop_all(struct decider *d, enum stop_reason reason, int signal, int64_t now_ms)
{
    for (int i = 0; i < d->n_slots; i++) {
        slots_stop(d, i, reason, signal, now_ms);
    }
}

void slots_close(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    s->closing = true;
    if (s->n_given == 0) {
        s->limit_ms = now_ms + TERM_GRACE_MS;
        actions_add(&d->actions, ACTION_CLOSE)->slot = slot;
    }
}

/* --- what its child says --- */

void slots_child_ready(struct decider *d, int slot, int room, bool hears_stop)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_STARTING) {
        s->state = SLOT_READY;
        s->limit_ms = INT64_MAX;
        s->room = room;
        s->hears_stop = hears_stop;
        d->handlers[s->handler].room = room; /* a guess for its next children */
        d->handlers[s->handler].starts_well = true;
    } else if (s->state == SLOT_READY) {
        s->room = room;
    }
}

/* Its end may follow at once and explain it, so it is stopped only PIPE_GRACE_MS later. */
void slots_child_pipe_closed(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_READY && !s->pipe_closed) {
        s->pipe_closed = s->closing = true;
        s->limit_ms = now_ms + PIPE_GRACE_MS;
    }
}

void slots_child_retires(struct decider *d, int slot)
{
    struct slot *s = &d->slots[slot];
    s->retiring = s->closing = true;
}

/* Tasks that ended per millisecond, since the last call. */
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

static char *error_text(const char *what, const char *text)
{
    size_t bytes = strlen(what) + strlen(text) + 3;
    char *error = malloc(bytes);
    if (error) {
        (void)snprintf(error, bytes, "%s%s%s", what, *text ? ": " : "", text);
    }
    return error;
}

/* A spent task has stopped running. */
static void end_spent(struct decider *d, struct claim *c, const char *text)
{
    if (c->lost) {
        actions_note(&d->actions, NOTE_CLAIM_LOST, c->id, "%s attempt %d: its outcome is discarded",
                     c->kind, c->attempt);
        d->count_lost++;
        tally_ended(d, c, TALLY_LOST);
        held_drop(d, c);
        return;
    }
    char what[64];
    (void)snprintf(what, sizeof what, "timed out after %lld ms", (long long)c->timeout_ms);
    actions_note(&d->actions, NOTE_TASK_TIMED_OUT, c->id, "%s after %lld ms", c->kind,
                 (long long)c->timeout_ms);
    held_end(d, c, OUTCOME_TIMED_OUT, error_text(what, text));
}

/* It was released RETURNS_MAX times: it may be what ends its child, or its handler never gets to
 * its end. */
static bool returns_too_often(const struct claim *c)
{
    return c->claims - c->attempt >= RETURNS_MAX;
}

/* The answer of a spent task is ignored, and so is a failure after its child was told to end. But a
 * task that is done by then is done, and must not run again. */
void slots_reply(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct slot *s = &d->slots[e->slot];
    struct claim *c = slots_find(d, e->slot, e->id);
    bool interrupted = s->state == SLOT_STOPPING && e->outcome != OUTCOME_DONE;
    s->answered = s->answered || c;
    s->used_ms = d->handlers[s->handler].used_ms = now_ms;
    if (!c || is_spent(c) || interrupted) {
        if (c && is_spent(c)) {
            end_spent(d, c, e->error ? e->error : "");
        }
        free(e->reply);
        free(e->error);
        free(e->signal);
        return;
    }
    count_ended(d, c, now_ms);
    d->handlers[s->handler].strikes = 0;
    c->reply = e->reply;
    c->signal = e->signal;
    c->reply_bytes = e->reply ? strlen(e->reply) : 0;
    d->handlers[c->handler].reply_bytes += c->reply_bytes;
    c->delay_ms = e->delay_ms;
    memcpy(c->error_class, e->error_class, sizeof c->error_class);
    if (e->outcome == OUTCOME_RELEASED && d->stop_level == 0 && returns_too_often(c)) {
        held_end(d, c, OUTCOME_FAILED,
                 error_text("it was interrupted again and again", e->error ? e->error : ""));
        free(e->error);
        return;
    }
    held_end(d, c, e->outcome, e->error);
}

/* --- its end --- */

/* Why a task that its child left unanswered counts as failed; NULL: it does not. When a child
 * retires, its tasks are not to blame, unless that happens to the same task again and again. */
static const char *charge_of(const struct slot *s, const struct claim *c, bool retired)
{
    if (s->reason == STOP_RELEASE || s->reason == STOP_NO_HELLO) {
        return NULL;
    }
    if (retired) {
        return returns_too_often(c) ? "no process answered before it retired, again and again"
                                    : NULL;
    }
    return s->reason == STOP_PIPE_CLOSED ? "the handler closed its stdin or stdout"
                                         : "the handler ended without an answer";
}

static bool has_retired(const struct slot *s, const struct event *gone)
{
    return s->answered && (s->retiring || gone->exited_well);
}

struct claim *slots_failing(const struct decider *d, const struct event *e)
{
    const struct slot *s = &d->slots[e->slot];
    struct claim *c;
    bool fails;
    if (e->type == EVENT_REPLY) {
        c = slots_find(d, e->slot, e->id);
        fails = e->outcome == OUTCOME_FAILED || e->outcome == OUTCOME_DEAD;
    } else {
        c = s->n_given == 1 ? s->given : NULL;
        fails = c && charge_of(s, c, has_retired(s, e));
    }
    return c && !c->lost && (fails || c->out_of_time) ? c : NULL;
}

/* End the tasks that their child did not answer before it died. A single task was the reason, and
 * has failed. Of several each may have been, so each counts a crash; so does a suspect. */
static void end_unanswered(struct decider *d, const struct slot *s, bool retired, const char *text)
{
    bool crashed = !retired && (s->n_given > 1 || d->alone.state == ALONE_RUNS);
    while (s->given) {
        struct claim *c = s->given;
        const char *charge = charge_of(s, c, retired);
        if (is_spent(c)) {
            end_spent(d, c, text);
        } else if (charge) {
            held_end(d, c, crashed ? OUTCOME_CRASHED : OUTCOME_FAILED, error_text(charge, text));
        } else {
            held_end(d, c, OUTCOME_RELEASED, NULL);
        }
    }
}

/* It ended after its hello, before it had a task. */
static bool ended_at_once(const struct slot *s)
{
    bool by_itself = !s->closing || s->pipe_closed || s->retiring;
    return s->state == SLOT_READY && s->reason == STOP_NONE && by_itself && !s->given &&
           !s->answered;
}

static void note_start_failed(struct decider *d, const struct slot *s, const char *text,
                              int64_t now_ms)
{
    char why[ERROR_BYTES_MAX];
    (void)snprintf(why, sizeof why, "no hello within %.4g s (start_limit): %s",
                   (double)d->handlers[s->handler].start_limit_ms / 1000, text);
    start_failed(d, s->handler, s->reason == STOP_NO_HELLO ? why : text, now_ms);
}

void slots_child_gone(struct decider *d, const struct event *e, int64_t now_ms)
{
    struct slot *s = &d->slots[e->slot];
    const char *text = e->text ? e->text : "";
    bool retired = has_retired(s, e);
    if (e->failed_start || s->state == SLOT_STARTING || s->reason == STOP_NO_HELLO ||
        ended_at_once(s)) {
        s->reason = s->reason == STOP_NONE ? STOP_RELEASE : s->reason;
        note_start_failed(d, s, text, now_ms);
    }
    end_unanswered(d, s, retired, text);
    *s = (struct slot){.state = SLOT_EMPTY, .handler = -1};
}

/* --- what is due --- */

static void check_ready(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->n_spent > 0 && s->n_spent == s->n_given && now_ms >= s->patience_ms) {
        slots_stop(d, slot, STOP_RELEASE, SIGTERM, now_ms);
    } else if (now_ms >= s->limit_ms) {
        slots_stop(d, slot, s->pipe_closed ? STOP_PIPE_CLOSED : STOP_RELEASE, SIGTERM, now_ms);
    } else if (s->closing && s->limit_ms == INT64_MAX) {
        slots_close(d, slot, now_ms);
    }
}

static void check_child(struct decider *d, int slot, int64_t now_ms)
{
    struct slot *s = &d->slots[slot];
    if (s->state == SLOT_READY) {
        check_ready(d, slot, now_ms);
    } else if (s->state == SLOT_STARTING && now_ms >= s->limit_ms) {
        slots_stop(d, slot, STOP_NO_HELLO, SIGKILL, now_ms);
    } else if (s->state == SLOT_STARTING && now_ms >= s->slow_ms) {
        start_tell_slow(d, slot, now_ms);
    } else if (s->state == SLOT_STOPPING && now_ms >= s->limit_ms) {
        slots_stop(d, slot, s->reason, SIGKILL, now_ms);
    }
}

/* The handler may have extended the deadline by SQL: ask the database, and give it ASK_LIMIT_MS to
 * answer. */
static bool asks_first(struct claim *c, int64_t now_ms)
{
    if (c->asked != ASKED_NOT) {
        return false;
    }
    c->asked = ASKED_SOON;
    c->verify_ms = now_ms;
    c->deadline_ms = now_ms + ASK_LIMIT_MS;
    return true;
}

/* Which running tasks are out of time? And when does the next one need attention? */
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
            if (now_ms >= c->deadline_ms && is_spent(c)) {
                slots_stop(d, i, STOP_RELEASE, SIGTERM, now_ms);
            } else if (now_ms >= c->deadline_ms && !asks_first(c, now_ms)) {
                spend(d, c, now_ms);
                c->out_of_time = true;
            }
            set_attention(d, c);
        }
    }
}

void slots_close_idle(struct decider *d, int64_t now_ms)
{
    for (int i = 0; i < d->n_slots; i++) {
        struct slot *s = &d->slots[i];
        if (s->state == SLOT_READY && s->n_given == 0 && !s->closing) {
            slots_close(d, i, now_ms);
        }
    }
}

void slots_decide(struct decider *d, int64_t now_ms)
{
    if (now_ms >= d->attention_ms) {
        check_given(d, now_ms);
    }
    for (int i = 0; i < d->n_slots; i++) {
        check_child(d, i, now_ms);
    }
    /* tasks take long now: claim nothing ahead at the old rate */
    if (now_ms - d->rate_from_ms >= RATE_STALE_MS) {
        take_rate(d, now_ms);
    }
    start_count(d, now_ms);
    give_decide(d, now_ms);
    if (d->stop_level > 0) {
        slots_close_idle(d, now_ms);
    }
}

int64_t slots_due(const struct decider *d, int64_t now_ms)
{
    int64_t due = give_due(d, now_ms);
    due = d->attention_ms < due ? d->attention_ms : due;
    for (int i = 0; i < d->n_slots; i++) {
        const struct slot *s = &d->slots[i];
        if (s->state != SLOT_EMPTY && s->limit_ms < due) {
            due = s->limit_ms;
        }
        if (s->state == SLOT_STARTING && s->slow_ms < due) {
            due = s->slow_ms;
        }
        if (s->n_spent > 0 && s->patience_ms > now_ms && s->patience_ms < due) {
            due = s->patience_ms;
        }
    }
    return due > now_ms ? due : now_ms + 10;
}
