/* A cleaner: its real deciding parts (judge.h, pass, watermark, pace) in a model of its chores,
 * which run one after the other in one session, each in a transaction. */
#ifndef TENON_TESTS_SIM_CLEANER_H
#define TENON_TESTS_SIM_CLEANER_H

#include "cleaner/decide/pace.h"
#include "cleaner/decide/pass.h"
#include "cleaner/decide/watermark.h"
#include "tests/sim/judge.h"
#include "tests/sim/statements.h"

enum { CLEANERS_MAX = 2, OFFERS_MAX = ROWS_MAX };

enum chore { CHORE_WATCH, CHORE_FRESH, CHORE_DUE, CHORE_WORKERS, CHORE_RECOVER, CHORES };

struct cleaner {
    int index;
    bool up, frozen, leader, notified, reread, busy;
    int64_t turn; /* the one that is planned */
    struct judge *judge;
    int64_t life; /* counts starts and sessions, so that what was planned before is void */
    int64_t session, clock_ms, leads_since_us;
    int64_t next_ms[CHORES];
    int64_t due_us, asked_us;
    struct pace pace;
    struct pass pass;
    struct watermark watermark;

    /* the chore that goes on: what its transaction found, to be told when it has committed */
    enum chore chore;
    enum pace_act act;
    bool granted, declared;
    size_t n_rows;
    int64_t rows[OFFERS_MAX];
    struct snapshot snapshot; /* of the read of fresh rows under way */
    bool seen[ROWS_MAX + 1];  /* by the reads of fresh rows, while it leads */
};

void cleaner_start(struct sim *s, struct cleaner *c);
void cleaner_kill(struct sim *s, struct cleaner *c, int64_t down_us);
void cleaner_cut(struct sim *s, struct cleaner *c); /* its session breaks */
void cleaner_freeze(struct sim *s, struct cleaner *c, int64_t us);
/* A transaction with a NOTIFY has committed. */
void cleaner_notify(struct sim *s);
void cleaner_hurry(struct sim *s, struct cleaner *c, enum chore chore, int64_t wait_ms);

#endif
