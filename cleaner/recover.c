#include "cleaner/recover.h"

#include "cleaner/chores.h"
#include "cleaner/wake.h"
#include "core/now.h"

#include <string.h>

enum { RECOVER_BATCHES_MAX = 100 };

/* The columns of the statements that recover. */
enum {
    COLUMN_ID = 0,
    COLUMN_QUEUE = 1,
    COLUMN_KIND = 2,
    COLUMN_STATE = 3,
    COLUMN_TRACE = 4,
    COLUMN_CLAIMS = 5,
    COLUMN_START_US = 6,
    COLUMN_ATTEMPT = 7,
    COLUMN_REASON = 8,
    COLUMN_ERROR = 9,
};

/* The attempt that nobody else can tell: its worker died, or did not end it. */
static void send_span(struct cleaner *c, const struct rows *rows, size_t i)
{
    const char *reason = rows_text(rows, i, COLUMN_REASON);
    bool crashed = strcmp(reason, "crashed") == 0;
    struct span *span = span_new(rows_text(rows, i, COLUMN_TRACE), rows_int(rows, i, COLUMN_ID),
                                 rows_int(rows, i, COLUMN_CLAIMS), rows_text(rows, i, COLUMN_QUEUE),
                                 rows_text(rows, i, COLUMN_KIND));
    if (!span) {
        return;
    }
    bool dead = strcmp(rows_text(rows, i, COLUMN_STATE), "dead") == 0;
    span->attempt = rows_int(rows, i, COLUMN_ATTEMPT);
    span->begin_ns = rows_int(rows, i, COLUMN_START_US) * 1000;
    span->end_ns = now_unix_ns();
    span->outcome = dead ? "dead" : crashed ? "crashed" : "timed_out";
    span_fail(span, crashed ? "crash" : "timeout", rows_text(rows, i, COLUMN_ERROR));
    otlp_put(c->otlp, span);
}

/* A row that is ready is marked as delayed, so that the leader's read of due rows publishes it. A
 * cleaner that does not lead, or does not stay, publishes it itself. */
void recover_rows(struct cleaner *c, const struct rows *rows, struct recovered *sum)
{
    struct recovered n = {.tasks = (int64_t)rows_count(rows)};
    for (size_t i = 0; i < rows_count(rows); i++) {
        const char *state = rows_text(rows, i, COLUMN_STATE);
        if (c->otlp) {
            send_span(c, rows, i);
        }
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
