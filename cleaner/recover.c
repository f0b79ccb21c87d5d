#include "cleaner/recover.h"

#include "cleaner/chores.h"
#include "cleaner/wake.h"

#include <string.h>

enum { RECOVER_BATCHES_MAX = 100 };

/* A row that is ready is marked as delayed, so that the leader's read of due rows publishes it. A
 * cleaner that does not lead, or does not stay, publishes it itself. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum)
{
    struct recovered n = {.tasks = (int64_t)rows_count(rows)};
    for (size_t i = 0; i < rows_count(rows); i++) {
        const char *state = rows_text(rows, i, 3);
        n.dead += strcmp(state, "dead") == 0;
        if ((!c->leader || c->once) && strcmp(state, "ready") == 0) {
            (void)wake_row(c, rows, i);
        }
    }
    sum->tasks += n.tasks;
    sum->dead += n.dead;
    c->counts.recovered += n.tasks;
    c->counts.dead += n.dead;
    if (c->leader && n.tasks > 0) {
        chores_hurry(c, CHORE_DUE, 0);
    }
}

bool recover_all(struct cleaner *c, const struct statement *statement, const char *const *params,
                 int n_params, struct recovered *sum, struct fault *f)
{
    size_t n = 1;
    for (int i = 0; n > 0 && i < RECOVER_BATCHES_MAX; i++) {
        struct rows *rows = NULL;
        if (!db_exec(c->plain, statement, params, n_params, &rows, f)) {
            return false;
        }
        n = rows_count(rows);
        recover_rows(c, rows, sum);
        rows_free(rows);
    }
    return true;
}
