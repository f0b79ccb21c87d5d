#include "worker/decide/decider.h"

#include "worker/decide/held.h"
#include "worker/decide/round_plan.h"
#include "worker/decide/start.h"
#include "worker/decide/tally.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    FULL_FOR_MS = 1000,  /* after this long without a free slot, wake-ups are given back */
    PREFETCH_FAST = 256, /* ids held unacked when tasks take less than FAST_US */
};

/* In "mail,sms" there are two. */
static int count_kinds(const char *kinds)
{
    int n = 1;
    for (const char *at = kinds; (at = strchr(at, ',')); at++) {
        n++;
    }
    return n;
}

struct decider *decider_new(int n_slots, int n_handlers, const char *const *kinds, const bool *pool,
                            int64_t drain_limit_ms, bool until_empty, uint64_t seed, int64_t now_ms)
{
    struct decider *d = calloc(1, sizeof *d);
    if (!d) {
        return NULL;
    }
    d->n_slots = n_slots;
    d->n_handlers = n_handlers;
    for (int i = 0; i < n_handlers; i++) {
        d->handlers[i] = (struct decider_handler){.kinds = kinds[i],
                                                  .name = kinds[i],
                                                  .pool = pool[i],
                                                  .room = 1,
                                                  .start_limit_ms = START_LIMIT_MS,
                                                  .used_ms = now_ms - KEEP_MS,
                                                  .first_kind = (int)d->n_kinds,
                                                  .n_kinds = count_kinds(kinds[i])};
        d->n_kinds += (size_t)d->handlers[i].n_kinds;
    }
    d->paused = calloc(d->n_kinds + 1, sizeof *d->paused);
    d->told_paused = calloc(d->n_kinds + 1, sizeof *d->told_paused);
    if (!d->paused || !d->told_paused) {
        decider_free(d);
        return NULL;
    }
    d->starts_max = 1;
    d->drain_limit_ms = drain_limit_ms;
    d->until_empty = until_empty;
    d->random = seed | 1;
    d->rounds.outcomes_max = ROUND_OUTCOMES_MAX;
    d->rounds.writes_max = ROUND_WRITES_MAX;
    for (int i = 0; i < ROUND_PARTS; i++) {
        d->rounds.parts[i].pause_ms = RETRY_MIN_MS;
    }
    d->attention_ms = d->stop_ms = d->rounds.own_again_ms = INT64_MAX;
    d->full_since_ms = -1;
    alone_reset(d, now_ms);
    d->absent_since_ms = now_ms;
    d->rate_from_ms = now_ms;
    d->ewma_us = 2 * FAST_US;
    return d;
}

void decider_chunks(struct decider *d, int handler, int chunk_size, int64_t chunk_wait_ms)
{
    struct decider_handler *h = &d->handlers[handler];
    h->chunk_size = chunk_size;
    h->room = chunk_size > 0 ? chunk_size : h->room;
    h->chunk_wait_ms = chunk_wait_ms;
}

static void free_unhashed(struct claim *list)
{
    struct claim *c, *next;
    DL_FOREACH_SAFE(list, c, next)
    {
        if (!c->hashed) {
            claim_free(c);
        }
    }
}

void decider_free(struct decider *d)
{
    if (!d) {
        return;
    }
    round_free(d);
    free_unhashed(d->to_finish);
    free_unhashed(d->to_requeue);
    struct claim *c, *next;
    HASH_ITER(hh, d->held, c, next)
    {
        writes_forget(d, c);
        HASH_DEL(d->held, c);
        claim_free(c);
    }
    free(d->actions.items);
    free(d->paused);
    free(d->told_paused);
    free(d);
}

/* Release the tasks that no child has yet. */
static void release_waiting(struct decider *d)
{
    for (int i = 0; i < d->n_handlers; i++) {
        while (d->handlers[i].waiting) {
            held_end(d, d->handlers[i].waiting, OUTCOME_RELEASED, NULL);
        }
    }
}

static void stop(struct decider *d, int64_t now_ms)
{
    d->stop_level++;
    wakeups_forget(&d->wakeups);
    release_waiting(d);
    if (d->stop_level == 1) {
        d->stop_ms = now_ms + d->drain_limit_ms;
        actions_note(&d->actions, NOTE_DRAINING, 0, "%d tasks run, up to %lld ms to finish",
                     d->n_given, (long long)d->drain_limit_ms);
        slots_tell_drain(d);
    } else {
        d->stop_ms = now_ms;
    }
}

