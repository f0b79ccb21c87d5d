#include "worker/decide/held.h"

#include "worker/decide/state.h"

#include <stdlib.h>
#include <utlist.h>

struct claim *held_find(const struct decider *d, int64_t id)
{
    struct claim *c;
    HASH_FIND(hh, d->held, &id, sizeof id, c);
    return c;
}

static struct claim **ended_list(struct decider *d, const struct claim *c)
{
    return c->outcome == OUTCOME_DONE ? &d->to_finish : &d->to_requeue;
}

void held_list_ended(struct decider *d, struct claim *c, bool first)
{
    struct claim **list = ended_list(d, c);
    c->state = CLAIM_ENDED;
    if (first) {
        DL_PREPEND(*list, c);
    } else {
        DL_APPEND(*list, c);
    }
}

void held_unlist(struct decider *d, struct claim *c)
{
    switch (c->state) {
    case CLAIM_WAITING:
        DL_DELETE(d->handlers[c->handler].waiting, c);
        d->handlers[c->handler].n_waiting--;
        d->n_waiting--;
        break;
    case CLAIM_GIVEN:
        slots_remove(d, c);
        break;
    case CLAIM_WRITING:
        DL_DELETE(d->writing, c);
        break;
    case CLAIM_ENDED:
        DL_DELETE(*ended_list(d, c), c);
        break;
    case CLAIM_DOUBTFUL:
        DL_DELETE(d->doubtful, c);
        break;
    case CLAIM_IN_ROUND:
        break;
    }
}

void held_wait(struct decider *d, struct claim *c, int64_t now_ms)
{
    c->state = CLAIM_WAITING;
    c->claimed_ms = c->begun_ms = d->rounds.begun_ms;
    c->since_ms = now_ms;
    DL_APPEND(d->handlers[c->handler].waiting, c);
    d->handlers[c->handler].n_waiting++;
    d->n_waiting++;
}

void held_end(struct decider *d, struct claim *c, enum claim_outcome outcome, char *error)
{
    held_unlist(d, c);
    c->outcome = outcome;
    if (error) {
        free(c->error);
        c->error = error;
    }
    if (writes_go_first(d, c)) {
        c->state = CLAIM_WRITING;
        DL_APPEND(d->writing, c);
    } else {
        held_list_ended(d, c, false);
    }
}

void held_drop(struct decider *d, struct claim *c)
{
    held_unlist(d, c);
    writes_forget(d, c);
    if (c->hashed) {
        HASH_DEL(d->held, c);
    }
    d->n_held--;
    if (c->handler >= 0) {
        d->handlers[c->handler].payload_bytes -= c->payload_bytes + c->steps_bytes;
        d->handlers[c->handler].reply_bytes -= c->reply_bytes;
    }
    claim_free(c);
}

void held_doubt(struct decider *d, struct claim *c)
{
    if (!c->hashed) { /* verdicts find claims by the hash; asking for all of ours finds it */
        d->rounds.need_own = true;
        held_drop(d, c);
        return;
    }
    held_unlist(d, c);
    c->state = CLAIM_DOUBTFUL;
    DL_APPEND(d->doubtful, c);
}

size_t held_bytes_share(const struct decider *d)
{
    return HELD_BYTES_MAX / (size_t)d->n_handlers;
}
