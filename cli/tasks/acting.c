#include "cli/tasks/act.h"

#include "cli/statements.h"
#include "core/base/now.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TELL_TERMINAL_MS = 1000, TELL_FILE_MS = 5000 };

static void wait_ms(int64_t ms)
{
    if (ms > 0) {
        (void)poll(NULL, 0, (int)ms);
    }
}

static int64_t piece_tasks(const struct acting *a)
{
    int64_t n = a->rate > 0 ? (a->rate + ACT_PIECES_PER_S - 1) / ACT_PIECES_PER_S : ACT_PIECE_TASKS;
    return n < ACT_PIECE_TASKS ? n : ACT_PIECE_TASKS;
}

static void take_answer(struct acting *a, const struct rows *r)
{
    enum { N, SKIPPED, NEXT, AUDIT };
    const char *next = rows_text(r, 0, NEXT), *audit = rows_text(r, 0, AUDIT);
    a->n += rows_int(r, 0, N);
    a->skipped += rows_int(r, 0, SKIPPED);
    (void)snprintf(a->next, sizeof a->next, "%s", next ? next : "");
    (void)snprintf(a->audit, sizeof a->audit, "%s", audit ? audit : "");
}

/* One that met a lock was rolled back, and is tried again. */
static bool run_piece(struct acting *a, struct db *db, struct fault *f)
{
    char tasks[24];
    struct rows *rows = NULL;
    (void)snprintf(tasks, sizeof tasks, "%lld", (long long)piece_tasks(a));
    const char *const params[] = {a->act->name,
                                  buf_text(&a->filter),
                                  a->changes.len ? buf_text(&a->changes) : NULL,
                                  tasks,
                                  *a->next ? a->next : NULL,
                                  a->why,
                                  *a->audit ? a->audit : NULL};
    for (int tries = 1; !db_exec(db, &sql_act_change, params, 7, &rows, f); tries++) {
        if (f->code != FAULT_AGAIN || tries == ACT_TRIES) {
            return fault_add(f, "%lld tasks were %s, then", (long long)a->n, a->act->done);
        }
        fault_clear(f);
        wait_ms(ACT_TRY_MS);
    }
    take_answer(a, rows);
    rows_free(rows);
    return true;
}

static void tell_left(const struct acting *a, int64_t took_ms, char *text, size_t size)
{
    int64_t left = a->total - a->n - a->skipped;
    *text = '\0';
    if (left > 0 && a->n > 0 && !a->at_least) {
        (void)snprintf(text, size, ", about %lld s left",
                       (long long)(took_ms * left / a->n / 1000));
    }
}

/* For a person who waits, on stderr. */
static void tell_progress(struct acting *a)
{
    bool terminal = isatty(STDERR_FILENO);
    int64_t now = now_ms();
    char of[40] = "", left[64];
    if (now - a->told_ms < (terminal ? TELL_TERMINAL_MS : TELL_FILE_MS)) {
        return;
    }
    a->told_ms = now;
    tell_left(a, now - a->started_ms, left, sizeof left);
    if (!a->at_least) {
        (void)snprintf(of, sizeof of, " of %lld", (long long)a->total);
    }
    (void)fprintf(stderr, "%s%lld%s tasks %s%s%s", terminal ? "\r" : "", (long long)a->n, of,
                  a->act->done, a->at_least ? " so far" : left, terminal ? "   " : "\n");
}

bool acting_run(struct acting *a, struct db *db, struct fault *f)
{
    a->started_ms = a->told_ms = now_ms();
    do {
        if (!run_piece(a, db, f)) {
            return false;
        }
        tell_progress(a);
        if (*a->next && a->rate > 0) {
            wait_ms(a->started_ms + a->n * 1000 / a->rate - now_ms());
        }
    } while (*a->next);
    if (a->told_ms > a->started_ms && isatty(STDERR_FILENO)) {
        (void)fputc('\n', stderr);
    }
    return true;
}
