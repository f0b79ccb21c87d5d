#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/statements.h"

/* Every cleaner makes them: without a partition for today no task could finish. */
bool partitions_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    (void)turn;
    if (!db_exec(c->hot, &sql_partitions, NULL, 0, &rows, f)) {
        return false;
    }
    int64_t made = rows_int(rows, 0, 0);
    rows_free(rows);
    if (made > 0) {
        log_event(LOG_INFO, LOG_EVENT("partitions_made"), LOG_NUM("partitions", made));
    }
    return true;
}
