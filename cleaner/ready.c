#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "cleaner/wake.h"

bool ready_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    static const char *const params[] = {CLEANER_WAKE_ROWS};
    struct rows *rows = NULL;
    (void)turn;
    if (!db_exec(c->hot, &sql_ready, params, 1, &rows, f)) {
        return false;
    }
    c->counts.ready += wake_rows(c, rows);
    rows_free(rows);
    return true;
}
