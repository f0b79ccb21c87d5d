#include "cleaner/chores.h"

#include "cleaner/statements.h"
#include "core/base/array.h"
#include "core/base/log.h"
#include "core/base/point.h"

enum { DEAD_BYTES_MAX = VERDICT_SUSPECTS_MAX * (VERDICT_ID_BYTES + 3) };

/* Of the suspects those that are dead, as an array; NULL = none is. */
static const char *dead_of(const struct verdict *v, int64_t now_ms, struct buf *b)
{
    bool any = false;
    array_begin(b);
    for (size_t i = 0; i < v->n; i++) {
        if (verdict_is_dead(v, i, now_ms)) {
            array_put_text(b, v->suspects[i].id);
            any = true;
        }
    }
    return any ? array_end(b) : NULL;
}

static void note_dead(struct cleaner *c, const struct rows *declared)
{
    for (size_t i = 0; i < rows_count(declared); i++) {
        log_event(LOG_WARNING, LOG_EVENT("worker_dead"),
                  LOG_TEXT("worker", rows_text(declared, i, 0)),
                  LOG_TEXT("host", rows_text(declared, i, 1)),
                  LOG_NUM("worker_pid", rows_int(declared, i, 2)));
    }
    c->counts.workers += (int64_t)rows_count(declared);
}

/* All at once, and then one pass for the tasks of all. If the answer is lost, so is the session:
 * the next leader begins with a pass. */
static bool declare_dead(struct cleaner *c, const char *ids, const struct turn *turn,
                         struct fault *f)
{
    struct rows *rows = NULL;
    const char *const params[] = {ids};
    if (POINT_FAILS(worker_found_dead, f) ||
        !db_exec(c->hot, &sql_workers_declare_dead, params, 1, &rows, f)) {
        return false;
    }
    if (rows_count(rows) > 0) { /* else somebody was faster */
        POINT(worker_declared_dead);
        note_dead(c, rows);
        pass_want(&c->pass);
        chores_hurry(c, CHORE_RECOVER, turn->now_ms);
    }
    rows_free(rows);
    return true;
}

static bool read_suspects(struct cleaner *c, const struct turn *turn, struct fault *f)
{
    struct rows *rows = NULL;
    if (!db_exec(c->hot, &sql_workers, NULL, 0, &rows, f)) {
        return false;
    }
    for (size_t i = 0; i < rows_count(rows); i++) {
        verdict_lock_is_free(&c->verdict, rows_text(rows, i, 0), turn->now_ms);
    }
    verdict_end(&c->verdict);
    rows_free(rows);
    return true;
}

bool workers_turn(struct cleaner *c, struct turn *turn, struct fault *f)
{
    struct buf b;
    if (!read_suspects(c, turn, f)) {
        return false;
    }
    buf_init(&b, DEAD_BYTES_MAX);
    const char *dead = dead_of(&c->verdict, turn->now_ms, &b);
    bool ok = b.failed ? fault_memory(f) : !dead || declare_dead(c, dead, turn, f);
    buf_clear(&b);
    turn->more = c->verdict.n > 0;
    turn->next_ms = turn->more ? turn->now_ms + VERDICT_CHECK_MS : turn->next_ms;
    return ok;
}
