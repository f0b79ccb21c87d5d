#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "cleaner/wake.h"
#include "core/base/log.h"
#include "core/base/now.h"
#include "core/base/point.h"

#include <stdio.h>
#include <string.h>

enum {
    NUMBER_BYTES = 32,
    PIECE_TRIES = 3, /* of a piece that cannot be read */
};

/* The columns of recover.sql. */
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
    COLUMN_BLOCKS = 10, /* of the first row, as the next */
    COLUMN_MORE = 11,
};

static bool has_crashed(const struct rows *rows, size_t i)
{
    return strcmp(rows_text(rows, i, COLUMN_REASON), "crashed") == 0;
}

/* The attempt that nobody else can tell: its worker died, or did not end it. */
static void send_span(struct cleaner *c, const struct rows *rows, size_t i)
{
    bool crashed = has_crashed(rows, i);
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
 * cleaner that does not stay publishes it itself. */
static void take_row(struct cleaner *c, const struct rows *rows, size_t i)
{
    const char *state = rows_text(rows, i, COLUMN_STATE);
    bool dead = strcmp(state, "dead") == 0;
    struct recovered *sum = has_crashed(rows, i) ? &c->crashed : &c->timed_out;
    if (c->otlp) {
        send_span(c, rows, i);
    }
    if (c->once && strcmp(state, "ready") == 0) {
        (void)wake_row(c, rows, i);
    }
    sum->tasks++;
    sum->dead += dead;
    c->counts.recovered++;
    c->counts.dead += dead;
}

static void take_rows(struct cleaner *c, const struct rows *rows, const struct turn *turn)
{
    if (rows_count(rows) > 1) {
        POINT(tasks_recovered);
        chores_hurry(c, CHORE_DUE, turn->now_ms);
        chores_hurry(c, CHORE_SETTLE, turn->now_ms); /* its own session notifies nobody */
    }
    for (size_t i = 1; i < rows_count(rows); i++) {
        take_row(c, rows, i);
    }
}

/* One that is too slow, or cannot be, is found by taking fewer until it comes alone: then the
 * database sets it aside (tenon.recover). */
static void take_fewer(struct cleaner *c, struct fault *f)
{
    if (c->recover_rows > 1 && (f->code == FAULT_ROW || strcmp(f->sqlstate, "57014") == 0)) {
        c->recover_rows = c->recover_rows > 8 ? c->recover_rows / 8 : 1;
        log_event(LOG_WARNING, LOG_EVENT("batch_smaller"), LOG_NUM("rows", c->recover_rows),
                  LOG_TEXT("error", f->text));
        f->code = FAULT_AGAIN;
    }
}

/* A piece that fails again and again, because of a broken page for instance, does not hold up the
 * others. */
static void skip_broken(struct cleaner *c, const struct fault *f)
{
    if (!fault_passes(f) && c->chores[CHORE_RECOVER].failures >= PIECE_TRIES - 1) {
        pass_skip(&c->pass);
    }
}

static void take_more(struct cleaner *c)
{
    c->recover_rows = c->recover_rows * 2 < CLEANER_ROWS_MAX ? c->recover_rows * 2
                                                             : CLEANER_ROWS_MAX;
}

static bool read_piece(struct cleaner *c, struct rows **ret, struct fault *f)
{
    char from[NUMBER_BYTES], to[NUMBER_BYTES], grace[NUMBER_BYTES], limit[NUMBER_BYTES];
    const char *const params[] = {from, to, grace, limit};
    (void)snprintf(from, sizeof from, "(%lld,0)", (long long)c->pass.block);
    (void)snprintf(to, sizeof to, "(%lld,0)", (long long)c->pass.block + PASS_PIECE_BLOCKS);
    (void)snprintf(grace, sizeof grace, "%d seconds", CLEANER_GRACE_S);
    (void)snprintf(limit, sizeof limit, "%lld", (long long)c->recover_rows);
    return db_exec(c->hot, &sql_recover, params, 4, ret, f);
}

static void say(const char *event, enum log_level level, struct recovered *sum)
{
    if (sum->tasks > 0) {
        log_event(level, LOG_EVENT(event), LOG_NUM("tasks", sum->tasks),
                  LOG_NUM("dead", sum->dead));
    }
    *sum = (struct recovered){0};
}

static void plan_next(struct cleaner *c, struct turn *turn)
{
    turn->more = c->pass.goes_on;
    if (turn->more) {
        turn->next_ms = turn->now_ms;
    } else {
        say("tasks_recovered", LOG_INFO, &c->crashed);
        say("tasks_expired", LOG_WARNING, &c->timed_out);
    }
}

/* A piece a turn, so that the other chores have theirs meanwhile. A piece that had more than one
 * statement takes is read again. */
bool recover_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!c->pass.goes_on) {
        pass_want(&c->pass);
    }
    if (!read_piece(c, &rows, f)) {
        take_fewer(c, f);
        skip_broken(c, f);
        return false;
    }
    bool more = rows_bool(rows, 0, COLUMN_MORE);
    take_rows(c, rows, turn);
    take_more(c);
    if (!more) {
        pass_read(&c->pass, rows_int(rows, 0, COLUMN_BLOCKS));
    }
    rows_free(rows);
    plan_next(c, turn);
    return !more || !POINT_FAILS(recover_rest, f);
}
