#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "cleaner/wake.h"
#include "core/base/point.h"

#include <stdio.h>

enum { DUE_SOON_MS = 20 /* not more often */ };

static bool read_due(struct cleaner *c, struct db_call calls[2], struct fault *f)
{
    char from[24];
    const char *const params[] = {from, CLEANER_WAKE_ROWS};
    (void)snprintf(from, sizeof from, "%lld", (long long)c->due_us);
    calls[0] = (struct db_call){.statement = &sql_due, .params = params, .n_params = 2};
    calls[1] = (struct db_call){.statement = &sql_due_next};
    return db_batch(c->hot, calls, 2, DB_ANSWER_LIMIT_MS, NULL, f);
}

static int64_t next_due(const struct turn *turn, const struct rows *next)
{
    if (rows_is_null(next, 0, 1)) {
        return turn->next_ms;
    }
    int64_t wait_ms = rows_int(next, 0, 1);
    wait_ms = wait_ms < DUE_SOON_MS ? DUE_SOON_MS : wait_ms;
    return turn->now_ms + wait_ms < turn->next_ms ? turn->now_ms + wait_ms : turn->next_ms;
}

bool due_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct db_call calls[2];
    if (!read_due(c, calls, f)) {
        return false;
    }
    bool ok = rows_count(calls[0].rows) == 0 || !POINT_FAILS(due_read, f);
    if (ok) {
        c->counts.due += wake_rows(c, calls[0].rows);
        c->due_us = rows_int(calls[1].rows, 0, 0);
        turn->next_ms = next_due(turn, calls[1].rows);
    }
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    return ok;
}
