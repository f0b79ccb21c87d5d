#include "worker/decide/polling.h"

static int64_t between(int64_t least, int64_t n, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* How many times longer the rests are than those of a worker alone. */
static int64_t slower(const struct polling *p)
{
    return between(1, (int64_t)(p->peers / POLL_PEERS), POLL_SLOWER_MAX);
}

/* 2 s, 4 s, 2 s, 8 s, 2 s, 4 s, 2 s, 16 s ...: rows far back are read again rarely. */
static int64_t next_reach_ms(struct polling *p)
{
    p->short_sweep = p->short_sweep % SWEEP_REACHES + 1;
    unsigned lowest_bit = p->short_sweep & -p->short_sweep;
    return SWEEP_REACH_MS * slower(p) * lowest_bit;
}

/* When to poll because it was told to. */
static int64_t told_due(const struct polling *p)
{
    return p->at_once ? throttle_due(&p->told) : INT64_MAX;
}

void polling_told(struct polling *p, size_t tasks, int64_t random, int64_t now_ms)
{
    bool all = tasks == 0 || tasks >= p->peers;
    if (all || (uint64_t)random % p->peers < POLL_PICKED + POLL_PICKED_EACH * tasks) {
        p->at_once = true;
    } else if (p->next_ms > now_ms + POLL_EVERY_MS) {
        p->next_ms = now_ms + 1 + random % POLL_EVERY_MS;
    }
}

bool polling_begin(struct polling *p, enum poll_way *ret, int64_t now_ms)
{
    if (p->backlog && now_ms >= p->next_lowest_ms) {
        *ret = POLL_LOWEST;
        p->next_lowest_ms = now_ms + POLL_LOWEST_EVERY_MS;
    } else if (now_ms >= p->next_sweep_ms && p->sweep == SWEEP_GOES_ON) {
        *ret = POLL_SWEEP_ON;
    } else if (now_ms >= p->next_sweep_ms) {
        *ret = POLL_SWEEP;
        p->reach_ms = now_ms < p->next_full_ms ? next_reach_ms(p) : -1;
        p->sweep_begun_ms = now_ms;
        p->sweep_found = false;
        p->sweep_took_ms = 0;
    } else if (now_ms >= told_due(p) || now_ms >= p->next_ms) {
        *ret = POLL_ON;
        p->is_told = now_ms < p->next_ms;
        p->at_once = false;
    } else {
        return false;
    }
    p->turn++;
    return true;
}

void polling_sweep_now(struct polling *p, int64_t now_ms)
{
    p->next_sweep_ms = p->next_full_ms = now_ms;
}

void polling_sweep(struct polling *p, int64_t now_ms)
{
    p->sweep_again = p->sweep != SWEEP_OVER;
    if (p->sweep != SWEEP_GOES_ON) {
        polling_sweep_now(p, now_ms);
    }
}

void polling_given_back(struct polling *p, int64_t now_ms)
{
    if (p->next_full_ms > now_ms + SWEEP_REST_MAX_MS) {
        p->next_full_ms = now_ms + SWEEP_REST_MAX_MS;
    }
}

/* Sweeps take a twentieth of the time at most, and those of all that is ready a three-hundredth
 * (more if that would exceed the longest rest). So deleted rows, which a held snapshot keeps in the
 * index, do not take all the time. */
static int64_t sweep_rest_ms(struct polling *p, int64_t now_ms)
{
    if (p->reach_ms < 0) {
        p->next_full_ms = now_ms +
                          between(0, SWEEP_FULL_SHARE * p->sweep_took_ms, SWEEP_FULL_REST_MAX_MS);
    }
    return between(SWEEP_EVERY_MS * slower(p), p->reach_ms < 0 ? 0 : SWEEP_SHARE * p->sweep_took_ms,
                   SWEEP_REST_MAX_MS);
}

static void sweep_end(struct polling *p, enum poll_end end, int64_t pause_ms, int64_t now_ms)
{
    bool goes_on = end == POLL_BOUNDED || end == POLL_FULL_BEFORE;
    p->sweep = goes_on ? SWEEP_GOES_ON : end == POLL_FULL ? SWEEP_HELD_UP : SWEEP_OVER;
    p->next_sweep_ms = now_ms + (goes_on ? pause_ms : sweep_rest_ms(p, now_ms));
    if (p->sweep == SWEEP_OVER && p->sweep_again) {
        polling_sweep(p, now_ms);
    }
}

void polling_end(struct polling *p, enum poll_way way, enum poll_end end, bool found,
                 int64_t took_ms, int64_t jitter_ms, int64_t now_ms)
{
    bool full = end == POLL_FULL || end == POLL_FULL_BEFORE;
    int64_t pause_ms = end == POLL_BOUNDED ? POLL_PAUSE_MS : 0;
    if (way == POLL_LOWEST) {
        return;
    }
    if (way == POLL_ON && p->is_told && !found) {
        throttle_charge(&p->told, now_ms);
    }
    if (way != POLL_ON) {
        p->sweep_found = p->sweep_found || found;
        p->sweep_took_ms += took_ms;
        sweep_end(p, end, pause_ms, now_ms);
        bool ends_nothing = p->backlog && !full && p->reach_ms >= 0;
        if (end == POLL_BOUNDED || ends_nothing) {
            return; /* there may be more behind those rows, or before what was read */
        }
    }
    if (full && !p->backlog) {
        p->next_lowest_ms = now_ms + POLL_LOWEST_EVERY_MS;
    } else if (!full && p->sweep == SWEEP_HELD_UP) {
        p->sweep = SWEEP_GOES_ON;
        p->next_sweep_ms = now_ms;
    }
    p->backlog = full;
    p->next_ms = now_ms + (end == POLL_ALL ? (POLL_EVERY_MS + jitter_ms) * slower(p) : pause_ms);
}

int64_t polling_reach_ms(const struct polling *p, int64_t now_ms)
{
    return p->reach_ms < 0 ? -1 : p->reach_ms + now_ms - p->sweep_begun_ms;
}

int64_t polling_due(const struct polling *p)
{
    int64_t due = p->next_ms < p->next_sweep_ms ? p->next_ms : p->next_sweep_ms;
    return told_due(p) < due ? told_due(p) : due;
}
