/* The model of the tables beside tenon.task: who waits for whom (flows), who stands in the line of
 * which key (limits), and the notes that tell tenon.settle() where to look. Their names here and
 * there: ending flow_task.state, place
 * limit_task. */
#ifndef TENON_TESTS_SIM_SETTLING_H
#define TENON_TESTS_SIM_SETTLING_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct row;
struct cleaner;

enum { KEYS = 3, PARENTS_MAX = 3, WAITS_MAX = 640, NOTES_MAX = 1024, PLACES_MAX = 640 };
enum { SETTLING_ROWS_MAX = 200 }; /* ROWS_MAX */

#define NEVER_US INT64_MAX /* the run_at of what is blocked: infinity */

enum on_dead { ON_DEAD_WAIT, ON_DEAD_RUN, ON_DEAD_CANCEL };

/* A row of a side table is there for all, or for the session only that inserts it; and not for the
 * one that deletes it. 0 = nobody. */
struct mark {
    bool there;
    int64_t maker, taker;
};

struct flow_wait {
    struct mark mark;
    int64_t task, parent;
};

enum flow_act { NOTE_LOOK, NOTE_UNBLOCK, NOTE_CANCEL };

struct flow_note {
    struct mark mark;
    int64_t task;
    enum flow_act act;
};

struct limit_event {
    struct mark mark;
    int64_t task;  /* 0 = only its keys are to be looked at */
    unsigned keys; /* a bit for each */
    bool enters;
    int64_t hold_until_us; /* it was cancelled while it ran; 0 = it was not */
    int64_t at_us;         /* not before this moment */
};

enum line { LINE_LATER, LINE_WAITS, LINE_ELSEWHERE, LINE_HELD, LINE_ENDING, LINE_DEAD };

struct standing {
    enum line line;
    int priority;
    int64_t wanted_at;
};

/* A task at one of its keys. Only who settles changes one. */
struct place {
    struct mark mark;
    int key;
    int64_t task, changer;
    struct standing now, next;
};

/* How a task ended, as far as it was seen; 0 (ROW_NONE): it has not. */
struct ending {
    int now, next;
    int64_t changer;
};

struct rule {
    int running; /* so many at once */
    bool strict, skips_dead;
};

struct settling {
    bool used; /* by this schedule */
    struct rule rules[KEYS];
    int64_t settler; /* the session that holds its lock */
    int n_waits, n_notes, n_events, n_places;
    struct flow_wait waits[WAITS_MAX];
    struct flow_note notes[NOTES_MAX];
    struct limit_event events[NOTES_MAX];
    struct place places[PLACES_MAX];
    struct ending endings[SETTLING_ROWS_MAX]; /* by row */
};

void settling_end(struct sim *s, int64_t session, bool commits); /* of a transaction */

/* What other statements leave, in their transactions. */
void settling_join(struct sim *s, struct row *r, int64_t session); /* enqueue; the row is new */
void settling_requeued(struct sim *s, const struct row *r, int64_t session);
void settling_ended(struct sim *s, const struct row *r, int64_t session);
void settling_cancelled(struct sim *s, const struct row *r, int64_t session);
void settling_deleted(struct sim *s, const struct row *r, int64_t session);
void settling_retried(struct sim *s, struct row *r, int64_t session);

/* What a session sees. */
bool mark_is_seen(const struct mark *m, int64_t session);
void mark_take(struct mark *m, int64_t session);
const struct standing *place_see(const struct place *p, int64_t session);
struct standing *place_change(struct place *p, int64_t session);
struct place *place_find(struct sim *s, int64_t session, int key, int64_t task);
int ending_see(const struct sim *s, int64_t session, int64_t task);
void ending_set(struct sim *s, int64_t session, int64_t task, int ending);
int first_key(const struct sim *s, unsigned keys); /* in which line a task waits first */

void note_add(struct sim *s, int64_t session, int64_t task, enum flow_act act);
struct limit_event *event_add(struct sim *s, int64_t session, unsigned keys, int64_t task);
void queue_limits(struct sim *s, struct row *r, int64_t session);
void place_add(struct sim *s, int64_t session, const struct row *r, int key, enum line line);

/* tenon.settle(): flows; what has ended at limits, which keys are to be looked at; and letting go.
 * ret: how much was settled */
int settle_expired(struct sim *s, int64_t session);
int settle_flows(struct sim *s, int64_t session);
bool settle_limits_begin(struct sim *s, int64_t session); /* false: nothing to do, or not alone */
int settle_limit_ends(struct sim *s, int64_t session, unsigned *ret_keys);
int settle_limit_admit(struct sim *s, int64_t session, unsigned keys);
bool settle_unblock(struct sim *s, struct row *r, int64_t session); /* false: it is locked */
/* In how many milliseconds there is something to settle; INT64_MAX: when something happens. */
int64_t settle_due_ms(struct sim *s);

/* settler.c: the chore of a cleaner. It begins; its answer came; it is due when there is something
 * to settle, but not before `soon_ms`; its client is gone */
void settler_begin(struct sim *s, struct cleaner *c);
void settler_tell(struct sim *s, struct cleaner *c);
void settler_hurry(struct sim *s, struct cleaner *c, int64_t soon_ms);
void settler_struck(struct sim *s, struct cleaner *c);

/* operator.c: who retries, deletes and cancels what holds others up for ever */
void operator_start(struct sim *s);

/* check_settle.c */
void check_unblock(struct sim *s, const struct row *r); /* r->next is about to become r->now */
void check_run_limits(struct sim *s, const struct row *r);
void check_blocked(struct sim *s, struct row *r);
bool check_settled(struct sim *s); /* nothing is left in the side tables */
void check_left(struct sim *s);    /* else: what? */

#endif
