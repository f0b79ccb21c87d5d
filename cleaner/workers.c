#include "cleaner/chores.h"

#include "cleaner/recover.h"
#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "core/log.h"
#include "core/point.h"

#include <stdio.h>
#include <string.h>

enum { WORKERS_ERROR_BYTES = 512 };

struct dead_worker {
    const char *id, *host;
    int64_t pid;
    char error[WORKERS_ERROR_BYTES], batch[24];
};

/* The first batch of its tasks goes in the transaction that declares it dead. */
static bool declare_dead(struct cleaner *c, struct db *db, const struct dead_worker *w,
                         size_t *ret_n, struct recovered *sum, struct fault *f)
{
    const char *const params[] = {w->id, w->error, w->batch};
    struct db_call calls[] = {{.statement = &sql_workers_declare_dead,
                               .params = params,
                               .n_params = 1},
                              {.statement = &sql_workers_recover, .params = params, .n_params = 3}};
    if (!db_batch(db, calls, 2, DB_ANSWER_LIMIT_MS, NULL, f)) {
        return false;
    }
    POINT(worker_declared_dead);
    bool ours = rows_count(calls[0].rows) == 1;
    *ret_n = ours ? rows_count(calls[1].rows) : 0;
    recover_rows(c, calls[1].rows, sum);
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    if (ours) {
        c->counts.workers++;
        log_event(LOG_WARNING, LOG_EVENT("worker_dead"), LOG_TEXT("worker", w->id),
                  LOG_TEXT("host", w->host), LOG_NUM("worker_pid", w->pid));
    }
    return true;
}

static bool recover_rest(struct cleaner *c, struct db *db, const struct dead_worker *w, size_t n,
                         struct recovered *sum, struct fault *f)
{
    const char *const params[] = {w->id, w->error, w->batch};
    return n == 0 || (!POINT_FAILS(worker_rest, f) &&
                      recover_all(c, db, &sql_workers_recover, params, 3, sum, f));
}

static bool declare_dead_and_recover(struct cleaner *c, const struct dead_worker *w, int64_t now_ms,
                                     struct fault *f)
{
    struct recovered sum = {0};
    struct db *db = NULL;
    size_t n = 0;
    bool ok = !POINT_FAILS(worker_found_dead, f) && session_plain(c, &db, f) &&
              declare_dead(c, db, w, &n, &sum, f) && recover_rest(c, db, w, n, &sum, f);
    POINT(tasks_recovered);
    recover_end(c, &sum, now_ms);
    if (sum.tasks > 0) {
        log_event(LOG_INFO, LOG_EVENT("tasks_recovered"), LOG_TEXT("worker", w->id),
                  LOG_NUM("tasks", sum.tasks), LOG_NUM("dead", sum.dead));
    }
    return ok;
}

/* The row of a suspect among those that were read. */
static void worker_of(const struct rows *rows, const char *id, struct dead_worker *w)
{
    *w = (struct dead_worker){.id = id, .host = ""};
    for (size_t i = 0; i < rows_count(rows); i++) {
        if (strcmp(rows_text(rows, i, 0), id) == 0) {
            w->host = rows_text(rows, i, 1);
            w->pid = rows_int(rows, i, 2);
        }
    }
    (void)snprintf(w->batch, sizeof w->batch, "%d", CLEANER_BATCH_ROWS);
    (void)snprintf(w->error, sizeof w->error, "worker %s on %.255s pid %lld died", id, w->host,
                   (long long)w->pid);
}

static size_t judge(struct verdict *v, const struct rows *rows, int64_t now_ms)
{
    verdict_begin(v);
    for (size_t i = 0; i < rows_count(rows); i++) {
        verdict_worker(v, rows_text(rows, i, 0), rows_bool(rows, i, 3), now_ms);
    }
    return verdict_end(v, now_ms);
}

bool workers_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct verdict *v = &c->verdict;
    struct rows *rows = NULL;
    bool ok = true;
    if (!db_exec(c->hot, &sql_workers, NULL, 0, &rows, f)) {
        return false;
    }
    size_t n = judge(v, rows, turn->now_ms);
    for (size_t i = 0; n > 0 && ok && i < v->n; i++) {
        if (v->suspects[i].is_dead) {
            struct dead_worker w;
            worker_of(rows, v->suspects[i].id, &w);
            ok = declare_dead_and_recover(c, &w, turn->now_ms, f);
        }
    }
    rows_free(rows);
    turn->more = verdict_is_open(v);
    turn->next_ms = turn->more ? turn->now_ms + VERDICT_CHECK_MS : turn->next_ms;
    return ok;
}
