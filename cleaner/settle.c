#include "cleaner/chores.h"

#include "cleaner/statements.h"

/* The tasks that it makes are fresh rows, and those that it unblocks have become due. */
bool settle_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {CLEANER_BATCH_ROWS};
    if (!db_exec(c->hot, &sql_settle, params, 1, &rows, f)) {
        return false;
    }
    int64_t settled = rows_int(rows, 0, 0);
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
