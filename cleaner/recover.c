#include "cleaner/recover.h"

#include "cleaner/chores.h"

#include <string.h>

/* A row that is ready is marked as delayed, so the leader's look for due rows publishes it. A
 * cleaner that does not lead publishes it itself, and need not wait for the leader's watch. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum)
{
    for (size_t i = 0; i < rows_count(rows); i++) {
        const char *state = rows_text(rows, i, 1);
        sum->tasks++;
        sum->dead += strcmp(state, "dead") == 0;
        if (!c->leader && strcmp(state, "ready") == 0) {
            (void)cleaner_publish(c, rows_text(rows, i, 2), rows_int(rows, i, 0));
        }
    }
}

void recover_end(struct cleaner *c, const struct recovered *sum, int64_t now_ms)
{
    c->counts.recovered += sum->tasks;
    c->counts.dead += sum->dead;
    if (c->leader && sum->tasks > 0) {
        chores_hurry(c, CHORE_DUE, now_ms);
    }
}
