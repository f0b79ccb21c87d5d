#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/statements.h"

enum {
    BEGUN_AGAIN_MS = 1000,   /* another may be full as soon */
    DROP_REFUSED_MS = 60000, /* after one met a reader or a long transaction */
};

static bool make(struct db *db, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(db, &sql_partitions, NULL, 0, &rows, f)) {
        return false;
    }
    int64_t made = rows_int(rows, 0, 0);
    rows_free(rows);
    if (made > 0) {
        log_event(LOG_INFO, LOG_EVENT("partitions_made"), LOG_NUM("partitions", made));
        turn->next_ms = turn->now_ms + BEGUN_AGAIN_MS;
    }
    return true;
}

/* Drop one, if one is due; then another may be. A lock in its way is no fault: every finish waits
 * behind the attempt, and so the next one comes a minute later. */
static bool drop(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(c->hot, &sql_history, NULL, 0, &rows, f)) {
        if (f->code != FAULT_AGAIN) {
            return fault_add(f, "could not drop a partition of the history");
        }
        fault_clear(f);
        c->drop_ms = turn->now_ms + DROP_REFUSED_MS;
        return true;
    }
    const char *partition = rows_text(rows, 0, 0);
    if (partition) {
        log_event(LOG_INFO, LOG_EVENT("partition_dropped"), LOG_TEXT("partition", partition));
        turn->more = true;
        turn->next_ms = turn->now_ms;
    }
    rows_free(rows);
    return true;
}

bool partitions_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    return make(c->hot, turn, f) && (turn->now_ms < c->drop_ms || drop(c, turn, f));
}
