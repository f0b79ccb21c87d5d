#include "cleaner/chores.h"

#include "cleaner/recover.h"
#include "cleaner/session.h"
#include "cleaner/statements.h"
#include "core/base/log.h"
#include "core/base/point.h"

static void log_dead(const char *id, const struct rows *declared)
{
    log_event(LOG_WARNING, LOG_EVENT("worker_dead"), LOG_TEXT("worker", id),
              LOG_TEXT("host", rows_text(declared, 0, 0)),
              LOG_NUM("worker_pid", rows_int(declared, 0, 1)));
}

/* The first batch of its tasks goes in the transaction that declares it dead. */
static bool declare_dead(struct cleaner *c, const char *const *params, struct recovered *sum,
                         struct fault *f)
{
    struct db_call calls[] = {{.statement = &sql_workers_declare_dead,
                               .params = params,
                               .n_params = 1},
                              {.statement = &sql_workers_recover, .params = params, .n_params = 2}};
    if (!db_batch(c->plain, calls, 2, DB_ANSWER_LIMIT_MS, NULL, f)) {
        recover_failed(c, f);
        return false;
    }
    POINT(worker_declared_dead);
    recover_rows(c, calls[1].rows, sum);
    if (rows_count(calls[0].rows) == 1) { /* else somebody was faster */
        c->counts.workers++;
        log_dead(params[0], calls[0].rows);
    }
    rows_free(calls[0].rows);
    rows_free(calls[1].rows);
    return true;
}

static bool recover_rest(struct cleaner *c, const char *id, struct recovered *sum, struct fault *f)
{
    bool all = sum->tasks == 0 && c->recover_rows == CLEANER_ROWS_MAX;
    return all ||
           (!POINT_FAILS(worker_rest, f) && recover_all(c, &sql_workers_recover, id, sum, f));
}

static bool declare_dead_and_recover(struct cleaner *c, const char *id, struct fault *f)
{
    char limit[RECOVER_LIMIT_BYTES];
    const char *const params[] = {id, recover_limit(c, limit)};
    struct recovered sum = {0};
    bool ok = !POINT_FAILS(worker_found_dead, f) && session_plain(c, f) &&
              declare_dead(c, params, &sum, f) && recover_rest(c, id, &sum, f);
    POINT(tasks_recovered);
    if (sum.tasks > 0) {
        log_event(LOG_INFO, LOG_EVENT("tasks_recovered"), LOG_TEXT("worker", id),
                  LOG_NUM("tasks", sum.tasks), LOG_NUM("dead", sum.dead));
    }
    return ok;
}

bool workers_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct verdict *v = &c->verdict;
    struct rows *rows = NULL;
    bool ok = true;
    if (!db_exec(c->hot, &sql_workers, NULL, 0, &rows, f)) {
        return false;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        verdict_lock_is_free(v, rows_text(rows, i, 0), turn->now_ms);
    }
    verdict_end(v);
    rows_free(rows);
    for (size_t i = 0; ok && i < v->n; i++) {
        ok = !verdict_is_dead(v, i, turn->now_ms) ||
             declare_dead_and_recover(c, v->suspects[i].id, f);
    }
    turn->more = v->n > 0;
    turn->next_ms = turn->more ? turn->now_ms + VERDICT_CHECK_MS : turn->next_ms;
    return ok;
}
