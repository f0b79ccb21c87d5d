#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "cleaner/wake.h"
#include "core/base/log.h"

#include <stdio.h>

enum {
    SETTLE_SOON_MS = 10, /* no sooner when there was nothing: another cleaner may be at it */
    SETTLE_FEW = 16,     /* of more a poll costs less than their messages */
    SETTLE_MANY =
        16, /* this many at once, and the leader stays awake: then no commit has to NOTIFY */
};

/* The columns of settle.sql; of settle_freed.sql, after id, queue and kind. */
enum { SETTLED, FREED, NEXT_MS, FREED_IDS, SLOW, FIRST_NOTE, LAST_NOTE, XMIN, NEXT_XID };
enum { DUE = 3 };

void settle_call(struct cleaner *c, int64_t now_ms)
{
    c->called = true;
    chores_hurry_within(c, CHORE_SETTLE, &c->settles, now_ms);
}

/* Asleep it wakes up. */
static void note_load(struct cleaner *c, int64_t settled, int64_t now_ms)
{
    if (c->leader && settled >= SETTLE_MANY) {
        c->settled_many = true;
        c->notified = c->notified || c->pace.asleep;
        chores_hurry(c, CHORE_FRESH, now_ms);
    }
}

/* When something was settled there may be more at once. With --once it continues until there was
 * nothing. */
static void plan_next(struct cleaner *c, const struct rows *rows, struct turn *turn)
{
    turn->more = rows_int(rows, 0, SETTLED) > 0;
    if (c->called && !turn->more) {
        throttle_charge(&c->settles, turn->now_ms);
    }
    c->called = false;
    if (turn->more && c->once) {
        turn->next_ms = turn->now_ms;
    } else if (!rows_is_null(rows, 0, NEXT_MS)) {
        int64_t wait_ms = rows_int(rows, 0, NEXT_MS);
        wait_ms = wait_ms < SETTLE_SOON_MS && !turn->more ? SETTLE_SOON_MS : wait_ms;
        int64_t at_ms = turn->now_ms + wait_ms;
        turn->next_ms = at_ms < turn->next_ms ? at_ms : turn->next_ms;
    }
}

/* A few are known here: nobody has to look for them. Of many the workers have been told. */
static bool wake_freed(struct cleaner *c, const struct rows *settled, int64_t now_ms,
                       struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {rows_text(settled, 0, FREED_IDS)};
    if (!db_exec(c->hot, &sql_settle_freed, params, 1, &rows, f)) {
        return false;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        if (rows_bool(rows, i, DUE)) {
            (void)wake_row(c, rows, i);
        } else {
            chores_hurry(c, CHORE_DUE, now_ms);
        }
    }
    rows_free(rows);
    return true;
}

static bool settle(struct cleaner *c, int64_t few, int64_t now_ms, struct rows **ret,
                   struct fault *f)
{
    int64_t from = settled_from(&c->settled, now_ms);
    char few_text[24], from_text[24];
    const char *const params[] = {CLEANER_BATCH_ROWS, few_text, from_text};
    (void)snprintf(few_text, sizeof few_text, "%lld", (long long)few);
    (void)snprintf(from_text, sizeof from_text, "%lld", (long long)from);
    if (!db_exec(c->hot, &sql_settle, params, 3, ret, f)) {
        return false;
    }
    const struct settled_answer answer = {.from = from,
                                          .first = rows_int(*ret, 0, FIRST_NOTE),
                                          .last = rows_int(*ret, 0, LAST_NOTE),
                                          .xmin = rows_int(*ret, 0, XMIN),
                                          .next = rows_int(*ret, 0, NEXT_XID)};
    settled_answered(&c->settled, &answer, now_ms);
    return true;
}

/* The tasks that it makes are fresh rows. */
bool settle_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    int64_t few = wake_notifies(c) ? 0 : SETTLE_FEW;
    if (!settle(c, few, turn->now_ms, &rows, f)) {
        return false;
    }
    if (!rows_is_null(rows, 0, SLOW)) {
        log_event(LOG_WARNING, LOG_EVENT("settle_slow"),
                  LOG_TEXT("what", rows_text(rows, 0, SLOW)));
    }
    int64_t freed = rows_int(rows, 0, FREED);
    bool ok = freed == 0 || freed > few || wake_freed(c, rows, turn->now_ms, f);
    plan_next(c, rows, turn);
    note_load(c, rows_int(rows, 0, SETTLED), turn->now_ms);
    c->counts.due += freed;
    if (freed > few) {
        chores_hurry(c, CHORE_DUE, turn->now_ms);
    }
    if (turn->more) {
        chores_hurry(c, CHORE_FRESH, turn->now_ms);
    }
    rows_free(rows);
    return ok;
}
