#include "cleaner/chores.h"

#include "cleaner/fresh.h"
#include "cleaner/statements.h"
#include "core/log.h"
#include "core/point.h"

/* Whoever holds the session lock leads, until its session ends. */
bool leader_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (c->leader) {
        return true;
    }
    if (!db_exec(c->hot, &sql_leader, NULL, 0, &rows, f)) {
        return false;
    }
    bool granted = rows_bool(rows, 0, 0);
    rows_free(rows);
    if (!granted) {
        if (c->once) {
            log_event(LOG_INFO, LOG_EVENT("leader_is_another"));
        }
        return true;
    }
    if (POINT_FAILS(leader_elected, f)) {
        return false;
    }
    if (c->publisher && !fresh_start(c, turn->now_ms, f)) {
        return false;
    }
    c->leader = true;
    c->due_whole_ms = turn->now_ms;
    log_event(LOG_INFO, LOG_EVENT("leader"));
    return true;
}
