#include "cleaner/chores.h"

#include "cleaner/statements.h"

enum { SETTLE_SOON_MS = 10 /* no sooner when there was nothing: another cleaner may be at it */ };

static void note_due(const struct rows *rows, struct turn *turn)
{
    if (!rows_is_null(rows, 0, 1)) {
        int64_t due_ms = rows_int(rows, 0, 1);
        int64_t at_ms = turn->now_ms + (due_ms < SETTLE_SOON_MS ? SETTLE_SOON_MS : due_ms);
        turn->next_ms = at_ms < turn->next_ms ? at_ms : turn->next_ms;
    }
}

/* The tasks that it makes are fresh rows, and those that it unblocks have become due. */
bool settle_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {CLEANER_BATCH_ROWS};
    if (!db_exec(c->hot, &sql_settle, params, 1, &rows, f)) {
        return false;
    }
    int64_t settled = rows_int(rows, 0, 0);
    note_due(rows, turn);
    rows_free(rows);
    if (settled > 0) {
        turn->more = true;
        turn->next_ms = turn->now_ms;
        c->notified = true;
        chores_hurry(c, CHORE_FRESH, turn->now_ms);
        chores_hurry(c, CHORE_DUE, turn->now_ms);
    }
    return true;
}
