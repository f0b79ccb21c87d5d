/* When the leader reads fresh rows, and when it sleeps.
 *
 * Awake, it reads by itself: every PACE_BUSY_MS while rows keep coming that their producers do
 * not publish. When none came for PACE_QUIET_MS it tries to take the sleeper's lock and reads
 * once more. Refused, a producer is in flight: read again in PACE_REFUSED_MS. Granted, it
 * sleeps: producers now see that the lock is taken and NOTIFY. The caller answers with a read,
 * at once or, when too many found nothing, a little later (core/base/throttle.h). Without a NOTIFY
 * it reads when the watch has seen rows, every PACE_FOLLOW_MS while announced rows keep coming,
 * so that few wait above the watermark when it is called, and every PACE_TICK_MS. */
#ifndef TENON_CLEANER_DECIDE_PACE_H
#define TENON_CLEANER_DECIDE_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_BUSY_MS = 2,
    PACE_QUIET_MS = 4,
    PACE_REFUSED_MS = 20,
    PACE_FOLLOW_MS = 100,
    PACE_TICK_MS = 60000,
};

enum pace_news {
    PACE_NOTHING,
    PACE_ANNOUNCED, /* rows, and their producers publish them all */
    PACE_ROWS,
};

enum pace_act {
    PACE_READ,   /* read */
    PACE_LOCK,   /* try the lock, then read */
    PACE_UNLOCK, /* give the lock back, then read */
};

struct pace {
    bool asleep;      /* the lock is ours */
    bool roused;      /* asleep, and rows were found */
    int64_t found_ms; /* when rows were found last */
};

/* Awake, as if rows had just been found. */
void pace_start(struct pace *p, int64_t now_ms);

/* What to do now. */
enum pace_act pace_plan(const struct pace *p, bool notified, int64_t now_ms);

/* It was done.
 *   granted   PACE_LOCK: the lock is ours
 *   news      what rows were news
 *   more      read again without a pause
 *   ret       when to read again */
int64_t pace_done(struct pace *p, enum pace_act act, bool granted, enum pace_news news, bool more,
                  int64_t now_ms);

/* It failed, and whether the lock is ours is not known: give it back with the next read. */
void pace_failed(struct pace *p);

#endif
