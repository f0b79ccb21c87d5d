/* When to poll, and how: from where the last poll ended, or from the head of the index, which is a
 * sweep (worker/poll.h has the cursors, docs/decisions/0025-the-poll.md the reasons). */
#ifndef TENON_WORKER_DECIDE_POLLING_H
#define TENON_WORKER_DECIDE_POLLING_H

#include "core/base/throttle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    POLL_ROWS_MAX = 10000, /* that one poll reads */
    POLL_EVERY_MS = 1000,  /* when there is no other reason to poll; */
    POLL_PEERS = 10, /* of more workers that serve the same, each polls and sweeps less often, */
    POLL_SLOWER_MAX = 4, /* up to this many times: together they poll ten times a second or more */
    POLL_JITTER_MS = 250,
    POLL_PICKED = 8, /* of workers that serve the same this many poll when notified of tasks, */
    POLL_PICKED_EACH = 2, /* and this many more for each task */
    POLL_PAUSE_MS = 50, /* after a poll that read POLL_ROWS_MAX rows and claimed less than it may */
    SWEEP_EVERY_MS = 1000,
    SWEEP_SHARE = 20,          /* the rest after a sweep is 20 times as long as it took, */
    SWEEP_REST_MAX_MS = 10000, /* up to this */
    SWEEP_FULL_SHARE = 300,    /* the same between sweeps of all that is ready */
    SWEEP_FULL_REST_MAX_MS = 60000,
    SWEEP_REACH_MS = 2000, /* the other sweeps read what became due in the last 2 s; every second */
    SWEEP_REACHES = 32,    /* one in the last 4 s, every fourth in the last 8 s ... up to 64 s */
    POLL_LOWEST_EVERY_MS = 5000, /* in a backlog: one task of the lowest priority */
};

enum poll_way {
    POLL_ON,       /* from where the last poll ended */
    POLL_SWEEP,    /* from the head of the index */
    POLL_SWEEP_ON, /* from where the sweep has got to */
    POLL_LOWEST,   /* from the lowest priority up */
};

/* What a poll has read. FULL: it claimed as many tasks as it may, or left some out. */
enum poll_end {
    POLL_ALL,         /* all that is ready */
    POLL_FULL_BEFORE, /* there may be more, before the place where polls continue */
    POLL_FULL,        /* there may be more behind that */
    POLL_BOUNDED,     /* POLL_ROWS_MAX rows; there may be more */
};

enum sweep {
    SWEEP_OVER,
    SWEEP_GOES_ON,
    SWEEP_HELD_UP, /* by a backlog of higher priority; continues when that is over */
};

struct polling {
    int64_t next_ms, next_sweep_ms, next_full_ms, next_lowest_ms;
    bool at_once; /* it was told to poll; again if a poll is in flight, which may be too early */
    struct throttle told; /* against too many such polls that find nothing */
    bool is_told;         /* the last POLL_ON was such a poll */
    bool backlog;         /* the last poll was full */
    enum sweep sweep;
    int64_t reach_ms; /* the sweep reads what became due in that time before it; -1 = all */
    int64_t sweep_begun_ms;
    unsigned short_sweep;  /* 1..SWEEP_REACHES, counts the sweeps that do not read all */
    int64_t sweep_took_ms; /* its polls together */
    bool sweep_found;      /* it found tasks, or left some out */
    bool sweep_again;      /* another one must follow it at once */
    unsigned turn;         /* rotates the queues, so that each is first in turn */
    size_t peers;          /* workers that serve the same, with this one; 0 = not known yet */
};

/* Every worker is told of tasks that are ready, and a poll for nothing costs more than that. So of
 * many workers that serve the same chance picks enough for `tasks` tasks, which poll at once, and
 * the others poll within POLL_EVERY_MS. Without a number (0) all poll at once. */
void polling_told(struct polling *p, size_t tasks, int64_t random, int64_t now_ms);

/* Is a poll due, and which? It goes into the next round; POLL_LOWEST claims one task only. */
bool polling_begin(struct polling *p, enum poll_way *ret, int64_t now_ms);

/* A sweep of all that is ready is due. */
void polling_sweep_now(struct polling *p, int64_t now_ms);

/* Tasks that polls passed over may be claimed from now on: sweep all, at once. */
void polling_sweep(struct polling *p, int64_t now_ms);

/* A task was requeued and is ready, before the place where polls continue: the next sweep of all
 * comes within SWEEP_REST_MAX_MS. */
void polling_given_back(struct polling *p, int64_t now_ms);

/* The round with the poll has committed. `found`: it found a task, or left out kinds. */
void polling_end(struct polling *p, enum poll_way way, enum poll_end end, bool found,
                 int64_t took_ms, int64_t jitter_ms, int64_t now_ms);

/* How far back a poll of the sweep reads if it begins now; -1 = all. */
int64_t polling_reach_ms(const struct polling *p, int64_t now_ms);

/* When the next poll is due, if there is room for tasks. */
int64_t polling_due(const struct polling *p);

#endif