/* After an operator's drain, the first signal adds nothing. */
static void told_to_stop(struct decider *d, const struct event *e, int64_t now_ms)
{
    bool drain = e->type == EVENT_DRAIN;
    bool again = drain ? d->stop_level > 0 : d->drain_told;
    d->drain_told = drain && (!again || d->drain_told);
    if (!again) {
        stop(d, now_ms);
    }
}

static void drop_ended(struct decider *d, struct claim *const *list)
{
    while (*list) {
        actions_note(&d->actions, NOTE_CLAIM_LOST, (*list)->id,
                     "the worker had been declared dead");
        d->count_lost++;
        tally_ended(d, *list, TALLY_LOST);
        held_drop(d, *list);
    }
}

static void presence(struct decider *d, const struct event *e, int64_t now_ms)
{
    if (!e->up) {
        /* it may be told twice: the first time counts */
        d->absent_since_ms = d->present ? e->since_ms : d->absent_since_ms;
        d->present = false;
        return;
    }
    d->present = true;
    if (!e->renewed) {
        return;
    }
    /* the cleaner has requeued the tasks of the old worker id: no claim is ours any more */
    slots_lose_all(d, now_ms);
    for (int i = 0; i < d->n_handlers; i++) {
        while (d->handlers[i].waiting) {
            held_drop(d, d->handlers[i].waiting);
        }
    }
    drop_ended(d, &d->writing);
    drop_ended(d, &d->to_finish);
    drop_ended(d, &d->to_requeue);
    alone_reset(d, now_ms);
    d->rounds.need_own = false;
    d->rounds.stale = d->rounds.in_flight;
}

static void pauses(struct decider *d, const struct event *e)
{
    memset(d->told_paused, 0, d->n_kinds * sizeof *d->told_paused);
    for (size_t i = 0; i < e->n; i++) {
        d->told_paused[e->ids[i]] = true;
    }
    d->pauses_told = true;
}

static void broker(struct decider *d, const struct event *e)
{
    wakeups_forget(&d->wakeups);
    d->epoch = e->epoch;
    d->polling.at_once = d->polling.at_once || !e->up;
}

/* Stop all children; their tasks are released, if they are ours still. */
static void frozen(struct decider *d, int64_t now_ms)
{
    if (!slots_all_empty(d)) {
        slots_stop_all(d, STOP_RELEASE, SIGKILL, now_ms);
        actions_note(&d->actions, NOTE_STOPPING_CHILDREN, 0,
                     "this process was frozen, others may start our tasks");
    }
}

/* Those of a channel that is gone would come again by themselves. */
static void wakeups(struct decider *d, const struct event *e)
{
    if (e->epoch > d->epoch) {
        wakeups_forget(&d->wakeups);
        d->epoch = e->epoch;
    }
    if (e->epoch == d->epoch && d->stop_level == 0) {
        wakeups_add(&d->wakeups, e->ids, e->n, e->last_tag);
    }
}

void decider_event(struct decider *d, const struct event *e, int64_t now_ms)
{
    d->now_ms = now_ms;
    switch (e->type) {
    case EVENT_WAKEUPS:
        wakeups(d, e);
        break;
    case EVENT_BROKER:
        broker(d, e);
        break;
    case EVENT_PRESENCE:
        presence(d, e, now_ms);
        break;
    case EVENT_ROUND_DONE:
        round_done(d, now_ms);
        break;
    case EVENT_ROUND_FAILED:
        round_failed(d, e->failure, e->text, now_ms);
        break;
    case EVENT_CHILD_READY:
        slots_child_ready(d, e->slot, e->room, e->hears_stop);
        break;
    case EVENT_REPLY:
        slots_reply(d, e, now_ms);
        break;
    case EVENT_PROGRESS:
        writes_progress(d, e, now_ms);
        break;
    case EVENT_STEP:
        writes_step(d, e);
        break;
    case EVENT_LOG:
    case EVENT_PRINTED:
        break;
    case EVENT_CHILD_PIPE_CLOSED:
        slots_child_pipe_closed(d, e->slot, now_ms);
        break;
    case EVENT_CHILD_RETIRES:
        slots_child_retires(d, e->slot);
        break;
    case EVENT_CHILD_GONE:
        slots_child_gone(d, e, now_ms);
        break;
    case EVENT_PAUSED:
        pauses(d, e);
        break;
    case EVENT_POLL:
        polling_told(&d->polling, e->n, round_jitter(d, INT32_MAX), now_ms);
        break;
    case EVENT_PEERS:
        d->polling.peers = e->n;
        break;
    case EVENT_FROZEN:
        frozen(d, now_ms);
        break;
    case EVENT_DRAIN:
    case EVENT_STOP:
        told_to_stop(d, e, now_ms);
        break;
    }
}

