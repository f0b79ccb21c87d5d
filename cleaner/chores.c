#include "cleaner/chores.h"

#include "cleaner/failure.h"
#include "cleaner/metrics.h"
#include "cleaner/session.h"
#include "cleaner/wake.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/service.h"

enum {
    CHORE_AGAIN_MS = 1000,   /* after a lock, a deadlock or a timeout */
    CHORE_FAILED_MS = 10000, /* after any other fault */
    CHORE_AGAIN_QUIET = 5,   /* this many locks in a row are not reported */
    CHORE_WATCH_MS = 1000,
    CHORE_CALLED_MS = 60000, /* those that the watch calls, or that call themselves again */
};

enum { LEADS = 1, STAYS = 2, ONCE = 4 };

struct chore {
    const char *name;
    int64_t period_ms;
    unsigned needs;
    bool (*turn)(struct cleaner *c, struct turn *turn, struct fault *f);
};

/* In the order in which one round does them: who leads, where finished tasks go, then wake-ups. The
 * watch is one statement a second that says which others have something to do. */
static const struct chore table[CHORE_COUNT] = {
    [CHORE_WATCH] = {"watch", CHORE_WATCH_MS, 0, watch_turn},
    [CHORE_PARTITIONS] = {"partitions", 10000, LEADS, partitions_turn},
    [CHORE_SETTLE] = {"settle", CHORE_CALLED_MS, 0, settle_turn},
    [CHORE_SCHEDULES] = {"schedules", CHORE_CALLED_MS, 0, schedules_turn},
    [CHORE_FRESH] = {"fresh", CHORE_CALLED_MS, LEADS | STAYS, fresh_turn},
    [CHORE_DUE] = {"due", CHORE_CALLED_MS, LEADS | STAYS, due_turn},
    [CHORE_READY] = {"ready", 1000, LEADS | ONCE, ready_turn},
    [CHORE_WORKERS] = {"workers", CHORE_CALLED_MS, LEADS, workers_turn},
    [CHORE_RECOVER] = {"recover", 60000, LEADS, recover_turn},
    [CHORE_MINUTES] = {"minutes", 60000, LEADS, minutes_turn},
    [CHORE_HISTORY] = {"history", 3600000, LEADS, history_turn},
    [CHORE_REPORT] = {"report", 1000, 0, report_turn},
};

const char *chore_name(enum chore_id id)
{
    return table[id].name;
}

void chores_start(struct cleaner *c, int64_t at_ms)
{
    for (size_t i = 0; i < CHORE_COUNT; i++) {
        c->chores[i].next_ms = at_ms;
    }
}

void chores_hurry(struct cleaner *c, enum chore_id id, int64_t at_ms)
{
    if (c->chores[id].next_ms > at_ms) {
        c->chores[id].next_ms = at_ms;
    }
}

void chores_hurry_within(struct cleaner *c, enum chore_id id, const struct throttle *r,
                         int64_t at_ms)
{
    chores_hurry(c, id, at_ms > throttle_due(r) ? at_ms : throttle_due(r));
}

static bool is_wanted(const struct cleaner *c, const struct chore *chore)
{
    return (c->leader || !(chore->needs & LEADS)) &&
           (c->once ? !(chore->needs & STAYS) : !(chore->needs & ONCE));
}

static void turn_ended(struct cleaner *c, enum chore_id id, const struct turn *turn)
{
    struct chore_state *state = &c->chores[id];
    if (state->logged) {
        log_event(LOG_INFO, LOG_EVENT("chore_recovered"), LOG_TEXT("chore", table[id].name));
    }
    failure_end(c, &state->failure, table[id].name);
    state->logged = false;
    state->failures = 0;
    state->next_ms = c->once && !turn->more ? INT64_MAX : turn->next_ms;
}

/* One log line for a series of failures; meeting a lock now and then is usual. */
static void tell_failure(struct cleaner *c, enum chore_id id, const struct fault *f)
{
    struct chore_state *state = &c->chores[id];
    if (!state->logged && (f->code != FAULT_AGAIN || state->failures >= CHORE_AGAIN_QUIET)) {
        log_fault(LOG_WARNING, "chore_failed", f);
        state->logged = true;
    }
    if (state->logged) {
        failure_note(c, &state->failure, table[id].name, f->text, now_ms());
    }
}

static void turn_failed(struct cleaner *c, enum chore_id id, struct fault *f, int64_t at_ms)
{
    struct chore_state *state = &c->chores[id];
    (void)fault_add(f, "chore %s", table[id].name);
    state->failures++;
    tell_failure(c, id, f);
    state->next_ms = at_ms + (fault_passes(f) ? CHORE_AGAIN_MS : CHORE_FAILED_MS);
    if (c->once && (f->code != FAULT_AGAIN || state->failures >= CLEANER_ONCE_TRIES)) {
        c->exit_code = f->code == FAULT_AGAIN ? c->exit_code : fault_exit_code(f);
        state->next_ms = INT64_MAX;
    }
}

static void chore_run(struct cleaner *c, enum chore_id id, int64_t at_ms)
{
    struct fault f = {.code = FAULT_NONE};
    struct turn turn = {.now_ms = now_ms(), .next_ms = at_ms + table[id].period_ms};
    service_alive(turn.now_ms);
    cleaner_metrics_note(c, turn.now_ms);
    if (table[id].turn(c, &turn, &f) && wake_send(c, &f)) {
        turn_ended(c, id, &turn);
    } else if (db_is_open(c->hot)) {
        turn_failed(c, id, &f, at_ms);
    } else {
        session_lost(c, &f);
        return;
    }
}

static int64_t next_turn(const struct cleaner *c)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < CHORE_COUNT; i++) {
        if (is_wanted(c, &table[i]) && c->chores[i].next_ms < next_ms) {
            next_ms = c->chores[i].next_ms;
        }
    }
    return next_ms;
}

int64_t chores_step(struct cleaner *c, int64_t at_ms)
{
    for (size_t i = 0; i < CHORE_COUNT && c->hot; i++) {
        if (is_wanted(c, &table[i]) && c->chores[i].next_ms <= at_ms) {
            chore_run(c, (enum chore_id)i, at_ms);
        }
    }
    return next_turn(c);
}
