#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "cleaner/wake.h"

/* No sooner when there was nothing: another cleaner may be at it. */
enum { SETTLE_SOON_MS = 10 };

/* Of more a poll costs less than their messages. */
#define SETTLE_FEW "16"

enum { DUE = 3, SETTLED, FREED, NEXT_MS };

/* When something was settled there may be more at once. With --once it goes on until there was
 * nothing. */
static void plan_next(const struct cleaner *c, const struct rows *rows, struct turn *turn)
{
    turn->more = rows_int(rows, 0, SETTLED) > 0;
    if (turn->more && c->once) {
        turn->next_ms = turn->now_ms;
    } else if (!rows_is_null(rows, 0, NEXT_MS)) {
        int64_t wait_ms = rows_int(rows, 0, NEXT_MS);
        wait_ms = wait_ms < SETTLE_SOON_MS && !turn->more ? SETTLE_SOON_MS : wait_ms;
        int64_t at_ms = turn->now_ms + wait_ms;
        turn->next_ms = at_ms < turn->next_ms ? at_ms : turn->next_ms;
    }
}

/* What was let go is known here: nobody has to look for it. */
static void wake_freed(struct cleaner *c, const struct rows *rows, int64_t now_ms)
{
    for (size_t i = 1; i < rows_count(rows); i++) {
        if (rows_bool(rows, i, DUE)) {
            (void)wake_row(c, rows, i);
        } else {
            chores_hurry(c, CHORE_DUE, now_ms);
        }
    }
    c->counts.due += rows_int(rows, 0, FREED);
}

/* The tasks that it makes are fresh rows. */
bool settle_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {CLEANER_BATCH_ROWS, wake_notifies(c) ? "0" : SETTLE_FEW};
    if (!db_exec(c->hot, &sql_settle, params, 2, &rows, f)) {
        return false;
    }
    plan_next(c, rows, turn);
    wake_freed(c, rows, turn->now_ms);
    if (turn->more) {
        chores_hurry(c, CHORE_FRESH, turn->now_ms);
    }
    rows_free(rows);
    return true;
}
