#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/log.h"
#include "core/point.h"

#include <stdio.h>

enum { ELECTED, NOW_US, FRESH, DUE_MS, SUSPECT };

/* Whoever holds the session lock leads, until its session ends. */
static bool lead(struct cleaner *c, int64_t now_us, const struct turn *turn, struct fault *f)
{
    if (POINT_FAILS(leader_elected, f)) {
        return false;
    }
    if (!fresh_start(c, turn->now_ms, f)) {
        return false;
    }
    c->leader = true;
    c->due_us = now_us;
    log_event(LOG_INFO, LOG_EVENT("leader"));
    return true;
}

/* Only the leader asks for rows. */
static bool ask(struct cleaner *c, struct rows **ret, struct fault *f)
{
    char mark[24], due[24];
    const char *const params[] = {c->leader ? "false" : "true", c->leader ? mark : NULL,
                                  c->leader ? due : NULL};
    (void)snprintf(mark, sizeof mark, "%lld", (long long)c->watermark.id);
    (void)snprintf(due, sizeof due, "%lld", (long long)c->due_us);
    return db_exec(c->hot, &sql_watch, params, 3, ret, f);
}

/* Whoever has something to do has a turn in this round, or when the next row is due. */
static void hurry(struct cleaner *c, const struct rows *rows, int64_t now_ms)
{
    if (rows_bool(rows, 0, FRESH) || c->watermark.n > 0) {
        chores_hurry(c, CHORE_FRESH, now_ms);
    }
    if (!rows_is_null(rows, 0, DUE_MS)) {
        chores_hurry(c, CHORE_DUE, now_ms + rows_int(rows, 0, DUE_MS));
    }
    if (rows_bool(rows, 0, SUSPECT)) {
        chores_hurry(c, CHORE_WORKERS, now_ms);
    }
}

bool watch_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!ask(c, &rows, f)) {
        return false;
    }
    bool elected = rows_bool(rows, 0, ELECTED);
    int64_t now_us = rows_int(rows, 0, NOW_US);
    if (!c->once) {
        hurry(c, rows, turn->now_ms);
    } else if (!elected) {
        log_event(LOG_INFO, LOG_EVENT("leader_is_another"));
    }
    rows_free(rows);
    return !elected || lead(c, now_us, turn, f);
}