/* How many unacked ids RabbitMQ may send. */
static int wanted_prefetch(struct decider *d, int64_t now_ms)
{
    if (!round_may_claim(d)) {
        return 0;
    }
    if (round_capacity(d) > 0) {
        d->full_since_ms = -1;
    } else if (d->full_since_ms < 0) {
        d->full_since_ms = now_ms;
    } else if (now_ms - d->full_since_ms >= FULL_FOR_MS) {
        return 0;
    }
    /* a change restarts the consumers, so the limit to leave fast mode is twice that to enter it */
    int64_t fast_us = d->prefetch == PREFETCH_FAST ? 2 * FAST_US : FAST_US;
    return d->ewma_us < fast_us         ? PREFETCH_FAST
           : d->n_slots < PREFETCH_FAST ? d->n_slots
                                        : PREFETCH_FAST;
}

static void decide_ack(struct decider *d)
{
    uint64_t tag;
    if (wakeups_ack(&d->wakeups, &tag)) {
        struct action *a = actions_add(&d->actions, ACTION_ACK);
        a->epoch = d->epoch;
        a->tag = tag;
    }
}

static void decide_prefetch(struct decider *d, int64_t now_ms)
{
    int wanted = wanted_prefetch(d, now_ms);
    if (wanted == d->prefetch) {
        return;
    }
    /* keep what was delivered until a new epoch says that it is delivered again: the consumer may
     * miss all but the last of several changes, and then its channel stays open */
    d->prefetch = wanted;
    actions_add(&d->actions, ACTION_PREFETCH)->n = wanted;
}

static void decide_stop(struct decider *d, int64_t now_ms)
{
    if (d->stop_level == 0) {
        return;
    }
    if (now_ms >= d->stop_ms) {
        slots_stop_all(d, STOP_RELEASE, d->stop_level > 1 ? SIGKILL : SIGTERM, now_ms);
    }
    bool told_all = d->n_held == 0 && !d->rounds.in_flight && !d->rounds.need_own;
    bool must_not_tell = d->stop_level > 1 && !d->present;
    /* without the database outcomes cannot be told; the cleaner recovers these tasks */
    bool given_up = now_ms >= d->stop_ms && now_ms - d->stop_ms >= 2 * TERM_GRACE_MS;
    if (((told_all || must_not_tell) && slots_all_empty(d)) || given_up) {
        (void)actions_add(&d->actions, ACTION_EXIT);
    }
}

static void decide_absence(struct decider *d, int64_t now_ms)
{
    if (!d->present && d->n_given > 0 && now_ms - d->absent_since_ms >= PRESENCE_GRACE_MS) {
        size_t before = d->actions.n;
        slots_stop_all(d, STOP_RELEASE, SIGKILL, now_ms);
        if (d->actions.n > before) { /* log it once */
            actions_note(&d->actions, NOTE_STOPPING_CHILDREN, 0,
                         "without PostgreSQL for %d ms, others may start our tasks",
                         PRESENCE_GRACE_MS);
        }
    }
}

/* When to look again at something that may be overdue already. */
static int64_t then_or_soon(int64_t then_ms, int64_t now_ms)
{
    return then_ms > now_ms ? then_ms : now_ms + 100;
}

int64_t decider_decide(struct decider *d, int64_t now_ms)
{
    d->now_ms = now_ms;
    decide_absence(d, now_ms);
    slots_decide(d, now_ms);
    alone_decide(d, now_ms);
    round_plan(d, now_ms);
    decide_ack(d);
    decide_prefetch(d, now_ms);
    decide_stop(d, now_ms);

    int64_t due = sooner(round_due(d), slots_due(d, now_ms));
    if (d->stop_level > 0) {
        due = sooner(due, then_or_soon(d->stop_ms, now_ms));
    }
    if (!d->present && d->n_given > 0) {
        due = sooner(due, then_or_soon(d->absent_since_ms + PRESENCE_GRACE_MS, now_ms));
    }
    if (d->alone.state == ALONE_EMPTIES) {
        due = sooner(due, then_or_soon(d->alone.since_ms + d->alone.patience_ms, now_ms));
    }
    if (d->full_since_ms >= 0 && d->prefetch > 0) {
        due = sooner(due, d->full_since_ms + FULL_FOR_MS);
    }
    return due;
}
