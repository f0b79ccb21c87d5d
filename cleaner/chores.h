/* The chores: a table of what is to be done, how often, and by whom.
 *
 * Each is a few short statements of limited size that wait for no lock. One call does all that is
 * due and says when it wants to be called again. */
#ifndef TENON_CLEANER_CHORES_H
#define TENON_CLEANER_CHORES_H

#include "cleaner/state.h"

/* One turn of a chore. */
struct turn {
    int64_t now_ms;
    int64_t next_ms; /* when it wants its next turn; set beforehand to one period from now */
    bool more;       /* work is left: with --once the next turn must come */
};

/* "settle" */
const char *chore_name(enum chore_id id);

/* Every chore is due now: a new session has begun. */
void chores_start(struct cleaner *c, int64_t now_ms);

/* Do all that is due. ret: when the next chore is due; INT64_MAX: none is (--once).
 * The hot session may be gone afterwards (c->hot is NULL). */
int64_t chores_step(struct cleaner *c, int64_t now_ms);

/* Let a chore have its turn as soon as possible. */
void chores_hurry(struct cleaner *c, enum chore_id id, int64_t now_ms);

/* The same for what anybody who may log in can ask for: when it found nothing too often it waits a
 * little. */
void chores_hurry_within(struct cleaner *c, enum chore_id id, const struct throttle *r,
                         int64_t now_ms);

/* The chores, each in the file of its name. false: see struct fault; after AGAIN the turn is
 * repeated soon, after any other fault later. */
MUST_CHECK bool watch_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool partitions_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool settle_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool schedules_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool fresh_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool due_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool workers_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool recover_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool ready_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool minutes_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool history_turn(struct cleaner *c, struct turn *turn, struct fault *f);
MUST_CHECK bool report_turn(struct cleaner *c, struct turn *turn, struct fault *f);

/* There is something to settle. */
void settle_call(struct cleaner *c, int64_t now_ms);

/* The leadership begins: LISTEN, and all rows that are there are old. */
MUST_CHECK bool fresh_start(struct cleaner *c, int64_t now_ms, struct fault *f);

/* It ends, and the session continues. */
MUST_CHECK bool fresh_stop(struct cleaner *c, struct fault *f);

/* Somebody else has the sleeper's lock: take another one, if we do not hold it ourselves. */
MUST_CHECK bool fresh_disturbed(struct cleaner *c, struct fault *f);

/* What was done since the start, except `published`, `held_back` and `dropped`. */
struct counts report_totals(const struct cleaner *c);

/* The statistics line, now. */
void report_now(struct cleaner *c);

#endif
