#include "cleaner/chores.h"

#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "core/log.h"
#include "core/point.h"

#include <string.h>

enum { HISTORY_RETRY_MS = 60000 /* after a command met a reader or a long transaction */ };

enum step { STEP_FINALIZE = 1, STEP_DROP = 2, STEP_DETACH = 3 };

struct round {
    size_t done;
    size_t put_off; /* met a lock */
};

/* One command. A lock in its way is no fault: it is tried again later. A DETACH that gave up stays
 * pending, and comes back as a FINALIZE. */
static bool command_run(struct db *db, const struct rows *rows, size_t row, struct round *round,
                        struct fault *f)
{
    struct fault own = {.code = FAULT_NONE};
    if (db_script(db, rows_text(rows, row, 2), &own)) {
        round->done++;
        log_event(LOG_INFO,
                  LOG_EVENT(rows_int(rows, row, 0) == STEP_DROP ? "partition_dropped"
                                                                : "partition_detached"),
                  LOG_TEXT("partition", rows_text(rows, row, 1)));
        return rows_int(rows, row, 0) != STEP_DETACH || !POINT_FAILS(partition_detached, f);
    }
    if (own.code == FAULT_AGAIN) {
        round->put_off++;
        return true;
    }
    *f = own;
    return fault_add(f, "%s", rows_text(rows, row, 2));
}

/* While one DETACH is pending PostgreSQL allows no other. */
static bool is_blocked(const struct rows *rows, size_t row, const struct round *round)
{
    return round->put_off > 0 && rows_int(rows, row, 0) == STEP_DETACH;
}

static bool round_run(struct db *db, struct round *round, struct fault *f)
{
    struct rows *rows = NULL;
    bool ok = true;
    if (!db_exec(db, &sql_history, NULL, 0, &rows, f)) {
        return false;
    }
    for (size_t i = 0; ok && i < rows_count(rows); i++) {
        if (!is_blocked(rows, i, round)) {
            ok = command_run(db, rows, i, round, f);
        }
    }
    rows_free(rows);
    return ok;
}

/* What was done may let more be done: a partition is detached in one turn, dropped in the next. */
bool history_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct round round = {0};
    if (!session_plain(c, f) || !db_exec(c->plain, &sql_history_workers, NULL, 0, NULL, f) ||
        !round_run(c->plain, &round, f)) {
        return false;
    }
    turn->more = round.done > 0;
    if (turn->more) {
        turn->next_ms = turn->now_ms;
    } else if (round.put_off > 0) {
        turn->next_ms = turn->now_ms + HISTORY_RETRY_MS;
    }
    return true;
}
