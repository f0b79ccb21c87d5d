#include "cleaner/chores.h"

#include "cleaner/statements.h"

#include <stdlib.h>

/* Delete some rows that were kept long enough. Fewer than a batch were all, and those that get old
 * enough meanwhile wait for the next turn: at a rate limit there may always be some. With --once no
 * next turn comes, and it continues until there is nothing: a flow may only go after another. */
static bool purge(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {CLEANER_BATCH_ROWS};
    if (!db_exec(c->hot, &sql_history_purge, params, 1, &rows, f)) {
        return fault_add(f, "could not delete old history");
    }
    int64_t again_from = c->once ? 1 : strtoll(CLEANER_BATCH_ROWS, NULL, 10);
    if (rows_int(rows, 0, 0) >= again_from) {
        turn->more = true;
        turn->next_ms = turn->now_ms;
    }
    rows_free(rows);
    return true;
}

bool history_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    return db_exec(c->hot, &sql_history_workers, NULL, 0, NULL, f) && purge(c, turn, f);
}

bool minutes_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    (void)turn;
    return db_exec(c->hot, &sql_minutes, NULL, 0, NULL, f) ||
           fault_add(f, "could not add up the workers' counts");
}
