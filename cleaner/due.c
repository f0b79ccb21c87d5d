#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/point.h"

enum {
    DUE_SOON_MS = 20,     /* not more often, as long as looks are not full */
    DUE_WHOLE_MS = 60000, /* between two looks without a bound */
};

_Static_assert(CLEANER_BATCH_ROWS == 500, "due_params says the same");

/* With --once the look for overlooked rows publishes them: it knows what the broker holds. */
static void publish_rows(struct cleaner *c, const struct rows *rows)
{
    for (size_t i = 0; !c->once && i < rows_count(rows); i++) {
        if (rows_bool(rows, i, 2)) {
            c->counts.due += cleaner_publish(c, rows_text(rows, i, 1), rows_int(rows, i, 0));
        }
    }
}

/* When the next row is due, but within a period: rows that workers put back come unannounced. */
static int64_t next_look(const struct turn *turn, const struct rows *next)
{
    if (rows_count(next) == 0) {
        return turn->next_ms;
    }
    int64_t wait_ms = rows_int(next, 0, 0);
    wait_ms = wait_ms < DUE_SOON_MS ? DUE_SOON_MS : wait_ms;
    return turn->now_ms + wait_ms < turn->next_ms ? turn->now_ms + wait_ms : turn->next_ms;
}

bool due_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    bool whole = turn->now_ms >= c->due_whole_ms;
    const char *const params[] = {whole ? "1000 years" : "1 minute", "500"};
    struct db_call calls[] = {{.statement = &sql_due, .params = params, .n_params = 2},
                              {.statement = &sql_due_next, .params = params, .n_params = 1}};
    if (!db_batch(c->hot, calls, 2, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return false;
    }
    if (rows_count(calls[0].rows) > 0 && POINT_FAILS(due_committed, f)) {
        rows_free(calls[0].rows);
        rows_free(calls[1].rows);
        return false;
    }
    /* committed: no row is locked while wake-ups are published */
    publish_rows(c, calls[0].rows);
    turn->more = rows_count(calls[0].rows) == CLEANER_BATCH_ROWS;
    if (whole && !turn->more) {
        c->due_whole_ms = turn->now_ms + DUE_WHOLE_MS;
    }
    turn->next_ms = turn->more ? turn->now_ms : next_look(turn, calls[1].rows);
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    return true;
}
