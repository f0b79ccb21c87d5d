#include "tests/support/deciding.h"

#include <stdlib.h>
#include <string.h>

static const char *const one_kind[] = {"a"};
static const char *const two_kinds[] = {"a", "b,c"};
const bool exec_mode[] = {false, false};
const bool pool_mode[] = {true, true};
enum verdict verdict = VERDICT_MINE;
static size_t seen; /* actions of the last call of decide() */

struct decider *decider_make(int slots, int handlers, const bool *pool)
{
    struct decider *d = decider_new(slots, handlers, handlers == 1 ? one_kind : two_kinds, pool,
                                    25000, false, 42, 0);
    assert_non_null(d);
    d->warm = true; /* children start with the tasks; decider_start_test looks at how */
    d->starts_max = SLOTS_MAX;
    for (int i = 0; i < handlers; i++) {
        d->handlers[i].starts_well = true;
    }
    d->alone.ask_ms = INT64_MAX / 2; /* no suspects: decider_alone_test has them */
    seen = 0;
    return d;
}

struct claim *claimed(int64_t id, const char *kind)
{
    struct claim *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (struct claim){.id = id,
                        .claims = 1,
                        .attempt = 1,
                        .key = 1000 + id,
                        .timeout_ms = 10000,
                        .queue = "default",
                        .kind = kind,
                        .payload = "{}",
                        .payload_bytes = 2,
                        .handler = *kind == 'a' ? 0 : 1,
                        .slot = -1,
                        .delay_ms = -1};
    return c;
}

void feed(struct decider *d, int64_t now, struct event e)
{
    decider_event(d, &e, now);
}

int64_t decide(struct decider *d, int64_t now)
{
    seen = seen < d->actions.n ? seen : d->actions.n;
    for (size_t i = seen; i < d->actions.n; i++) {
        d->actions.items[i - seen] = d->actions.items[i];
    }
    d->actions.n -= seen;
    int64_t due = decider_decide(d, now);
    seen = d->actions.n;
    return due;
}

const struct action *action_find(const struct decider *d, enum action_type type)
{
    for (size_t i = 0; i < d->actions.n; i++) {
        if (d->actions.items[i].type == type) {
            return &d->actions.items[i];
        }
    }
    return NULL;
}

size_t action_count(const struct decider *d, enum action_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < d->actions.n; i++) {
        n += d->actions.items[i].type == type;
    }
    return n;
}

const struct action *note_find(const struct decider *d, enum note note)
{
    for (size_t i = 0; i < d->actions.n; i++) {
        if (d->actions.items[i].type == ACTION_NOTE && d->actions.items[i].note == note) {
            return &d->actions.items[i];
        }
    }
    return NULL;
}

void present(struct decider *d, int64_t now)
{
    feed(d, now, (struct event){.type = EVENT_PRESENCE, .up = true});
}

void commit(struct decider *d, int64_t now, struct claim *const *found, size_t n)
{
    struct round *x = &d->round;
    for (size_t i = 0; i < x->n_finish; i++) {
        x->finished[i] = true;
    }
    for (size_t i = 0; i < x->n_requeue; i++) {
        x->requeue_state[i] = REQUEUE_READY;
    }
    for (size_t i = 0; i < x->n_verify; i++) {
        x->verdicts[i] = verdict;
        x->timeouts_ms[i] = 0;
    }
    for (size_t i = 0; i < x->n_progress; i++) {
        x->progress[i]->state = WRITE_WRITTEN;
    }
    for (size_t i = 0; i < x->n_steps; i++) {
        x->steps[i]->state = WRITE_WRITTEN;
    }
    for (size_t i = 0; i < n; i++) {
        x->claimed[i] = found[i];
    }
    x->n_claimed = n;
    x->end = x->n_poll > 0 && n == (size_t)x->n_poll ? POLL_FULL : POLL_ALL;
    feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
}

struct decider *running(const bool *pool, struct claim *c)
{
    struct decider *d = decider_make(1, 1, pool);
    present(d, 0);
    (void)decide(d, 0);
    assert_non_null(action_find(d, ACTION_ROUND));
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    assert_non_null(action_find(d, ACTION_SPAWN));
    if (*pool) {
        feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
        (void)decide(d, 2);
        assert_non_null(action_find(d, ACTION_GIVE));
    }
    assert_int_equal(d->n_given, 1);
    return d;
}

void reply(struct decider *d, int64_t now, int64_t id, enum claim_outcome outcome)
{
    feed(d, now,
         (struct event){
             .type = EVENT_REPLY, .slot = 0, .id = id, .outcome = outcome, .delay_ms = -1});
}

void gone(struct decider *d, int64_t now, int slot, const char *text)
{
    feed(d, now, (struct event){.type = EVENT_CHILD_GONE, .slot = slot, .text = text});
}

void settle(struct decider *d, int64_t now)
{
    if (d->rounds.in_flight) {
        commit(d, now, NULL, 0);
        (void)decide(d, now);
    }
}
