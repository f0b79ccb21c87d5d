#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/base/log.h"

#include <string.h>

/* With fewer ticks none was left over: tenon.run_schedules() takes ten of a schedule, and a hundred
 * schedules, at a time. */
enum { SCHEDULES_MORE = 10 };

enum { NAME, TICK, OUTCOME, TASK, ERROR }; /* the columns of schedules.sql */

static void take_tick(struct cleaner *c, const struct rows *rows, size_t i)
{
    const char *name = rows_text(rows, i, NAME), *tick = rows_text(rows, i, TICK);
    const char *outcome = rows_text(rows, i, OUTCOME);
    if (strcmp(outcome, "enqueued") == 0) {
        c->counts.ticks++;
    } else if (strcmp(outcome, "failed") == 0) {
        log_event(LOG_WARNING, LOG_EVENT("schedule_failed"), LOG_TEXT("schedule", name),
                  LOG_TEXT("tick", tick), LOG_TEXT("error", rows_text(rows, i, ERROR)));
    } else {
        log_event(LOG_INFO, LOG_EVENT("tick_left_out"), LOG_TEXT("schedule", name),
                  LOG_TEXT("tick", tick), LOG_TEXT("why", outcome));
    }
}

/* Every cleaner does it, led or not. The watch calls when the next one is due. */
bool schedules_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(c->hot, &sql_schedules, NULL, 0, &rows, f)) {
        return fault_add(f, "could not run the schedules");
    }
    size_t n = rows_count(rows);
    for (size_t i = 0; i < n; i++) {
        take_tick(c, rows, i);
    }
    rows_free(rows);
    if (n > 0) {
        chores_hurry(c, CHORE_FRESH, turn->now_ms);
    }
    if (n >= SCHEDULES_MORE) {
        turn->more = true;
        turn->next_ms = turn->now_ms;
    }
    return true;
}
