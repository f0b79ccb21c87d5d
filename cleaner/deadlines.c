#include "cleaner/chores.h"

#include "cleaner/recover.h"
#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "core/log.h"

enum { DEADLINES_BATCHES_MAX = 100 };

_Static_assert(CLEANER_BATCH_ROWS == 500 && CLEANER_GRACE_S == 60, "deadlines_turn says the same");

/* Batch by batch, until nothing comes: all done, or what is left is locked. */
static bool requeue(struct cleaner *c, struct db *db, const struct statement *statement,
                    const char *const *params, int n_params, struct recovered *sum, struct fault *f)
{
    size_t n = 1;
    for (int i = 0; n > 0 && i < DEADLINES_BATCHES_MAX; i++) {
        struct rows *rows = NULL;
        if (!db_exec(db, statement, params, n_params, &rows, f)) {
            return false;
        }
        n = rows_count(rows);
        recover_rows(c, rows, sum);
        rows_free(rows);
    }
    return true;
}

static void say(const char *event, const struct recovered *sum)
{
    if (sum->tasks > 0) {
        log_event(LOG_WARNING, LOG_EVENT(event), LOG_NUM("tasks", sum->tasks),
                  LOG_NUM("dead", sum->dead));
    }
}

bool deadlines_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    const char *const params[] = {"60 seconds", "500"};
    struct recovered expired = {0}, orphaned = {0};
    struct db *db = NULL;
    bool ok = session_plain(c, &db, f) &&
              requeue(c, db, &sql_deadlines_expired, params, 2, &expired, f) &&
              requeue(c, db, &sql_deadlines_orphans, params + 1, 1, &orphaned, f);
    recover_end(c, &expired, turn->now_ms);
    recover_end(c, &orphaned, turn->now_ms);
    say("tasks_expired", &expired);
    say("tasks_orphaned", &orphaned);
    return ok;
}
