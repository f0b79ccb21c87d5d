#include "cleaner/chores.h"

#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "cleaner/wake.h"

#include <stdio.h>

/* As many as the broker holds for one queue: workers that are busy find the others themselves. */
bool ready_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    char limit[24];
    const char *const params[] = {limit};
    struct db *db = NULL;
    struct rows *rows = NULL;
    (void)turn;
    (void)snprintf(limit, sizeof limit, "%d", TOPOLOGY_WINDOW_IDS);
    if (!session_plain(c, &db, f) || !db_exec(db, &sql_ready, params, 1, &rows, f)) {
        return false;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        c->counts.ready += wake_task(c, rows_text(rows, i, 1), rows_text(rows, i, 2),
                                     rows_int(rows, i, 0));
    }
    rows_free(rows);
    return true;
}
