#include "cleaner/recover.h"

#include "cleaner/chores.h"
#include "cleaner/wake.h"
#include "core/base/log.h"
#include "core/base/now.h"

#include <stdio.h>
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

const char *recover_limit(struct cleaner *c, char text[RECOVER_LIMIT_BYTES])
{
    (void)snprintf(text, RECOVER_LIMIT_BYTES, "%lld", (long long)c->recover_rows);
    return text;
}

/* One that is too slow, or cannot be, is found by taking fewer until it comes alone: then the
 * database sets it aside (tenon.recover). */
void recover_failed(struct cleaner *c, struct fault *f)
{
    if (c->recover_rows > 1 && (f->code == FAULT_ROW || strcmp(f->sqlstate, "57014") == 0)) {
        c->recover_rows = c->recover_rows > 8 ? c->recover_rows / 8 : 1;
        log_event(LOG_WARNING, LOG_EVENT("batch_smaller"), LOG_NUM("rows", c->recover_rows),
                  LOG_TEXT("error", f->text));
        f->code = FAULT_AGAIN;
    }
}

static void take_more(struct cleaner *c)
{
    c->recover_rows = c->recover_rows * 2 < CLEANER_ROWS_MAX ? c->recover_rows * 2
                                                             : CLEANER_ROWS_MAX;
}

/* While it takes fewer, a batch of none may be one that was set aside: once more. */
bool recover_all(struct cleaner *c, const struct statement *statement, const char *given,
                 struct recovered *sum, struct fault *f)
{
    char limit[RECOVER_LIMIT_BYTES];
    const char *const params[] = {given ? given : limit, given ? limit : NULL};
    for (int i = 0, empty = 0; empty < 2 && i < RECOVER_BATCHES_MAX; i++) {
        struct rows *rows = NULL;
        bool all = c->recover_rows == CLEANER_ROWS_MAX;
        (void)recover_limit(c, limit);
        if (!db_exec(c->plain, statement, params, given ? 2 : 1, &rows, f)) {
            recover_failed(c, f);
            return false;
        }
        empty = rows_count(rows) > 0 ? 0 : all ? 2 : empty + 1;
        recover_rows(c, rows, sum);
        rows_free(rows);
        take_more(c);
    }
    return true;
}
